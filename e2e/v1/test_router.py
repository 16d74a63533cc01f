"""What a router decides, as an HTTP service that the server calls."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from client import Client
from holds import check, equal, holds
from server import HOST, Server

# The decision of the example.
DECISION = {
    "label": "finance:classification",
    "target_topic": "tasks.finance.classify",
    "partition_override": None,
    "meta": {"source": "agno-router", "model": "gpt-4.1", "score": "0.92"},
}


class Router:
    """A service that answers every message with `decision`, or with `status`."""

    def __init__(self) -> None:
        self.decision: dict[str, Any] | None = DECISION
        self.status = 200
        self.messages: list[dict[str, Any]] = []
        router = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                router.messages += body["messages"]
                decisions = [router.decision for _ in body["messages"]]
                answer = json.dumps({"decisions": decisions}).encode()
                self.send_response(router.status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer((HOST, 0), Handler)
        self.url = f"http://{HOST}:{self._http.server_port}/route"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def __enter__(self) -> "Router":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()


@holds("V1-099", "V1-100", "V1-308", "V1-316", "V1-322", "V1-323", "V1-332", "V1-338", "V1-341",
       "V1-342", "V1-343", "V1-344", "V1-345", "V1-346", "V1-347", "V1-349", "V1-350", "V1-351",
       "V1-352", "V1-353", "V1-354", "V1-355", "V1-356", "V1-360", "V1-363", "V1-365", "V1-366",
       "V1-369", "V1-370", "V1-371")
def the_decision_of_a_router_is_followed_and_delivered(_: Client) -> None:
    with Router() as router, Server("--router-url", router.url) as own:
        client = own.client
        for topic in ("tasks.incoming", "tasks.finance.classify", "elsewhere"):
            equal(client.create_topic(topic, 2).status, 201, "create")
        envelope = {"run_id": "run_1", "target_topic": "elsewhere", "partition_override": 0}
        equal(client.produce("tasks.incoming", "invoice", envelope=envelope).status, 200, "produce")
        asked = router.messages[0]
        equal((asked["topic"], asked["value"]), ("tasks.incoming", "invoice"), "what it was asked")
        equal(asked["envelope"]["run_id"], "run_1", "the envelope that it got")
        with client.consume("tasks.finance.classify", "g", "o") as consumer:
            message = consumer.next()
            equal((message.value, message.envelope["run_id"]), ("invoice", "run_1"), "the message")
            equal(message.fields["routing"]["label"], DECISION["label"], "label")
            equal(message.fields["routing"]["meta"], DECISION["meta"], "meta")
        router.decision = {"label": "second", "partition_override": 1}
        equal(client.produce("tasks.incoming", "b", envelope=envelope).status, 200, "produce")
        with client.consume("elsewhere", "g", "o") as consumer:
            message = consumer.next()
            equal((message.partition, message.fields["routing"]["label"]), (1, "second"), "second")


@holds("V1-358", "V1-359")
def a_router_that_fails_fails_nothing_else(_: Client) -> None:
    with Router() as router, Server("--router-url", router.url) as own:
        client = own.client
        equal(client.create_topic("tasks.incoming", 1).status, 201, "create")
        router.status = 500
        equal(client.produce("tasks.incoming", "a").status, 200, "produce")
        with client.consume("tasks.incoming", "g", "o") as consumer:
            message = consumer.next()
            equal(message.value, "a", "value")
            check(not message.fields.get("routing"), f"routing of a failure: {message.line!r}")
        equal(client.healthz().status, 200, "health")


@holds("V1-266", "V1-368", needs="durable")
def a_decision_survives_a_restart(_: Client) -> None:
    with Router() as router, Server("--router-url", router.url) as own:
        for topic in ("tasks.incoming", "tasks.finance.classify"):
            equal(own.client.create_topic(topic, 1).status, 201, "create")
        equal(own.client.produce("tasks.incoming", "invoice").status, 200, "produce")
        own.restart()
        with own.client.consume("tasks.finance.classify", "g", "o") as consumer:
            routing = consumer.next().fields["routing"]
            equal((routing["label"], routing["meta"]), (DECISION["label"], DECISION["meta"]), "routing")
