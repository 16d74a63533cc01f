"""Idempotency keys on produce."""

from __future__ import annotations

import threading
import time
from typing import Any

from client import Answer, Client, Consumer
from holds import check, equal, holds, new_topic


def envelope(key: str, tenant: str | None = None) -> dict[str, Any]:
    fields = {"idempotency_key": key}
    if tenant is not None:
        fields["tenant_id"] = tenant
    return fields


def values_of(consumer: Consumer, count: int) -> list[str]:
    """The values of `count` messages, and a check that no other comes."""
    values = []
    for _ in range(count):
        message = consumer.next()
        values.append(message.value)
        equal(consumer.ack(message).status, 204, "ack")
    extra = consumer.poll(1.0)
    check(extra is None, f"more than {count} messages: {extra}")
    return values


@holds("V1-317", "V1-398", "V1-399", "V1-400")
def repeated_key_is_accepted_but_not_enqueued(client: Client) -> None:
    topic = new_topic(client)
    for _ in range(4):
        answer = client.produce(topic, "v", envelope=envelope("k", "t"))
        equal(answer.status, 200, f"status ({answer})")
        equal(answer.body.get("status"), "produced", "status field")
    with client.consume(topic, "g", "o") as consumer:
        equal(values_of(consumer, 1), ["v"], "values")
        # The key stays known when the message is done.
        equal(client.produce(topic, "v", envelope=envelope("k", "t")).status, 200, "status")
        equal(values_of(consumer, 0), [], "values after the ack")


@holds("V1-399")
def repeated_key_with_another_value_is_accepted_but_not_enqueued(client: Client) -> None:
    topic = new_topic(client)
    equal(client.produce(topic, "first", envelope=envelope("k")).status, 200, "first produce")
    # The identity is tenant, topic and key; the value is no part of it.
    answer = client.produce(topic, "second", envelope=envelope("k"))
    equal(answer.status, 200, f"status of a repeated key ({answer})")
    with client.consume(topic, "g", "o") as consumer:
        equal(values_of(consumer, 1), ["first"], "values")


@holds("V1-387", "V1-389")
def tenant_topic_and_key_make_the_identity(client: Client) -> None:
    topic, other_topic = new_topic(client), new_topic(client)
    # Each produce differs from the first one in one part of the identity.
    for place, key, tenant in ((topic, "k", "t1"), (topic, "k", "t2"), (other_topic, "k", "t1"),
                               (other_topic, "k2", "t1")):
        answer = client.produce(place, "v", envelope=envelope(key, tenant))
        equal(answer.status, 200, f"status ({answer})")
    for place in (topic, other_topic):
        with client.consume(place, "g", "o") as consumer:
            equal(values_of(consumer, 2), ["v", "v"], f"values of {place}")


@holds("V1-388")
def empty_tenant_is_a_tenant(client: Client) -> None:
    topic = new_topic(client)
    for tenant in (None, "", "t"):
        answer = client.produce(topic, "v", envelope=envelope("k", tenant))
        equal(answer.status, 200, f"status with tenant {tenant!r} ({answer})")
    # No tenant and an empty one are the same; "t" is another.
    with client.consume(topic, "g", "o") as consumer:
        equal(values_of(consumer, 2), ["v", "v"], "values")


@holds("V1-388")
def empty_tenant_differs_from_each_named_tenant(client: Client) -> None:
    # The name `default` stands for no tenant, see Differences.
    for name in ("t", "none"):
        topic = new_topic(client)
        equal(client.produce(topic, "v", envelope=envelope("k")).status, 200, "no tenant")
        answer = client.produce(topic, "v", envelope=envelope("k", name))
        equal(answer.status, 200, f"status with tenant {name} ({answer})")
        with client.consume(topic, "g", "o") as consumer:
            equal(values_of(consumer, 2), ["v", "v"], "values")


@holds("V1-390")
def empty_key_means_no_deduplication(client: Client) -> None:
    topic = new_topic(client)
    for _ in range(2):
        answer = client.produce(topic, "v", envelope=envelope("", "t"))
        equal(answer.status, 200, f"status ({answer})")
    with client.consume(topic, "g", "o") as consumer:
        equal(values_of(consumer, 2), ["v", "v"], "values")


@holds("V1-401", "V1-403")
def concurrent_produces_enqueue_one_message(client: Client) -> None:
    for _ in range(5):
        topic, answers = new_topic(client), []
        start = threading.Barrier(8)

        def produce(into: list[Answer]) -> None:
            start.wait()
            into.append(client.produce(topic, "v", envelope=envelope("k")))

        threads = [threading.Thread(target=produce, args=(answers,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(len(answers), 8, "answers")
        # A duplicate is rejected while the first produce is pending and
        # succeeds once it is committed. Nothing else can happen to it.
        check(any(answer.status == 200 for answer in answers), "no produce succeeded")
        check(all(answer.status == 200 or answer.rejected for answer in answers),
              f"answers: {[str(answer) for answer in answers]}")
        with client.consume(topic, "g", "o") as consumer:
            equal(values_of(consumer, 1), ["v"], "values")


@holds("V1-397", "V1-402")
def key_of_a_failed_produce_can_be_used_again(client: Client) -> None:
    topic = new_topic(client)
    for _ in range(2):
        equal(client.produce(topic, "fill").status, 200, "produce")
    refused = client.produce(topic, "v", envelope=envelope("k"))
    equal(refused.status, 429, f"status of a produce to a full partition ({refused})")
    out_of_range = client.produce(topic, "v", envelope={**envelope("k2"), "partition_override": 9})
    check(out_of_range.rejected, f"produce out of range: {out_of_range}")
    with client.consume(topic, "g", "o") as consumer:
        equal(values_of(consumer, 2), ["fill", "fill"], "values")
        for key in ("k", "k2"):
            answer = client.produce(topic, "v", envelope=envelope(key))
            equal(answer.status, 200, f"status of the retry of {key} ({answer})")
        equal(values_of(consumer, 2), ["v", "v"], "values")


@holds("V1-377", "V1-379", "V1-412", "V1-438")
def delivery_carries_what_a_worker_needs_to_deduplicate(client: Client) -> None:
    topic = new_topic(client)
    answer = client.produce(topic, "charge", envelope=envelope("order-1", "t"))
    equal(answer.status, 200, f"status ({answer})")
    done: set[tuple[str, str, str]] = set()
    effects = 0
    with client.consume(topic, "g", "o") as consumer:
        for attempt in (1, 2):
            message = consumer.next()
            equal(message.attempts, attempt, "attempts")
            identity = (message.envelope["tenant_id"], topic, message.envelope["idempotency_key"])
            equal(identity, ("t", topic, "order-1"), "identity")
            if identity not in done:
                effects += 1
                done.add(identity)
        # The first ack was lost; the second delivery is acked without an effect.
        equal(consumer.ack(message).status, 204, "ack")
    equal(effects, 1, "side effects")


@holds("V1-142", needs="slow")
def key_is_forgotten_after_ten_minutes(client: Client) -> None:
    topic = new_topic(client)
    produced = time.monotonic()
    equal(client.produce(topic, "v", envelope=envelope("k")).status, 200, "first produce")
    with client.consume(topic, "g", "o") as consumer:
        equal(values_of(consumer, 1), ["v"], "values")
        time.sleep(produced + 580.0 - time.monotonic())
        equal(client.produce(topic, "v", envelope=envelope("k")).status, 200, "before the end")
        equal(values_of(consumer, 0), [], "values before the end")
        time.sleep(produced + 630.0 - time.monotonic())
        equal(client.produce(topic, "v", envelope=envelope("k")).status, 200, "after the end")
        equal(values_of(consumer, 1), ["v"], "values after the end")
