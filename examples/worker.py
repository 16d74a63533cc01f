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

def effect(message):
    time.sleep(float(message["value"]))  # Longer than the lease? Call post("extend", token=token).
    try: pathlib.Path(message["id"]).touch(exist_ok=False)  # For an API: the id as idempotency key.
    except FileExistsError: pass  # An earlier attempt did it and died before its ack.

while True:
    for message in post("receive", topic=sys.argv[1], group=sys.argv[2], owner=f"py-{os.getpid()}")["messages"]:
        token = message["lease"]["token"]
        try: effect(message); post("ack", token=token)
        except Exception as failed: post("nack", token=token, reason=str(failed))
