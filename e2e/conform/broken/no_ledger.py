"""Does not use the ledger. Found by: ledger"""
import pathlib, sys
sys.path.append(str(pathlib.Path(__file__).parents[1] / "good"))

import json, worker


class Broken(worker.Worker):
    def handle(self, message, token):
        self.charge(message["value"], json.loads(message["value"])["id"])
        self.ack(token)


Broken().run()
