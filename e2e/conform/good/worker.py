"""A worker that `driftq conform` passes. The broken workers override one method each."""
import http.client, json, os, signal, threading, time, urllib.error, urllib.request, uuid

URL, PROVIDER = os.environ["DRIFTQ_URL"], os.environ["PROVIDER_URL"]
TOPIC, GROUP = os.environ["DRIFTQ_TOPIC"], os.environ["DRIFTQ_GROUP"]
OWNER = f"py-{os.getpid()}"
LOST = (OSError, http.client.HTTPException)  # The connection broke, so the outcome is unknown.


class Rejected(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status} {body}")
        self.status, self.body = status, body


class Worker:
    stopping = False

    def send(self, path, body):
        """Sends one request. Raises one of LOST if it has no response."""
        request = urllib.request.Request(f"{URL}/v1/{path}", json.dumps(body).encode())
        try:
            return json.loads(urllib.request.urlopen(request, timeout=60).read() or "null")
        except urllib.error.HTTPError as error:
            raise Rejected(error.code, json.loads(error.read() or "null"))

    def post(self, path, **body):
        """Repeats a request until it has a response. The server recognizes tokens and nonces."""
        while True:
            try:
                return self.send(path, body)
            except Rejected as rejected:
                if rejected.status not in (429, 503):
                    raise
            except LOST:
                pass
            time.sleep(0.1)

    def begin(self, message, token):
        nonce = uuid.uuid4().hex
        return self.post("effects/begin", lease_token=token, owner=OWNER, on_doubt="retry", nonce=nonce)

    def charge(self, value, key):
        headers = {"Idempotency-Key": key}
        request = urllib.request.Request(f"{PROVIDER}/charges", value.encode(), headers)
        return json.loads(urllib.request.urlopen(request, timeout=60).read())

    def renew(self, token, done):
        while not done.wait(1):
            try:
                self.post("extend", token=token)
            except Rejected:
                return  # The lease is lost. The ledger rejects what this attempt still sends.

    def replay(self, message, begun):
        """The outcome is recorded, so nothing is left to do."""

    def finish(self, message, token, result):
        self.post("effects/finish", token=token, status="SUCCEEDED", result=result)

    def execute(self, message, begun):
        try:
            result = self.charge(message["value"], begun["downstream_key"])
        except Exception as error:  # It may have happened.
            self.post("effects/finish", token=begun["token"], status="UNKNOWN", error=str(error))
            raise
        self.finish(message, begun["token"], result)

    def ack(self, token):
        self.post("ack", token=token)

    def handle(self, message, token):
        begun = self.begin(message, token)
        if begun["decision"] == "REPLAY":
            self.replay(message, begun)
        else:
            self.execute(message, begun)
        self.ack(token)

    def process(self, message):
        token, done = message["lease"]["token"], threading.Event()
        threading.Thread(target=self.renew, args=(token, done), daemon=True).start()
        try:
            self.handle(message, token)
        except Rejected as rejected:
            # Another attempt has the message or the effect. If this one still has the lease, release it.
            self.settle_failed(token, release=True, delay_ms=(rejected.body or {}).get("retry_after_ms", 1000))
        except Exception as error:
            self.settle_failed(token, reason=str(error))
        finally:
            done.set()

    def settle_failed(self, token, **how):
        try:
            self.post("nack", token=token, **how)
        except Rejected:
            pass  # The lease is lost.

    def stop(self, *_):
        self.stopping = True

    def run(self):
        signal.signal(signal.SIGTERM, self.stop)
        while not self.stopping:
            received = self.post("receive", topic=TOPIC, group=GROUP, owner=OWNER, wait_ms=2000)
            for message in received["messages"]:
                self.process(message)


if __name__ == "__main__":
    Worker().run()
