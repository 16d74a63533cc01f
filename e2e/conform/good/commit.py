"""Records the outcome and acks in one commit."""
import worker


class Worker(worker.Worker):
    def finish(self, message, token, result):
        self.effects.append({"token": token, "status": "SUCCEEDED", "result": result})

    def handle(self, message, token):
        self.effects = []
        begun = self.begin(message, token)
        if begun["decision"] != "REPLAY":
            self.execute(message, begun)
        self.post("commit", token=token, effects=self.effects)


Worker().run()
