"""Settles its message as done when it is stopped. Found by: shutdown"""
import pathlib, sys
sys.path.append(str(pathlib.Path(__file__).parents[1] / "good"))

import sys, worker


class Broken(worker.Worker):
    def execute(self, message, begun):
        self.in_hand = (message, begun)
        super().execute(message, begun)

    def stop(self, *_):
        message, begun = self.in_hand
        self.finish(message, begun["token"], None)
        self.ack(message["lease"]["token"])
        sys.exit()


Broken().run()
