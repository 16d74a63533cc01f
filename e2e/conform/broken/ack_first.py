"""Acks before the effect, and begins the effect without the delivery. Found by: crash-before-effect"""
import pathlib, sys
sys.path.append(str(pathlib.Path(__file__).parents[1] / "good"))

import json, worker


class Broken(worker.Worker):
    def handle(self, message, token):
        self.ack(token)
        key = json.loads(message["value"])["id"]
        begun = self.post("effects/begin", scope="op/charge", key=key, on_doubt="retry")
        if begun["decision"] != "REPLAY":
            self.execute(message, begun)


Broken().run()
