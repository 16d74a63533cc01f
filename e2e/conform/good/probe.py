"""Asks the provider if the outcome of an earlier attempt is unknown."""
import json, urllib.error, urllib.request, uuid, worker


class Worker(worker.Worker):
    def begin(self, message, token):
        nonce = uuid.uuid4().hex
        return self.post("effects/begin", lease_token=token, owner=worker.OWNER, on_doubt="probe", nonce=nonce)

    def execute(self, message, begun):
        if begun["decision"] != "IN_DOUBT":
            return super().execute(message, begun)
        try:
            url = f"{worker.PROVIDER}/charges/{begun['downstream_key']}"
            result = json.loads(urllib.request.urlopen(url, timeout=60).read())
        except urllib.error.HTTPError as error:
            if error.code == 404:
                self.post("effects/finish", token=begun["token"], status="FAILED_RETRYABLE")
            raise
        self.finish(message, begun["token"], result)


Worker().run()
