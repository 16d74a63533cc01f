"""Does not extend the lease during a long charge. Found by: slow-effect"""
import pathlib, sys
sys.path.append(str(pathlib.Path(__file__).parents[1] / "good"))

import worker


class Broken(worker.Worker):
    def renew(self, token, done):
        pass


Broken().run()
