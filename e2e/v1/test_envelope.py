"""The message envelope and the routing controls in it."""

from __future__ import annotations

import json

from client import Client
from holds import check, equal, holds, new_topic
from test_produce import full_envelope, rfc3339, same_envelope


@holds("V1-300", "V1-301")
def labels_and_dlq_are_rejected(client: Client) -> None:
    topic = new_topic(client)
    for envelope in ({"labels": {"env": "dev"}}, {"labels": {}}, {"dlq": "dlq.x"},
                     {"dlq": {"topic": "dlq.x"}}):
        answer = client.produce(topic, "v", envelope=envelope)
        equal(answer.status, 400, f"produce with {envelope} ({answer})")
    known = str(client.produce(topic, "v", envelope={"dlq": "dlq.x"}))
    check("run_id" in known and "labels" not in known and "headers" not in known,
          f"a rejection lists only fields that are accepted ({known})")
    with client.consume(topic, "g", "o") as consumer:
        check(consumer.poll(1.0) is None, "a rejected produce must not be delivered")


@holds("V1-302")
def envelope_is_optional(client: Client) -> None:
    topic = new_topic(client)
    equal(client.produce(topic, "bare").status, 200, "produce without an envelope")
    equal(client.produce(topic, "dressed", envelope={"run_id": "r"}).status, 200,
          "produce with an envelope")
    with client.consume(topic, "g", "o") as consumer:
        bare, dressed = consumer.next(), consumer.next()
        equal(bare.envelope, {}, "envelope of a message without one")
        equal(dressed.envelope.get("run_id"), "r", "run_id")


@holds("V1-303", "V1-336")
def envelope_does_not_change_the_payload(client: Client) -> None:
    topic = new_topic(client, 2)
    # A payload that looks like metadata is still only a payload.
    payload = json.dumps({"labels": {"a": 1}})[:20]
    envelope = {**full_envelope(topic), "idempotency_key": "payload-test"}
    equal(client.produce(topic, payload, envelope=envelope).status, 200, "produce")
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        equal(message.value, payload, "value")
        equal(message.key, "", "key")


@holds("V1-306", "V1-312", "V1-313", "V1-326")
def target_topic_selects_the_topic(client: Client) -> None:
    asked, target = new_topic(client), new_topic(client)
    answer = client.produce(asked, "v", envelope={"target_topic": target})
    equal(answer.status, 200, f"status ({answer})")
    with client.consume(target, "g", "o") as there, client.consume(asked, "g", "o") as here:
        equal(there.next().value, "v", "value")
        check(here.poll(1.0) is None, "the topic of the request must not get the message")


@holds("V1-325")
def without_target_topic_the_request_topic_is_used(client: Client) -> None:
    asked = new_topic(client)
    equal(client.produce(asked, "v", envelope={"run_id": "r"}).status, 200, "produce")
    with client.consume(asked, "g", "o") as consumer:
        equal(consumer.next().value, "v", "value")


@holds("V1-318")
def expired_deadline_is_rejected(client: Client) -> None:
    topic = new_topic(client)
    for deadline in ("2020-01-01T00:00:00Z", rfc3339(-5)):
        answer = client.produce(topic, "late", envelope={"deadline": deadline})
        check(answer.rejected, f"deadline {deadline}: {answer}")
    answer = client.produce(topic, "in-time", envelope={"deadline": rfc3339(3600)})
    equal(answer.status, 200, f"status ({answer})")
    with client.consume(topic, "g", "o") as consumer:
        equal(consumer.next().value, "in-time", "value")


@holds("V1-311")
def parent_step_id_is_optional(client: Client) -> None:
    topic = new_topic(client)
    alone = {"run_id": "run_1", "step_id": "step_2"}
    for envelope in (alone, {**alone, "parent_step_id": "step_1"}):
        equal(client.produce(topic, "v", envelope=envelope).status, 200, "produce")
    with client.consume(topic, "g", "o") as consumer:
        first, second = consumer.next().envelope, consumer.next().envelope
        equal(first.get("parent_step_id") or "", "", "parent_step_id that was left out")
        equal(second.get("parent_step_id"), "step_1", "parent_step_id")


@holds("V1-324")
def full_request_with_envelope_is_accepted(client: Client) -> None:
    topic = new_topic(client)
    answer = client.produce(topic, "value", key="key", envelope={"run_id": "run"})
    equal(answer.status, 200, f"status ({answer})")
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        equal((message.key, message.value), ("key", "value"), "key and value")
        equal(message.envelope.get("run_id"), "run", "run_id")


@holds("V1-335")
def example_envelope_is_accepted(client: Client) -> None:
    # The specification names this topic in its example.
    equal(client.create_topic("tasks.enrich", 2).status, 201, "create")
    topic = new_topic(client)
    # The deadline of the example has passed, so a later one takes its place.
    envelope = full_envelope("tasks.enrich")
    equal(client.produce(topic, "v", envelope=envelope).status, 200, "produce")
    with client.consume("tasks.enrich", "g", "o") as consumer:
        same_envelope(consumer.next().envelope, envelope)


@holds("V1-337", "V1-339", "V1-340")
def workflow_ids_stay_on_a_retry(client: Client) -> None:
    topic = new_topic(client)
    envelope = {"run_id": "run_9", "step_id": "summarize"}
    equal(client.produce(topic, "report", envelope=envelope).status, 200, "produce")
    with client.consume(topic, "g", "o") as consumer:
        first = consumer.next()
        same_envelope(first.envelope, envelope)
        equal(consumer.nack(first, "model busy").status, 204, "nack")
        second = consumer.next()
        equal(second.attempts, 2, "attempts")
        same_envelope(second.envelope, envelope)


@holds("V1-348", "V1-367")
def without_a_router_nothing_is_routed(client: Client) -> None:
    topic = new_topic(client, 2)
    equal(client.produce(topic, "v", envelope={"partition_override": 1}).status, 200, "produce")
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        equal(message.partition, 1, "partition")
        check(not message.fields.get("routing"), f"routing without a router: {message.line!r}")


@holds("V1-361")
def producer_controls_win_over_the_default(client: Client) -> None:
    asked, target = new_topic(client, 2), new_topic(client, 2)
    envelope = {"target_topic": target, "partition_override": 1}
    # Without the envelope an empty key means partition 0 of the asked topic.
    equal(client.produce(asked, "v", envelope=envelope).status, 200, "produce")
    with client.consume(target, "g", "o") as consumer:
        equal(consumer.next().partition, 1, "partition")
