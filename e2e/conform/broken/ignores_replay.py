"""Charges again although the outcome is recorded. Found by: duplicate-delivery"""
import pathlib, sys
sys.path.append(str(pathlib.Path(__file__).parents[1] / "good"))

import uuid, worker


class Broken(worker.Worker):
    def replay(self, message, begun):
        self.charge(message["value"], uuid.uuid4().hex)


Broken().run()
