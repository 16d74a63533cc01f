"""What a restart keeps, and what the memory engine loses."""

from __future__ import annotations

from typing import Any

from client import Client, Message
from holds import check, equal, eventually, holds, new_topic
from server import Server
from test_produce import full_envelope, same_envelope


def produce(client: Client, topic: str, value: str, **optional: Any) -> None:
    answer = client.produce(topic, value, **optional)
    equal(answer.status, 200, f"status of producing {value} ({answer})")


def crash(server: Server, topic: str) -> None:
    """Kill the server, start it again and wait until it serves the topic.

    How soon that is after a crash is not promised. An ack in a group that does
    not exist has no effect and shows whether the server serves the topic.
    """
    server.crash_and_restart()
    client = server.client
    eventually(lambda: client.ack(topic, "no-group", 0, 0, "o").status < 500,
               f"{topic} is served after a crash", 60.0)


def take(client: Client, topic: str, group: str, count: int) -> list[Message]:
    """Receive and ack `count` messages."""
    messages = []
    with client.consume(topic, group, "o") as consumer:
        for _ in range(count):
            messages.append(consumer.next())
            equal(consumer.ack(messages[-1]).status, 204, "ack")
    return messages


@holds("V1-145", "V1-191", "V1-251", "V1-272", needs="durable", fresh=True)
def acknowledged_produce_survives_a_crash(server: Server) -> None:
    client = server.client
    topic = new_topic(client)
    produce(client, topic, "v")
    # The process has no chance to write anything after its answer.
    crash(server, topic)
    with client.consume(topic, "g", "o") as consumer:
        equal(consumer.next().value, "v", "value")


@holds("V1-273", "V1-295", needs="durable", fresh=True)
def produced_message_is_delivered_and_durable(server: Server) -> None:
    client = server.client
    topic = new_topic(client)
    produce(client, topic, "done")
    produce(client, topic, "open")
    equal(take(client, topic, "g", 1)[0].value, "done", "value before the restart")
    server.restart()
    equal(take(client, topic, "g", 1)[0].value, "open", "value after the restart")


@holds("V1-149", "V1-166", "V1-168", "V1-169", "V1-196", "V1-250", "V1-267", "V1-271", "V1-277",
       "V1-281", "V1-296", "V1-298", "V1-383", needs="durable", fresh=True)
def acked_messages_stay_acked(server: Server) -> None:
    client = server.client
    topic = new_topic(client)
    produce(client, topic, "v0")
    produce(client, topic, "v1")
    take(client, topic, "g", 1)
    for again in (server.restart, lambda: crash(server, topic)):
        again()
        with client.consume(topic, "g", "o") as consumer:
            equal(consumer.next().value, "v1", "first value after a restart")
            # Long enough for everything unacked to come back.
            end = consumer.poll(4.0)
            check(end is None or end.value == "v1", f"an acked message came back: {end}")
    take(client, topic, "g", 1)
    server.restart()
    with client.consume(topic, "g", "o") as consumer:
        check(consumer.poll(4.0) is None, "acked messages must not come back")


@holds("V1-193", "V1-194", "V1-195", "V1-248", "V1-249", "V1-253", "V1-257", "V1-276", "V1-285",
       "V1-297", needs="durable", fresh=True)
def topics_partitions_and_messages_come_back(server: Server) -> None:
    client = server.client
    one, two = new_topic(client), new_topic(client, 2)
    produce(client, one, "one")
    for partition in (0, 1):
        produce(client, two, f"two-{partition}", envelope={"partition_override": partition})
    server.restart()
    topics = client.topics().body["topics"]
    check(one in topics and two in topics, f"topics after the restart: {topics}")
    equal([message.value for message in take(client, one, "g", 1)], ["one"], "values")
    got = {message.partition: message.value for message in take(client, two, "g", 2)}
    equal(got, {0: "two-0", 1: "two-1"}, "values by partition")


@holds("V1-254", "V1-259", "V1-260", "V1-261", "V1-262", "V1-263", "V1-264", needs="durable",
       fresh=True)
def message_fields_come_back(server: Server) -> None:
    client = server.client
    topic = new_topic(client, 3)
    produce(client, topic, "first", envelope={"partition_override": 2})
    produce(client, topic, "payload", key="user:1", envelope={"partition_override": 2})
    before = take(client, topic, "before", 2)
    server.restart()
    after = take(client, topic, "after", 2)
    for old, new in zip(before, after):
        equal((new.partition, new.offset), (old.partition, old.offset), "place")
        equal((new.key, new.value), (old.key, old.value), "key and value")
    equal((after[1].partition, after[1].key, after[1].value), (2, "user:1", "payload"), "message")


@holds("V1-255", "V1-265", "V1-305", "V1-333", "V1-334", needs="durable", fresh=True)
def envelope_comes_back(server: Server) -> None:
    client = server.client
    topic = new_topic(client, 2)
    envelope = full_envelope(topic)
    produce(client, topic, "v", envelope=envelope)
    server.restart()
    with client.consume(topic, "g", "o") as consumer:
        same_envelope(consumer.next().envelope, envelope)


@holds("V1-256", "V1-268", "V1-269", "V1-270", "V1-289", needs="durable", fresh=True)
def offsets_come_back_for_each_group_and_partition(server: Server) -> None:
    client = server.client
    topic, other_topic = new_topic(client, 2), new_topic(client)
    for partition in (0, 1):
        produce(client, topic, f"p{partition}", envelope={"partition_override": partition})
    produce(client, other_topic, "other")
    with client.consume(topic, "g1", "o") as one:
        for message in (one.next(), one.next()):
            if message.partition == 1:
                equal(one.ack(message).status, 204, "ack")
    server.restart()
    with client.consume(topic, "g1", "o") as one:
        equal(one.next().value, "p0", "value in the group that acked partition 1")
        end = one.poll(1.0)
        check(end is None, f"partition 1 was acked, but got {end}")
    equal(sorted(message.value for message in take(client, topic, "g2", 2)), ["p0", "p1"],
          "values in another group")
    equal(take(client, other_topic, "g1", 1)[0].value, "other", "value in another topic")


@holds("V1-192", "V1-252", "V1-280", "V1-283", "V1-290", needs="durable", fresh=True)
def late_ack_does_not_move_progress_back(server: Server) -> None:
    client = server.client
    topic = new_topic(client)
    produce(client, topic, "v0")
    produce(client, topic, "v1")
    with client.consume(topic, "g", "o") as consumer:
        lower, higher = consumer.next(), consumer.next()
        equal(consumer.ack(higher).status, 204, "ack")
        equal(consumer.ack(lower).status, 204, "late ack")
        equal(consumer.ack(lower).status, 204, "double ack")
    crash(server, topic)
    with client.consume(topic, "g", "o") as consumer:
        check(consumer.poll(4.0) is None, "acked messages must not come back")


@holds("V1-284", "V1-287", needs="durable", fresh=True)
def several_restarts_keep_the_order(server: Server) -> None:
    client = server.client
    topic = new_topic(client)
    produce(client, topic, "v0")
    server.restart()
    produce(client, topic, "v1")
    crash(server, topic)
    messages = take(client, topic, "g", 2)
    equal([message.value for message in messages], ["v0", "v1"], "values")
    check(messages[0].offset < messages[1].offset, "offsets must increase")


@holds("V1-286", "V1-291", needs="durable", fresh=True)
def partition_with_messages_exists_after_restart(server: Server) -> None:
    client = server.client
    topic = new_topic(client, 4)
    produce(client, topic, "last", envelope={"partition_override": 3})
    server.restart()
    for partition in range(4):
        produce(client, topic, f"p{partition}", envelope={"partition_override": partition})
    beyond = client.produce(topic, "v", envelope={"partition_override": 4})
    check(beyond.rejected, f"a partition that never was: {beyond}")


@holds("V1-288", needs="durable", fresh=True)
def new_offsets_continue_after_restart(server: Server) -> None:
    client = server.client
    topic = new_topic(client)
    produce(client, topic, "v0")
    produce(client, topic, "v1")
    before = take(client, topic, "g", 2)
    server.restart()
    eventually(lambda: client.produce(topic, "v2").status == 200, "room for v2")
    after = take(client, topic, "g", 1)[0]
    equal(after.value, "v2", "value")
    check(after.offset > before[1].offset, f"offset {after.offset} after {before[1].offset}")


@holds("V1-299", needs="durable", fresh=True)
def dispatch_goes_on_after_restart(server: Server) -> None:
    client = server.client
    topic = new_topic(client)
    produce(client, topic, "old")
    with client.consume(topic, "g", "o") as consumer:
        equal(consumer.next().value, "old", "value before the restart")
    server.restart()
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        equal(message.value, "old", "value after the restart")
        equal(consumer.ack(message).status, 204, "ack")
        produce(client, topic, "new")
        equal(consumer.next().value, "new", "value of a new message")


@holds("V1-292", needs="durable", fresh=True)
def repeated_produce_without_a_key_is_a_duplicate(server: Server) -> None:
    client = server.client
    topic = new_topic(client)
    produce(client, topic, "v")
    # A client that lost the answer to a crash sends its message again.
    crash(server, topic)
    produce(client, topic, "v")
    messages = take(client, topic, "g", 2)
    equal([message.value for message in messages], ["v", "v"], "values")
    check(messages[0].offset != messages[1].offset, "two messages have two offsets")


@holds("V1-420", needs="durable", fresh=True)
def exhausted_message_stays_away(server: Server) -> None:
    client = server.client
    topic = new_topic(client)
    produce(client, topic, "v", envelope={"retry_policy": {"max_attempts": 1, "backoff_ms": 1,
                                                           "max_backoff_ms": 1}})
    with client.consume(topic, "g", "o") as consumer:
        equal(consumer.next().attempts, 1, "attempts")
        check(consumer.poll(4.0) is None, "one delivery is the limit")
    server.restart()
    with client.consume(topic, "g", "o") as consumer:
        check(consumer.poll(4.0) is None, "the message must not come back")


@holds("V1-293", "V1-294", needs="memory", fresh=True)
def memory_engine_loses_its_state(server: Server) -> None:
    client = server.client
    topic = new_topic(client)
    produce(client, topic, "v")
    server.restart()
    equal(client.topics().body["topics"], [], "topics after the restart")
    # The same name is free again, and its topic is empty.
    equal(client.create_topic(topic).status, 201, "create after the restart")
    with client.consume(topic, "g", "o") as consumer:
        check(consumer.poll(1.0) is None, "the message must be gone")
