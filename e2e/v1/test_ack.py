"""Ack and nack: fields, ownership and effect."""

from __future__ import annotations

from typing import Any

from client import Answer, Client, Consumer, Message
from holds import check, equal, holds, new_topic

# Longer than the ack timeout, so that a redelivery would have come.
QUIET = 4.0


def not_owner(answer: Answer) -> None:
    equal(answer.status, 409, f"status ({answer})")
    equal(answer.body.get("error"), "FAILED_PRECONDITION", f"error ({answer})")
    equal(answer.body.get("message"), "not owner", f"message ({answer})")


def place(consumer: Consumer, message: Message) -> dict[str, Any]:
    return {"topic": consumer.topic, "group": consumer.group, "partition": message.partition,
            "offset": message.offset, "owner": consumer.owner}


@holds("V1-014", "V1-111", "V1-118", "V1-150", "V1-203", "V1-408", "V1-435")
def ack_stops_redelivery(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g", "o") as consumer:
        answer = consumer.ack(consumer.next())
        equal(answer.status, 204, f"status ({answer})")
        equal(answer.raw, b"", "body")
        check(consumer.poll(QUIET) is None, "an acked message must not come back")


@holds("V1-117", "V1-202")
def ack_by_query_returns_204(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g", "o") as consumer:
        answer = consumer.ack(consumer.next(), as_json=False)
        equal(answer.status, 204, f"status ({answer})")
        check(consumer.poll(QUIET) is None, "an acked message must not come back")


def _needs_every_field(client: Client, path: str) -> None:
    topic, other_topic = new_topic(client, 2), new_topic(client, 2)
    client.produce(topic, "v", envelope={"partition_override": 1})
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        right = place(consumer, message)
        others = {"topic": other_topic, "group": "other", "partition": 0,
                  "offset": message.offset + 100, "owner": "other"}
        for name, value in others.items():
            # A message at the wrong place has no owner.
            answer = client.request("POST", path, fields={**right, name: value})
            check(answer.rejected, f"{path} with {name}={value}: {answer}")
        for name in right:
            fields = {field: value for field, value in right.items() if field != name}
            answer = client.request("POST", path, fields=fields)
            # A missing partition or offset could be read as 0, which is
            # another place than the one of this message.
            if name != "offset":
                check(answer.rejected, f"{path} without {name}: {answer}")
        message = consumer.next()
        equal(client.request("POST", path, fields=place(consumer, message)).status, 204,
              "status with all fields")


@holds("V1-111")
def owner_may_ack_after_its_stream_is_closed(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
    answer = consumer.ack(message)
    equal(answer.status, 204, f"status ({answer})")
    with client.consume(topic, "g", "o") as consumer:
        check(consumer.poll(QUIET) is None, "an acked message must not come back")


@holds("V1-112", "V1-113", "V1-114", "V1-115", "V1-116")
def ack_needs_every_field(client: Client) -> None:
    _needs_every_field(client, "/v1/ack")


@holds("V1-124", "V1-125", "V1-126", "V1-127", "V1-128")
def nack_needs_every_field(client: Client) -> None:
    _needs_every_field(client, "/v1/nack")


@holds("V1-015", "V1-119", "V1-120", "V1-121", "V1-375")
def ack_by_another_owner_is_409(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g", "owner") as consumer:
        message = consumer.next()
        for as_json in (True, False):
            not_owner(client.ack(topic, "g", message.partition, message.offset, "stranger",
                                 as_json=as_json))
        # The refused acks had no effect: the message comes back.
        again = consumer.next()
        equal(again.offset, message.offset, "offset")
        equal(consumer.ack(again).status, 204, "ack by the owner")


@holds("V1-017", "V1-132", "V1-133", "V1-134", "V1-376")
def nack_by_another_owner_is_409(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g", "owner") as consumer:
        message = consumer.next()
        for as_json in (True, False):
            not_owner(client.nack(topic, "g", message.partition, message.offset, "stranger",
                                  "not-mine", as_json=as_json))
        again = consumer.next()
        check(again.last_error != "not-mine", "a refused nack must not record its reason")
        equal(consumer.nack(again, "mine").status, 204, "nack by the owner")
        equal(consumer.next().last_error, "mine", "last_error")


@holds("V1-372")
def only_the_consumer_with_the_lease_may_ack(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    first = client.consume(topic, "g", "a")
    message = first.next()
    # The other owner and the other group hold no lease on this message.
    not_owner(client.ack(topic, "g", message.partition, message.offset, "b"))
    first.close()
    with client.consume(topic, "g", "b") as second:
        again = second.next()
        equal(again.offset, message.offset, "offset")
        # The lease is now with b, so a has lost the message.
        not_owner(client.ack(topic, "g", message.partition, message.offset, "a"))
        equal(second.ack(again).status, 204, "ack by the new owner")


@holds("V1-016", "V1-122", "V1-123", "V1-129", "V1-131", "V1-384", "V1-410", "V1-422", "V1-424",
       "V1-436")
def nack_redelivers_with_the_reason(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g", "o") as consumer:
        first = consumer.next()
        answer = consumer.nack(first, "db_deadlock")
        equal(answer.status, 204, f"status ({answer})")
        equal(answer.raw, b"", "body")
        second = consumer.next()
        equal(second.offset, first.offset, "offset")
        equal(second.attempts, 2, "attempts")
        equal(second.last_error, "db_deadlock", "last_error")


@holds("V1-130")
def nack_by_query_redelivers_with_the_reason(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g", "o") as consumer:
        first = consumer.next()
        answer = consumer.nack(first, "no upstream & co", as_json=False)
        equal(answer.status, 204, f"status ({answer})")
        second = consumer.next()
        equal(second.offset, first.offset, "offset")
        equal(second.last_error, "no upstream & co", "last_error")


@holds("V1-437")
def ack_after_a_nack_stops_the_retries(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g", "o") as consumer:
        equal(consumer.nack(consumer.next(), "first try").status, 204, "nack")
        second = consumer.next()
        equal(second.attempts, 2, "attempts")
        equal(consumer.ack(second).status, 204, "ack")
        check(consumer.poll(QUIET) is None, "an acked message must not come back")


@holds("V1-385", "V1-421")
def last_error_is_the_latest_reason(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g", "o") as consumer:
        for number in range(3):
            message = consumer.next()
            equal(message.last_error, f"reason {number - 1}" if number else "", "last_error")
            consumer.nack(message, f"reason {number}")


@holds("V1-428")
def last_error_belongs_to_one_message(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "fails")
    client.produce(topic, "waits")
    with client.consume(topic, "g", "o") as consumer:
        fails, waits = consumer.next(), consumer.next()
        equal([fails.value, waits.value], ["fails", "waits"], "values")
        consumer.nack(fails, "only this one")
        errors: dict[str, str] = {}
        while len(errors) < 2:
            message = consumer.next()
            errors.setdefault(message.value, message.last_error)
        equal(errors["fails"], "only this one", "last_error of the nacked message")
        check(errors["waits"] != "only this one", f"last_error of the other: {errors}")


@holds("V1-170", "V1-171", "V1-278")
def second_ack_is_accepted(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        equal(consumer.ack(message).status, 204, "first ack")
        answer = consumer.ack(message)
        equal(answer.status, 204, f"second ack ({answer})")
        check(consumer.poll(QUIET) is None, "an acked message must not come back")


@holds("V1-172", "V1-173", "V1-279")
def late_ack_of_a_lower_offset_ends_its_redelivery(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "lower")
    client.produce(topic, "higher")
    with client.consume(topic, "g", "o") as consumer:
        lower, higher = consumer.next(), consumer.next()
        check(lower.offset < higher.offset, "the lower offset comes first")
        equal(consumer.ack(higher).status, 204, "ack of the higher offset")
        equal(consumer.ack(lower).status, 204, "late ack of the lower offset")
        check(consumer.poll(QUIET) is None, "acked messages must not come back")
