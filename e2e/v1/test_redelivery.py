"""Timeouts, attempts and the retry policy."""

from __future__ import annotations

import time
from typing import Any

from client import Client
from holds import check, equal, holds, new_topic

ACK_TIMEOUT = 2.0
# The reader may see the first of two lines a little late.
EARLY = 0.1


def produce(client: Client, topic: str, policy: dict[str, Any] | None = None) -> None:
    envelope = None if policy is None else {"retry_policy": policy}
    answer = client.produce(topic, "v", envelope=envelope)
    equal(answer.status, 200, f"status ({answer})")


@holds("V1-137", "V1-151", "V1-159", "V1-180", "V1-183", "V1-411", "V1-413", "V1-418")
def unacked_message_comes_back_after_two_seconds(client: Client) -> None:
    topic = new_topic(client)
    produce(client, topic)
    with client.consume(topic, "g", "o") as consumer:
        first = consumer.next()
        second = consumer.next()
        equal((second.partition, second.offset), (first.partition, first.offset), "place")
        equal(second.value, first.value, "value")
        check(second.at - first.at >= ACK_TIMEOUT - EARLY,
              f"redelivered after {second.at - first.at:.2f} s")
        check(second.at - first.at <= 6.0, f"redelivered after {second.at - first.at:.2f} s")


@holds("V1-138")
def redelivery_is_checked_every_250_ms(client: Client) -> None:
    topic = new_topic(client)
    produce(client, topic)
    with client.consume(topic, "g", "o") as consumer:
        last, delays = consumer.next(), []
        for _ in range(3):
            message = consumer.next()
            delays.append(message.at - last.at - ACK_TIMEOUT)
            last = message
        # One slow redelivery may be the machine; three of them are a slow check.
        check(min(delays) <= 0.25 + 0.5, f"seconds after the timeout: {delays}")


@holds("V1-181")
def redelivery_stays_in_the_group(client: Client) -> None:
    topic = new_topic(client)
    produce(client, topic)
    with client.consume(topic, "done", "o") as other, client.consume(topic, "g", "o") as consumer:
        equal(other.ack(other.next()).status, 204, "ack of the other group")
        consumer.next()
        equal(consumer.next().attempts, 2, "attempts in the group without an ack")
        check(other.poll(0.5) is None, "the other group must not get the redelivery")


@holds("V1-206")
def redelivery_may_reach_another_consumer(client: Client) -> None:
    topic = new_topic(client)
    produce(client, topic)
    first = client.consume(topic, "g", "a")
    message = first.next()
    first.close()
    with client.consume(topic, "g", "b") as second:
        again = second.next()
        equal(again.offset, message.offset, "offset")
        equal(again.attempts, 2, "attempts")


@holds("V1-182", "V1-204", "V1-205", "V1-238", "V1-242", "V1-378", "V1-380", "V1-381", "V1-434")
def attempts_count_the_deliveries(client: Client) -> None:
    topic = new_topic(client)
    produce(client, topic)
    with client.consume(topic, "g", "o") as consumer:
        for attempt in (1, 2, 3):
            message = consumer.next()
            equal(message.attempts, attempt, "attempts")


@holds("V1-182")
def attempts_count_the_deliveries_after_nacks(client: Client) -> None:
    topic = new_topic(client)
    produce(client, topic)
    with client.consume(topic, "g", "o") as consumer:
        for attempt in (1, 2, 3, 4):
            message = consumer.next()
            equal(message.attempts, attempt, "attempts")
            equal(consumer.nack(message, "again").status, 204, "nack")


@holds("V1-382")
def waiting_does_not_raise_attempts(client: Client) -> None:
    topic = new_topic(client)
    produce(client, topic)
    time.sleep(ACK_TIMEOUT + 1.0)
    with client.consume(topic, "g", "o") as consumer:
        equal(consumer.next().attempts, 1, "attempts of a first delivery")


@holds("V1-207")
def ack_after_a_redelivery_ends_the_retries(client: Client) -> None:
    topic = new_topic(client)
    produce(client, topic)
    with client.consume(topic, "g", "o") as consumer:
        consumer.next()
        second = consumer.next()
        equal(second.attempts, 2, "attempts")
        equal(consumer.ack(second).status, 204, "ack")
        check(consumer.poll(4.0) is None, "an acked message must not come back")


@holds("V1-423")
def timeout_may_set_ack_timeout(client: Client) -> None:
    topic = new_topic(client)
    produce(client, topic)
    with client.consume(topic, "g", "o") as consumer:
        equal(consumer.next().last_error, "", "last_error of the first delivery")
        error = consumer.next().last_error
        check(error in ("", "ack_timeout"), f"last_error after a timeout: {error!r}")


@holds("V1-414", "V1-415", "V1-419")
def max_attempts_limits_the_deliveries(client: Client) -> None:
    by_timeout, by_nack = new_topic(client), new_topic(client)
    policy = {"max_attempts": 2, "backoff_ms": 1, "max_backoff_ms": 1}
    produce(client, by_timeout, policy)
    produce(client, by_nack, policy)
    with client.consume(by_timeout, "g", "o") as silent, \
            client.consume(by_nack, "g", "o") as failing:
        for attempt in (1, 2):
            message = failing.next()
            equal(message.attempts, attempt, "attempts after nacks")
            equal(failing.nack(message, "no").status, 204, "nack")
        for attempt in (1, 2):
            equal(silent.next().attempts, attempt, "attempts after timeouts")
        check(silent.poll(5.0) is None, "a third delivery after two timeouts")
        check(failing.poll(0.2) is None, "a third delivery after two nacks")
        # The group goes on with the next message.
        produce(client, by_nack)
        equal(failing.next().attempts, 1, "attempts of the next message")


@holds("V1-319")
def short_backoff_makes_a_quick_retry(client: Client) -> None:
    # The retry must follow backoff_ms and not wait for the ack timeout.
    topic = new_topic(client)
    produce(client, topic, {"max_attempts": 10, "backoff_ms": 1, "max_backoff_ms": 1})
    with client.consume(topic, "g", "o") as consumer:
        message, delays = consumer.next(), []
        for _ in range(3):
            nacked = time.monotonic()
            equal(consumer.nack(message, "r").status, 204, "nack")
            message = consumer.next()
            delays.append(message.at - nacked)
        check(min(delays) < 1.5, f"backoff_ms is 1, but the retries came after {delays} s")


@holds("V1-417")
def max_backoff_caps_the_delay(client: Client) -> None:
    topic = new_topic(client)
    # Whether the delay grows is not promised; if it does, then up to the cap.
    produce(client, topic, {"max_attempts": 20, "backoff_ms": 300, "max_backoff_ms": 300})
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        for _ in range(8):
            nacked = time.monotonic()
            equal(consumer.nack(message, "r").status, 204, "nack")
            message = consumer.next(60.0)
            delay = message.at - nacked
            check(delay <= 5.0, f"max_backoff_ms is 300, but the retry came after {delay:.2f} s")


@holds("V1-429", "V1-430", "V1-431", "V1-432", "V1-433")
def exhausted_message_goes_to_the_dlq_topic(client: Client) -> None:
    topic = new_topic(client)
    envelope = {"tenant_id": "acme", "idempotency_key": "order-77",
                "retry_policy": {"max_attempts": 2, "backoff_ms": 1, "max_backoff_ms": 1}}
    equal(client.produce(topic, "v", envelope=envelope).status, 200, "status")
    with client.consume(f"dlq.{topic}", "g", "o") as dead:
        with client.consume(topic, "g", "o") as consumer:
            for _ in range(2):
                last = consumer.next()
                equal(consumer.nack(last, reason="db_deadlock").status, 204, "nack")
            letter = dead.next()
        origin = letter.fields["dlq"]["origin"]
        equal((origin["topic"], origin["partition"], origin["offset"]),
              (topic, last.partition, last.offset), "origin")
        equal((letter.attempts, letter.last_error), (2, "db_deadlock"), "attempts and last_error")
        sent = letter.envelope
        equal((sent["tenant_id"], sent["idempotency_key"]), ("acme", "order-77"), "envelope")
