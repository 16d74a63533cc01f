"""Consumer groups, the choice of a consumer and the in-flight limit."""

from __future__ import annotations

import time

from client import Client, Consumer, Message
from holds import check, equal, eventually, holds, new_topic

# Shorter than the ack timeout, so that no redelivery can come in between.
BEFORE_TIMEOUT = 1.4


def produce(client: Client, topic: str, value: str, partition: int | None = None) -> None:
    envelope = None if partition is None else {"partition_override": partition}
    answer = client.produce(topic, value, envelope=envelope)
    equal(answer.status, 200, f"status of producing {value} ({answer})")


def produce_when_there_is_room(client: Client, topic: str, value: str) -> None:
    # The place of an acked message may become free a moment after its ack.
    eventually(lambda: client.produce(topic, value).status == 200, f"room for {value}")


def fill_past_the_buffer(client: Client, topic: str, count: int) -> None:
    """Put more messages on a partition than it buffers, for a group to come.

    A first group acks each message, so there is room for the next one. A group
    that comes later has no offset yet and starts at the first message.
    """
    with client.consume(topic, "first-group", "o") as consumer:
        for number in range(count):
            produce_when_there_is_room(client, topic, f"v{number}")
            equal(consumer.ack(consumer.next()).status, 204, "ack of the first group")


def whoever_gets_it(consumers: list[Consumer], timeout: float = 15.0) -> tuple[Consumer, Message]:
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        for consumer in consumers:
            message = consumer.poll(0.01)
            if message is not None:
                return consumer, message
    raise AssertionError(f"no consumer got a message within {timeout:g} s")


@holds("V1-144", "V1-199", "V1-200")
def message_waits_for_its_consumer(client: Client) -> None:
    topic = new_topic(client)
    produce(client, topic, "early")
    time.sleep(0.5)
    with client.consume(topic, "g", "o") as consumer:
        equal(consumer.next().value, "early", "value")


@holds("V1-146", "V1-157")
def each_group_gets_every_message(client: Client) -> None:
    topic = new_topic(client)
    with client.consume(topic, "g1", "o") as one, client.consume(topic, "g2", "o") as two:
        produce(client, topic, "v")
        message = one.next()
        equal(message.value, "v", "value in the first group")
        equal(one.ack(message).status, 204, "ack in the first group")
        # The ack of one group leaves the other group where it was.
        message = two.next()
        equal(message.value, "v", "value in the second group")
        again = two.next()
        equal(again.attempts, 2, "attempts in the second group")
        equal(two.ack(again).status, 204, "ack in the second group")
        check(one.poll(0.2) is None, "the first group is done with the message")


@holds("V1-160")
def same_group_name_on_two_topics_is_two_groups(client: Client) -> None:
    one, two = new_topic(client), new_topic(client)
    produce(client, one, "one")
    produce(client, two, "two")
    with client.consume(one, "g", "o") as first, client.consume(two, "g", "o") as second:
        a, b = first.next(), second.next()
        equal([a.value, b.value], ["one", "two"], "values")
        equal((a.partition, a.offset), (b.partition, b.offset), "place in the topic")
        # The same place is acked in one topic only.
        equal(first.ack(a).status, 204, "ack")
        equal(second.next().attempts, 2, "attempts in the other topic")
        check(first.poll(0.2) is None, "an acked message must not come back")


@holds("V1-147", "V1-161", "V1-163")
def one_consumer_of_a_group_gets_each_delivery(client: Client) -> None:
    topic = new_topic(client)
    consumers = [client.consume(topic, "g", f"o{number}") for number in range(3)]
    try:
        for number in range(6):
            produce_when_there_is_room(client, topic, f"v{number}")
            consumer, message = whoever_gets_it(consumers)
            equal(message.value, f"v{number}", "value")
            # No other consumer may get this delivery, before or after the ack.
            others = [other for other in consumers if other is not consumer]
            check(all(other.poll(0.15) is None for other in others), "a second consumer got it")
            equal(consumer.ack(message).status, 204, "ack")
            check(all(other.poll(0.05) is None for other in others), "a second consumer got it")
    finally:
        for consumer in consumers:
            consumer.close()


@holds("V1-164")
def consumers_take_turns(client: Client) -> None:
    topic = new_topic(client)
    consumers = [client.consume(topic, "g", f"o{number}") for number in range(3)]
    try:
        turns = []
        for number in range(9):
            produce_when_there_is_room(client, topic, f"v{number}")
            consumer, message = whoever_gets_it(consumers)
            turns.append(consumer.owner)
            equal(consumer.ack(message).status, 204, "ack")
        equal(len(set(turns[:3])), 3, f"consumers in the first round of {turns}")
        equal(turns[3:6], turns[:3], "second round")
        equal(turns[6:], turns[:3], "third round")
    finally:
        for consumer in consumers:
            consumer.close()


@holds("V1-162")
def closed_consumer_leaves_the_group(client: Client) -> None:
    topic = new_topic(client)
    stays, leaves = client.consume(topic, "g", "stays"), client.consume(topic, "g", "leaves")
    try:
        leaves.close()
        for number in range(4):
            produce_when_there_is_room(client, topic, f"v{number}")
            message = stays.next()
            equal(message.value, f"v{number}", "value")
            equal(stays.ack(message).status, 204, "ack")
    finally:
        stays.close()


@holds("V1-167")
def new_group_starts_at_the_first_message(client: Client) -> None:
    topic = new_topic(client)
    fill_past_the_buffer(client, topic, 2)
    with client.consume(topic, "later", "o") as consumer:
        equal([consumer.next().value, consumer.next().value], ["v0", "v1"], "values")


@holds("V1-148", "V1-165", "V1-214")
def progress_is_kept_per_topic_group_and_partition(client: Client) -> None:
    topic = new_topic(client, 2)
    for partition in (0, 1):
        produce(client, topic, f"p{partition}", partition)
    with client.consume(topic, "g", "o") as consumer:
        messages = {message.partition: message for message in (consumer.next(), consumer.next())}
        equal(sorted(messages), [0, 1], "partitions")
        # The greater offset is acked; the other partition is not affected.
        equal(consumer.ack(messages[1]).status, 204, "ack in partition 1")
        again = consumer.next()
        equal((again.partition, again.attempts), (0, 2), "partition and attempts")
        equal(consumer.ack(again).status, 204, "ack in partition 0")
    with client.consume(topic, "g", "o") as consumer:
        check(consumer.poll(BEFORE_TIMEOUT) is None, "the group has acked both partitions")
    with client.consume(topic, "other", "o") as consumer:
        consumer.next()


@holds("V1-135", "V1-175", "V1-177")
def two_messages_may_be_in_flight(client: Client) -> None:
    topic = new_topic(client)
    fill_past_the_buffer(client, topic, 4)
    with client.consume(topic, "g", "o") as consumer:
        equal([consumer.next().value, consumer.next().value], ["v0", "v1"], "values")
        third = consumer.poll(BEFORE_TIMEOUT)
        check(third is None, f"a third message was delivered: {third}")


@holds("V1-178")
def in_flight_limit_holds_until_an_ack(client: Client) -> None:
    topic = new_topic(client)
    fill_past_the_buffer(client, topic, 4)
    with client.consume(topic, "g", "o") as consumer:
        first, second = consumer.next(), consumer.next()
        # Timed out messages are still unacked, so they still count.
        end = time.monotonic() + 5.0
        while time.monotonic() < end:
            message = consumer.poll(0.1)
            check(message is None or message.offset in (first.offset, second.offset),
                  f"offsets {first.offset} and {second.offset} are unacked, but got {message}")


@holds("V1-136", "V1-176")
def in_flight_limit_counts_each_partition_and_group_alone(client: Client) -> None:
    topic, other_topic = new_topic(client, 2), new_topic(client)
    for partition in (0, 1):
        for number in range(2):
            produce(client, topic, f"p{partition}-{number}", partition)
    for number in range(2):
        produce(client, other_topic, f"other-{number}")
    with client.consume(topic, "g1", "o") as one, client.consume(topic, "g2", "o") as two, \
            client.consume(other_topic, "g1", "o") as three:
        for consumer, count in ((one, 4), (two, 4), (three, 2)):
            messages = [consumer.next() for _ in range(count)]
            equal(len({message.value for message in messages}), count, "different values")
            # Before the first timeout all of them are in flight together.
            spread = messages[-1].at - messages[0].at
            check(spread < BEFORE_TIMEOUT,
                  f"{count} messages on {consumer.topic} took {spread:.2f} s; values in order: "
                  f"{[message.value for message in messages]}")


@holds("V1-176")
def in_flight_limit_is_shared_by_the_consumers_of_a_group(client: Client) -> None:
    topic = new_topic(client)
    fill_past_the_buffer(client, topic, 5)
    with client.consume(topic, "g", "a") as one, client.consume(topic, "g", "b") as two:
        consumers = [one, two]
        for _ in range(2):
            whoever_gets_it(consumers)
        for consumer in consumers:
            third = consumer.poll(BEFORE_TIMEOUT / 2)
            check(third is None, f"a third message was delivered: {third}")


@holds("V1-155", "V1-235")
def full_partition_does_not_stop_another(client: Client) -> None:
    topic = new_topic(client, 2)
    for number in range(2):
        produce(client, topic, f"full-{number}", 0)
    with client.consume(topic, "g", "o") as consumer:
        consumer.next()
        consumer.next()
        # Partition 0 has two messages in flight; partition 1 has none.
        produce(client, topic, "free", 1)
        equal(consumer.next(BEFORE_TIMEOUT).value, "free", "value")


@holds("V1-158", "V1-174", "V1-179")
def ack_lets_the_next_message_out(client: Client) -> None:
    topic = new_topic(client)
    fill_past_the_buffer(client, topic, 3)
    with client.consume(topic, "g", "o") as consumer:
        first, second = consumer.next(), consumer.next()
        check(consumer.poll(0.5) is None, "two messages are in flight")
        equal(consumer.ack(first).status, 204, "ack")
        third = consumer.next(BEFORE_TIMEOUT)
        equal(third.value, "v2", "value")
        equal(consumer.ack(second).status, 204, "ack")


@holds("V1-282")
def ack_moves_the_group_forward(client: Client) -> None:
    topic = new_topic(client)
    produce(client, topic, "v0")
    produce(client, topic, "v1")
    with client.consume(topic, "g", "o") as consumer:
        first = consumer.next()
        equal(consumer.ack(first).status, 204, "ack")
    with client.consume(topic, "g", "o2") as consumer:
        message = consumer.next()
        equal(message.value, "v1", "value after the acked one")
        equal(consumer.ack(message).status, 204, "ack")
        check(consumer.poll(3.0) is None, "acked messages must not come back")
