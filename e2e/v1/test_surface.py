"""Routes, methods, error bodies, health and version."""

from __future__ import annotations

import server
from client import Client
from holds import check, equal, holds, new_topic

# Method, path and fields of a complete request to each plain endpoint.
# Consume is left out: its answer is a stream that does not end.
PLAIN = [("GET", "/v1/healthz"), ("GET", "/v1/version"), ("GET", "/v1/topics"),
         ("POST", "/v1/topics"), ("POST", "/v1/produce"), ("POST", "/v1/ack"),
         ("POST", "/v1/nack")]


@holds("V1-001")
def every_endpoint_answers_under_v1(client: Client) -> None:
    for method, path in PLAIN + [("GET", "/v1/consume")]:
        # Without fields most endpoints reject the request, but they know it.
        answer = client.request(method, path)
        check(answer.status not in (404, 405, 501), f"{method} {path}: {answer}")
        check(answer.status < 500, f"{method} {path}: {answer}")


@holds("V1-002", "V1-003")
def fields_are_taken_from_json_or_query(client: Client) -> None:
    for as_json in (True, False):
        name = f"forms-{as_json}".lower()
        equal(client.create_topic(name, 1, as_json=as_json).status, 201, "create")
        if as_json:
            equal(client.produce(name, "v").status, 200, "produce by JSON")
        else:
            equal(client.produce_by_query(name, "v").status, 200, "produce by query")
        with client.consume(name, "g", "o", as_json=as_json) as consumer:
            message = consumer.next()
            equal(consumer.nack(message, "again", as_json=as_json).status, 204, "nack")
            message = consumer.next()
            equal(consumer.ack(message, as_json=as_json).status, 204, "ack")


@holds("V1-004")
def unknown_json_fields_are_rejected_with_400(client: Client) -> None:
    topic = new_topic(client)
    place = {"topic": topic, "group": "g", "partition": 0, "offset": 0, "owner": "o"}
    requests = [
        ("POST", "/v1/topics", {"name": "unknown-field", "partitions": 1}),
        ("POST", "/v1/produce", {"topic": topic, "value": "v"}),
        ("GET", "/v1/consume", {"topic": topic, "group": "g", "owner": "o"}),
        ("POST", "/v1/ack", place),
        ("POST", "/v1/nack", {**place, "reason": "r"}),
    ]
    for method, path, fields in requests:
        answer = client.request(method, path, fields={**fields, "surprise": 1})
        equal(answer.status, 400, f"{method} {path} with an unknown field ({answer})")
    for envelope in ({"surprise": 1}, {"retry_policy": {"surprise": 1}}):
        answer = client.produce(topic, "v", envelope=envelope)
        equal(answer.status, 400, f"produce with {envelope} ({answer})")
    check("unknown-field" not in client.topics().body["topics"],
          "a rejected request must not create a topic")


@holds("V1-005")
def paths_without_v1_are_not_served(client: Client) -> None:
    for method, path in PLAIN + [("GET", "/v1/consume")]:
        answer = client.request(method, path.removeprefix("/v1"))
        check(answer.rejected, f"{method} {path.removeprefix('/v1')}: {answer}")
    answer = client.request("POST", "/topics", fields={"name": "unversioned", "partitions": 1})
    check(answer.rejected, f"POST /topics: {answer}")
    check("unversioned" not in client.topics().body["topics"],
          "a route without /v1 must not create a topic")


@holds("V1-006")
def no_other_path_is_served(client: Client) -> None:
    served = []
    for path in ("/", "/metrics", "/health", "/readyz", "/debug/pprof", "/v0/topics",
                 "/v2/topics"):
        answer = client.request("GET", path)
        if not answer.rejected:
            served.append(f"GET {path}: {str(answer)[:120]!r}")
    equal(served, [], "paths outside /v1")


@holds("V1-020")
def wrong_method_is_405_with_allow(client: Client) -> None:
    wrong = [("POST", "/v1/healthz", "GET"), ("POST", "/v1/version", "GET"),
             ("DELETE", "/v1/topics", "GET"), ("DELETE", "/v1/topics", "POST"),
             ("GET", "/v1/produce", "POST"), ("DELETE", "/v1/consume", "GET"),
             ("GET", "/v1/ack", "POST"), ("GET", "/v1/nack", "POST")]
    for method, path, right in wrong:
        answer = client.request(method, path)
        equal(answer.status, 405, f"{method} {path} ({answer})")
        allow = [name.strip() for name in answer.headers.get("allow", "").split(",")]
        check(right in allow, f"{method} {path}: Allow is {allow}, want {right}")


@holds("V1-018", "V1-019")
def errors_carry_code_and_message(client: Client) -> None:
    topic = new_topic(client)
    answers = [
        client.request("POST", "/v1/topics", fields={"surprise": 1}),
        client.request("POST", "/v1/produce", fields={"topic": topic, "value": "v", "no": 1}),
        client.request("GET", "/v1/consume"),
        client.request("POST", "/v1/ack"),
        client.request("POST", "/v1/nack"),
    ]
    for answer in answers:
        check(answer.rejected, f"want an error, got {answer}")
        code, message = answer.body.get("error"), answer.body.get("message")
        check(isinstance(code, str) and code != "" and code == code.upper(),
              f"error must be a code: {answer}")
        check(isinstance(message, str) and message != "", f"message must be text: {answer}")


@holds("V1-007", "V1-021", "V1-022")
def healthz_returns_200_ok(client: Client) -> None:
    answer = client.healthz()
    equal(answer.status, 200, "status")
    equal(answer.body.get("status"), "ok", f"status field ({answer})")


@holds("V1-008", "V1-023", "V1-024", "V1-025")
def version_returns_build_fields(client: Client) -> None:
    answer = client.version()
    equal(answer.status, 200, "status")
    for name in ("version", "commit"):
        value = answer.body.get(name)
        check(isinstance(value, str) and value != "", f"{name} must be a string: {answer}")


@holds("V1-009", "V1-026")
def version_tells_whether_state_survives(client: Client) -> None:
    # The engine that loses its state on a restart is the one without a WAL.
    equal(client.version().body.get("wal_enabled"), server.durable(), "wal_enabled")
