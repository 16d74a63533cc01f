"""The limits of a partition and the overload response."""

from __future__ import annotations

from client import Answer, Client
from holds import check, equal, eventually, holds, new_topic


def overloaded(answer: Answer, what: str) -> None:
    equal(answer.status, 429, f"status of {what} ({answer})")
    equal(answer.body.get("error"), "RESOURCE_EXHAUSTED", f"error of {what}")


def accepted(answer: Answer, what: str) -> None:
    equal(answer.status, 200, f"status of {what} ({answer})")


@holds("V1-074", "V1-075", "V1-076", "V1-077", "V1-079", "V1-189", "V1-190")
def full_partition_is_answered_with_429(client: Client) -> None:
    topic = new_topic(client)
    for _ in range(2):
        accepted(client.produce(topic, "v"), "a message within the limit")
    for answer in (client.produce(topic, "v"), client.produce_by_query(topic, "v")):
        overloaded(answer, "the third message")
        seconds, body = answer.headers.get("retry-after", ""), answer.body
        check(seconds.isdigit() and int(seconds) >= 1, f"Retry-After is {seconds!r}")
        check(isinstance(body.get("message"), str) and body["message"] != "",
              f"message must be text: {answer}")
        check(type(body.get("retry_after_ms")) is int and body["retry_after_ms"] > 0,
              f"retry_after_ms must be a number: {answer}")
        # Both name one delay; the header has whole seconds only.
        check(0 <= int(seconds) * 1000 - body["retry_after_ms"] < 1000,
              f"Retry-After {seconds} and {body['retry_after_ms']} ms differ")


@holds("V1-078")
def overload_has_the_reason_overloaded(client: Client) -> None:
    topic = new_topic(client)
    for _ in range(2):
        accepted(client.produce(topic, "v"), "a message within the limit")
    answer = client.produce(topic, "v")
    overloaded(answer, "the third message")
    equal(answer.body.get("reason"), "overloaded", f"reason ({answer})")


@holds("V1-140", "V1-184", "V1-185")
def third_message_is_rejected(client: Client) -> None:
    topic = new_topic(client)
    for _ in range(2):
        accepted(client.produce(topic, "v"), "a message within the limit")
    overloaded(client.produce(topic, "v"), "the third message")
    # An acked message is no longer buffered, so its place becomes free.
    with client.consume(topic, "g", "o") as consumer:
        equal(consumer.ack(consumer.next()).status, 204, "ack")
        eventually(lambda: client.produce(topic, "v").status == 200, "a place for a message")
        overloaded(client.produce(topic, "v"), "one message more")


@holds("V1-141", "V1-186")
def byte_limit_is_twenty(client: Client) -> None:
    exact, parts = new_topic(client), new_topic(client)
    accepted(client.produce(exact, "x" * 20), "20 bytes")
    accepted(client.produce(parts, "x" * 10), "10 bytes")
    overloaded(client.produce(parts, "x" * 11), "11 bytes after 10")
    accepted(client.produce(parts, "x" * 10), "10 bytes after 10")
    # Bytes are counted, not characters: each of these letters has two.
    wide = new_topic(client)
    accepted(client.produce(wide, "é" * 5), "5 letters of 2 bytes")
    overloaded(client.produce(wide, "é" * 5 + "x"), "11 bytes after 10")
    accepted(client.produce(wide, "é" * 5), "10 bytes after 10")


@holds("V1-189")
def one_message_over_the_byte_limit_is_429(client: Client) -> None:
    overloaded(client.produce(new_topic(client), "x" * 21), "21 bytes in one message")


@holds("V1-187")
def key_counts_toward_the_bytes(client: Client) -> None:
    topic = new_topic(client)
    accepted(client.produce(topic, "x" * 4, key="k" * 6), "10 bytes of key and value")
    overloaded(client.produce(topic, "x" * 5, key="k" * 6), "11 bytes of key and value")
    accepted(client.produce(topic, "x" * 5, key="k" * 5), "10 bytes of key and value")
    # The envelope is not part of the size.
    accepted(client.produce(new_topic(client), "x" * 20, envelope={"run_id": "r" * 100}),
             "20 bytes with an envelope")


@holds("V1-139")
def limits_hold_for_each_partition_alone(client: Client) -> None:
    topic = new_topic(client, 2)
    for partition in (0, 1):
        envelope = {"partition_override": partition}
        for _ in range(2):
            accepted(client.produce(topic, "x" * 10, envelope=envelope),
                     f"10 bytes in partition {partition}")
        overloaded(client.produce(topic, "v", envelope=envelope),
                   f"the third message in partition {partition}")


@holds("V1-188")
def rejected_message_is_never_delivered(client: Client) -> None:
    topic = new_topic(client)
    for number in range(2):
        accepted(client.produce(topic, f"v{number}"), "a message within the limit")
    overloaded(client.produce(topic, "too-many"), "the third message")
    with client.consume(topic, "g", "o") as consumer:
        for number in range(2):
            message = consumer.next()
            equal(message.value, f"v{number}", "value")
            consumer.ack(message)
        check(consumer.poll(1.5) is None, "a rejected message must not be delivered")
