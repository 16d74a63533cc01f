"""Names the effect by the id of the message, which a redrive changes. Found by: redrive"""
import pathlib, sys
sys.path.append(str(pathlib.Path(__file__).parents[1] / "good"))

import worker


class Broken(worker.Worker):
    def begin(self, message, token):
        return self.post("effects/begin", lease_token=token, key=message["id"], on_doubt="retry")


Broken().run()
