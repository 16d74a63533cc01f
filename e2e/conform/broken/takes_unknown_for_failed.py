"""Records a charge without a response as failed, and asks for a new key. Found by: unknown-outcome"""
import pathlib, sys
sys.path.append(str(pathlib.Path(__file__).parents[1] / "good"))

import worker


class Broken(worker.Worker):
    def execute(self, message, begun):
        try:
            result = self.charge(message["value"], begun["downstream_key"])
        except Exception:
            self.post("effects/finish", token=begun["token"], status="FAILED_RETRYABLE", downstream_key="renew")
            raise
        self.finish(message, begun["token"], result)


Broken().run()
