"""Produce requests by JSON and by query, and what the consumer gets."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from client import Client
from holds import check, equal, holds, new_topic


def rfc3339(delay_seconds: float) -> str:
    time = datetime.now(timezone.utc) + timedelta(seconds=delay_seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_rfc3339(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def full_envelope(target_topic: str) -> dict[str, Any]:
    return {
        "run_id": "run_123",
        "step_id": "step_7",
        "parent_step_id": "step_3",
        "tenant_id": "tenant_a",
        "idempotency_key": "tenant_a:run_123:step_7",
        "target_topic": target_topic,
        "partition_override": 1,
        "deadline": rfc3339(3600),
        "retry_policy": {"max_attempts": 5, "backoff_ms": 250, "max_backoff_ms": 5000},
    }


def same_envelope(got: dict[str, Any], want: dict[str, Any]) -> None:
    for name, value in want.items():
        if name == "deadline":
            # The same instant may be written in more than one way.
            check(isinstance(got.get(name), str), f"deadline must be a string: {got}")
            equal(parse_rfc3339(got[name]), parse_rfc3339(value), "deadline")
        else:
            equal(got.get(name), value, name)


@holds("V1-012", "V1-037", "V1-039", "V1-040")
def json_produce_delivers_key_and_value(client: Client) -> None:
    topic = new_topic(client)
    equal(client.produce(topic, "payload", key="user:1").status, 200, "status")
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        equal(message.value, "payload", "value")
        equal(message.key, "user:1", "key")
        consumer.ack(message)
        check(consumer.poll(1.0) is None, "one produce is one message")


@holds("V1-071", "V1-072", "V1-073")
def produce_returns_status_and_topic(client: Client) -> None:
    topic = new_topic(client)
    for answer in (client.produce(topic, "v"), client.produce_by_query(topic, "v")):
        equal(answer.status, 200, f"status ({answer})")
        equal(answer.body.get("status"), "produced", f"status field ({answer})")
        equal(answer.body.get("topic"), topic, f"topic ({answer})")


@holds("V1-038")
def key_is_optional(client: Client) -> None:
    topic = new_topic(client)
    equal(client.produce(topic, "no-key").status, 200, "status")
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        equal(message.value, "no-key", "value")
        equal(message.key, "", "key")


@holds("V1-056")
def query_produce_delivers_key_and_value(client: Client) -> None:
    topic = new_topic(client)
    # Characters that need an escape in a query must arrive as they are.
    answer = client.produce_by_query(topic, "a b&c=d+%", key="k/1")
    equal(answer.status, 200, f"status ({answer})")
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        equal(message.value, "a b&c=d+%", "value")
        equal(message.key, "k/1", "key")


@holds("V1-054", "V1-055")
def query_requires_topic_and_value(client: Client) -> None:
    topic = new_topic(client)
    for query in ({"topic": topic}, {"value": "v"}):
        answer = client.request("POST", "/v1/produce", query=query)
        check(answer.rejected, f"produce with {query}: {answer}")
    with client.consume(topic, "g", "o") as consumer:
        check(consumer.poll(1.0) is None, "a rejected produce must not be delivered")


@holds("V1-041", "V1-042", "V1-043", "V1-044", "V1-045", "V1-046", "V1-047", "V1-048", "V1-049",
       "V1-050", "V1-051", "V1-052", "V1-053", "V1-101", "V1-102", "V1-103", "V1-104", "V1-105",
       "V1-106", "V1-107", "V1-108", "V1-109", "V1-110", "V1-304", "V1-309", "V1-310", "V1-320",
       "V1-321", "V1-331")
def json_envelope_reaches_the_consumer(client: Client) -> None:
    source, target = new_topic(client), new_topic(client, 2)
    envelope = full_envelope(target)
    answer = client.produce(source, "v", envelope=envelope)
    equal(answer.status, 200, f"status ({answer})")
    with client.consume(target, "g", "o") as consumer:
        message = consumer.next()
        equal(message.partition, 1, "partition")
        check(isinstance(message.fields.get("envelope"), dict), "envelope must be an object")
        same_envelope(message.envelope, envelope)


@holds("V1-057", "V1-058", "V1-059", "V1-060", "V1-062", "V1-064", "V1-065", "V1-068", "V1-069",
       "V1-070")
def query_envelope_reaches_the_consumer(client: Client) -> None:
    source, target = new_topic(client), new_topic(client, 2)
    envelope = full_envelope(target)
    query = {name: value for name, value in envelope.items() if name != "retry_policy"}
    for name, value in envelope["retry_policy"].items():
        query["retry_" + name] = value
    answer = client.produce_by_query(source, "v", **query)
    equal(answer.status, 200, f"status ({answer})")
    with client.consume(target, "g", "o") as consumer:
        message = consumer.next()
        equal(message.partition, 1, "partition")
        same_envelope(message.envelope, envelope)


@holds("V1-061", "V1-063")
def query_aliases_set_tenant_and_idempotency_key(client: Client) -> None:
    topic = new_topic(client)
    answer = client.produce_by_query(topic, "v", tenant="tenant_b", idem_key="key-1")
    equal(answer.status, 200, f"status ({answer})")
    with client.consume(topic, "g", "o") as consumer:
        envelope = consumer.next().envelope
        equal(envelope.get("tenant_id"), "tenant_b", "tenant_id")
        equal(envelope.get("idempotency_key"), "key-1", "idempotency_key")


@holds("V1-066", "V1-067")
def query_deadline_is_an_rfc3339_time(client: Client) -> None:
    topic = new_topic(client)
    for deadline in ("tomorrow", "1766318400", rfc3339(-60)):
        answer = client.produce_by_query(topic, "bad", deadline=deadline)
        check(answer.rejected, f"deadline {deadline}: {answer}")
    deadline = "2199-12-21T14:00:00+02:00"
    answer = client.produce_by_query(topic, "good", deadline=deadline)
    equal(answer.status, 200, f"deadline {deadline} ({answer})")
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        equal(message.value, "good", "value")
        same_envelope(message.envelope, {"deadline": deadline})


@holds("V1-057", "V1-058", "V1-059", "V1-060", "V1-062", "V1-064", "V1-065")
def each_envelope_parameter_may_stand_alone(client: Client) -> None:
    topic, target = new_topic(client, 2), new_topic(client)
    alone = {"run_id": "r", "step_id": "s", "parent_step_id": "p", "tenant_id": "t",
             "idempotency_key": "k", "target_topic": target, "partition_override": 1,
             "deadline": rfc3339(3600)}
    for name, value in alone.items():
        answer = client.produce_by_query(topic, name[:9], **{name: value})
        equal(answer.status, 200, f"status with {name} alone ({answer})")
        into = target if name == "target_topic" else topic
        with client.consume(into, "g", "o") as consumer:
            message = consumer.next()
            equal(message.value, name[:9], "value")
            same_envelope(message.envelope, {name: value})
            equal(consumer.ack(message).status, 204, "ack")


def alone(client: Client, name: str, value: int) -> None:
    """Produce with a retry policy that has one field only."""
    for as_json in (True, False):
        topic = new_topic(client)
        if as_json:
            answer = client.produce(topic, "v", envelope={"retry_policy": {name: value}})
        else:
            answer = client.produce_by_query(topic, "v", **{"retry_" + name: value})
        equal(answer.status, 200, f"status with {name}={value} alone ({answer})")
        with client.consume(topic, "g", "o") as consumer:
            policy = consumer.next().envelope.get("retry_policy") or {}
            equal(policy.get(name), value, name)


@holds("V1-068")
def max_attempts_may_stand_alone(client: Client) -> None:
    alone(client, "max_attempts", 2)


@holds("V1-069")
def backoff_may_stand_alone(client: Client) -> None:
    alone(client, "backoff_ms", 1000)


@holds("V1-070")
def max_backoff_may_stand_alone(client: Client) -> None:
    alone(client, "max_backoff_ms", 100)


@holds("V1-417")
def max_backoff_may_be_below_backoff(client: Client) -> None:
    topic = new_topic(client)
    # The greatest delay is a cap, so it may be lower than the first delay.
    policy = {"max_attempts": 5, "backoff_ms": 60000, "max_backoff_ms": 300}
    answer = client.produce(topic, "v", envelope={"retry_policy": policy})
    equal(answer.status, 200, f"status ({answer})")
