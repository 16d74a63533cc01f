"""Sends an ack again and again, also one that was rejected. Found by: slow-ack"""
import pathlib, sys
sys.path.append(str(pathlib.Path(__file__).parents[1] / "good"))

import time, worker


class Broken(worker.Worker):
    def ack(self, token):
        while True:
            try:
                return super().ack(token)
            except worker.Rejected:
                time.sleep(0.1)


Broken().run()
