"""Exits if a response is lost, instead of sending the request again. Found by: lost-reply"""
import pathlib, sys
sys.path.append(str(pathlib.Path(__file__).parents[1] / "good"))

import sys, worker


class Broken(worker.Worker):
    def post(self, path, **body):
        try:
            return self.send(path, body)
        except worker.LOST as error:
            sys.exit(f"{path}: {error}")


Broken().run()
