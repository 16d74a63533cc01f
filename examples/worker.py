"""A worker without an SDK: python3 worker.py TOPIC GROUP"""
import http.client, json, os, pathlib, sys, time, urllib.error, urllib.request
URL = os.environ.get("DRIFTQ_URL", "http://127.0.0.1:8080")

def post(path, **body):
    while True:  # Retry on no answer, 429 and 503. Every call is safe to repeat.
        try:
            request = urllib.request.Request(f"{URL}/v1/{path}", json.dumps(body).encode())
            return json.loads(urllib.request.urlopen(request, timeout=60).read() or "null")
        except urllib.error.HTTPError as refused:
            if refused.code == 409: return  # Another attempt has the message now: discard the result.
            if refused.code not in (429, 503): sys.exit(refused.read().decode())
        except (OSError, http.client.HTTPException): pass
        time.sleep(0.2)

def effect(message, key):
    time.sleep(float(message["value"]))  # Longer than the lease? Call post("extend", token=token).
    try: pathlib.Path(message["origin_id"]).touch(exist_ok=False)  # For an API: `key` as idempotency key.
    except FileExistsError: pass  # An earlier attempt did it and died before it could say so.

def handle(message, token, owner):
    begun = post("effects/begin", lease_token=token, owner=owner, on_doubt="retry")
    if not begun: return  # Another worker has the effect.
    if begun["decision"] == "EXECUTE":  # Otherwise it has succeeded before, also before a redrive.
        effect(message, begun["downstream_key"])
        post("effects/finish", token=begun["token"], status="SUCCEEDED")
    post("ack", token=token)

while True:
    owner = f"py-{os.getpid()}"
    for message in post("receive", topic=sys.argv[1], group=sys.argv[2], owner=owner)["messages"]:
        token = message["lease"]["token"]
        try: handle(message, token, owner)
        except Exception as failed: post("nack", token=token, reason=str(failed))
