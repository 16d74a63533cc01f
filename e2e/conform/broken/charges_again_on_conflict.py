"""Takes a rejected finish for a failed charge and charges again. Found by: stale-finish"""
import pathlib, sys
sys.path.append(str(pathlib.Path(__file__).parents[1] / "good"))

import uuid, worker


class Broken(worker.Worker):
    def finish(self, message, token, result):
        try:
            super().finish(message, token, result)
        except worker.Rejected:
            self.charge(message["value"], uuid.uuid4().hex)
            raise


Broken().run()
