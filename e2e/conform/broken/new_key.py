"""Sends the provider a new key in every attempt. Found by: crash-after-effect"""
import pathlib, sys
sys.path.append(str(pathlib.Path(__file__).parents[1] / "good"))

import uuid, worker


class Broken(worker.Worker):
    def charge(self, value, key):
        return super().charge(value, uuid.uuid4().hex)


Broken().run()
