"""Receives from a stream."""
import json, signal, time, urllib.request, worker


class Worker(worker.Worker):
    def run(self):
        signal.signal(signal.SIGTERM, self.stop)
        url = f"{worker.URL}/v1/consume?topic={worker.TOPIC}&group={worker.GROUP}&owner={worker.OWNER}&prefetch=1"
        while not self.stopping:
            try:
                with urllib.request.urlopen(url, timeout=60) as stream:
                    for line in stream:
                        if line.strip():
                            self.process(json.loads(line))
                        if self.stopping:
                            return
            except worker.LOST:
                time.sleep(0.1)


Worker().run()
