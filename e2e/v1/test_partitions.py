"""The choice of a partition, offsets and order."""

from __future__ import annotations

from client import Client, Message
from holds import check, equal, eventually, holds, new_topic


def produce(client: Client, topic: str, value: str, key: str | None = None,
            partition: int | None = None) -> None:
    envelope = None if partition is None else {"partition_override": partition}
    answer = client.produce(topic, value, key=key, envelope=envelope)
    equal(answer.status, 200, f"status of producing {value} ({answer})")


def partition_of(client: Client, topic: str, key: str) -> int:
    """Produce one message with the key, take it off and return its partition."""
    with client.consume(topic, "g", "o") as consumer:
        eventually(lambda: client.produce(topic, "v", key=key).status == 200, "room")
        message = consumer.next()
        equal(message.key, key, "key")
        equal(consumer.ack(message).status, 204, "ack")
        return message.partition


@holds("V1-143", "V1-208")
def topic_has_as_many_partitions_as_asked(client: Client) -> None:
    for count in (1, 4):
        topic = new_topic(client, count)
        for partition in range(count):
            produce(client, topic, f"p{partition}", partition=partition)
        beyond = client.produce(topic, "v", envelope={"partition_override": count})
        check(beyond.rejected, f"partition {count} of {count}: {beyond}")
        with client.consume(topic, "g", "o") as consumer:
            got = sorted(consumer.next().partition for _ in range(count))
            equal(got, list(range(count)), "partitions")


@holds("V1-210", "V1-215", "V1-231")
def message_is_in_one_partition(client: Client) -> None:
    topic = new_topic(client, 3)
    produce(client, topic, "v", key="user:1")
    with client.consume(topic, "g", "o") as consumer:
        first = consumer.next()
        check(first.partition in (0, 1, 2), f"partition {first.partition}")
        again = consumer.next()
        # The only other delivery is the same message after its timeout.
        equal((again.partition, again.offset), (first.partition, first.offset), "place")
        equal(again.attempts, 2, "attempts")


@holds("V1-153", "V1-211", "V1-240", "V1-241")
def partition_is_delivered_in_offset_order(client: Client) -> None:
    topic = new_topic(client)
    with client.consume(topic, "g", "o") as consumer:
        got: list[Message] = []
        for pair in range(4):
            # Two at a time, so that both wait in the partition together.
            for number in (2 * pair, 2 * pair + 1):
                eventually(lambda: client.produce(topic, f"v{number}").status == 200, "room")
            for _ in range(2):
                got.append(consumer.next())
                equal(consumer.ack(got[-1]).status, 204, "ack")
        equal([message.value for message in got], [f"v{n}" for n in range(8)], "values")
        offsets = [message.offset for message in got]
        equal(offsets, sorted(set(offsets)), "offsets")
    # A group that comes later walks through the same order.
    with client.consume(topic, "later", "o") as consumer:
        equal([consumer.next().value, consumer.next().value], ["v0", "v1"], "values")


@holds("V1-156", "V1-218")
def offsets_increase_within_a_partition(client: Client) -> None:
    topic = new_topic(client)
    with client.consume(topic, "g", "o") as consumer:
        last = -1
        for number in range(4):
            eventually(lambda: client.produce(topic, f"v{number}").status == 200, "room")
            message = consumer.next()
            check(message.offset > last, f"offset {message.offset} after {last}")
            last = message.offset
            equal(consumer.ack(message).status, 204, "ack")


@holds("V1-216", "V1-227", "V1-243")
def same_key_goes_to_the_same_partition(client: Client) -> None:
    topic = new_topic(client, 8)
    for key in ("user:1", "user:2", "k"):
        partitions = {partition_of(client, topic, key) for _ in range(3)}
        equal(len(partitions), 1, f"number of partitions for {key}")


@holds("V1-230")
def same_key_goes_to_the_same_partition_of_another_topic(client: Client) -> None:
    one, two = new_topic(client, 8), new_topic(client, 8)
    for key in ("user:1", "user:2", "k"):
        equal(partition_of(client, one, key), partition_of(client, two, key), f"partition of {key}")


@holds("V1-226", "V1-228", "V1-244", "V1-327")
def keys_spread_over_the_partitions(client: Client) -> None:
    topic = new_topic(client, 3)
    partitions = {partition_of(client, topic, f"user:{number}") for number in range(20)}
    # Twenty keys in one partition of three would be no hash of the key.
    check(len(partitions) >= 2, f"twenty keys went to {partitions}")
    check(partitions <= {0, 1, 2}, f"twenty keys went to {partitions}")


@holds("V1-229", "V1-328", "V1-362")
def empty_key_goes_to_partition_zero(client: Client) -> None:
    topic = new_topic(client, 5)
    produce(client, topic, "none")
    produce(client, topic, "empty", key="")
    with client.consume(topic, "g", "o") as consumer:
        got = {message.value: message.partition for message in (consumer.next(), consumer.next())}
        equal(got, {"none": 0, "empty": 0}, "partitions")


@holds("V1-217", "V1-223", "V1-307", "V1-314")
def override_selects_the_partition(client: Client) -> None:
    topic = new_topic(client, 3)
    for partition in (2, 0, 1):
        produce(client, topic, f"to-{partition}", partition=partition)
    with client.consume(topic, "g", "o") as consumer:
        for _ in range(3):
            message = consumer.next()
            equal(message.value, f"to-{message.partition}", "value")


@holds("V1-222", "V1-246", "V1-329", "V1-364")
def override_wins_over_the_key(client: Client) -> None:
    topic = new_topic(client, 3)
    own = partition_of(client, topic, "user:1")
    with client.consume(topic, "g", "o") as consumer:
        for partition in [other for other in (0, 1, 2) if other != own] + [2]:
            produce(client, topic, "v", key="user:1", partition=partition)
            message = consumer.next()
            equal(message.partition, partition, "partition")
            equal(message.key, "user:1", "key")
            equal(consumer.ack(message).status, 204, "ack")


@holds("V1-224", "V1-225", "V1-247", "V1-315")
def override_out_of_range_fails(client: Client) -> None:
    topic = new_topic(client, 2)
    for partition in (-1, 2, 3):
        by_json = client.produce(topic, "v", envelope={"partition_override": partition})
        check(by_json.rejected, f"override {partition} by JSON: {by_json}")
        by_query = client.produce_by_query(topic, "v", partition_override=partition)
        check(by_query.rejected, f"override {partition} by query: {by_query}")
    with client.consume(topic, "g", "o") as consumer:
        check(consumer.poll(1.0) is None, "a failed produce must not be delivered")


@holds("V1-233", "V1-234")
def one_stream_covers_all_partitions(client: Client) -> None:
    topic = new_topic(client, 4)
    with client.consume(topic, "g", "o") as consumer:
        for partition in range(4):
            produce(client, topic, f"p{partition}", partition=partition)
        got = {consumer.next().partition for _ in range(4)}
        equal(got, {0, 1, 2, 3}, "partitions")


@holds("V1-245")
def one_key_is_delivered_in_order(client: Client) -> None:
    topic = new_topic(client, 3)
    produce(client, topic, "A", key="user:1")
    produce(client, topic, "B", key="user:1")
    with client.consume(topic, "g", "o") as consumer:
        one, two = consumer.next(), consumer.next()
        equal([one.value, two.value], ["A", "B"], "values")
        equal(one.partition, two.partition, "partition")
