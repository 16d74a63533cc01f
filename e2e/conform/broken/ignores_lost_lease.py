"""Charges although the begin was rejected. Found by: lost-lease"""
import pathlib, sys
sys.path.append(str(pathlib.Path(__file__).parents[1] / "good"))

import json, worker


class Broken(worker.Worker):
    def begin(self, message, token):
        try:
            return super().begin(message, token)
        except worker.Rejected:
            self.charge(message["value"], json.loads(message["value"])["id"])
            raise


Broken().run()
