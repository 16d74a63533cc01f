"""The consume stream: parameters, form and items."""

from __future__ import annotations

import json

from client import Client
from holds import check, equal, holds, new_topic


@holds("V1-013", "V1-081", "V1-082")
def stream_is_ndjson(client: Client) -> None:
    topic = new_topic(client)
    # A line break inside a value must not break the line of its item.
    for value in ("one\ntwo", "three"):
        equal(client.produce(topic, value).status, 200, "produce")
    with client.consume(topic, "g", "o") as consumer:
        values = []
        for _ in range(2):
            message = consumer.next()
            check(message.line.endswith(b"\n"), f"a line must end: {message.line!r}")
            check(isinstance(json.loads(message.line), dict), f"not an object: {message.line!r}")
            values.append(message.value)
        equal(values, ["one\ntwo", "three"], "values")
        equal(consumer.status, 200, "status")
        equal(consumer.content_type, "application/x-ndjson; charset=utf-8", "content type")


@holds("V1-080")
def stream_stays_open_for_later_messages(client: Client) -> None:
    topic = new_topic(client)
    with client.consume(topic, "g", "o") as consumer:
        for number in range(3):
            check(consumer.poll(0.3) is None, "nothing was produced yet")
            client.produce(topic, f"v{number}")
            message = consumer.next()
            equal(message.value, f"v{number}", "value")
            consumer.ack(message)


@holds("V1-083", "V1-084", "V1-085", "V1-373")
def topic_group_and_owner_are_required(client: Client) -> None:
    complete = {"topic": new_topic(client), "group": "g", "owner": "o"}
    for missing in complete:
        fields = {name: value for name, value in complete.items() if name != missing}
        by_query = client.request("GET", "/v1/consume", query=fields)
        check(by_query.rejected, f"query without {missing}: {by_query}")
        by_json = client.request("GET", "/v1/consume", fields=fields)
        check(by_json.rejected, f"JSON without {missing}: {by_json}")


@holds("V1-088")
def query_opens_a_stream(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g1", "worker-a", lease_ms=2000) as consumer:
        message = consumer.next()
        equal(message.value, "v", "value")
        equal(client.ack(topic, "g1", message.partition, message.offset, "worker-a").status, 204,
              "ack by the owner of the query")
    bad = client.request("GET", "/v1/consume", query={"topic": topic, "group": "g",
                                                      "owner": "o", "lease_ms": "soon"})
    check(bad.rejected, f"lease_ms must be a number: {bad}")


@holds("V1-089", "V1-090", "V1-091", "V1-092")
def json_body_opens_a_stream(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g1", "worker-a", lease_ms=2000, as_json=True) as consumer:
        message = consumer.next()
        equal(message.value, "v", "value")
        equal(client.ack(topic, "g1", message.partition, message.offset, "worker-a").status, 204,
              "ack by the owner of the body")
    bad = client.request("GET", "/v1/consume", fields={"topic": topic, "group": "g",
                                                       "owner": "o", "lease_ms": "soon"})
    check(bad.rejected, f"lease_ms must be a number: {bad}")


@holds("V1-086", "V1-374")
def lease_ms_is_optional(client: Client) -> None:
    for lease_ms in (None, 2000):
        topic = new_topic(client)
        client.produce(topic, "v")
        with client.consume(topic, "g", "o", lease_ms=lease_ms) as consumer:
            message = consumer.next()
            equal(message.value, "v", "value")
            equal(consumer.ack(message).status, 204, "ack within the lease")


@holds("V1-087")
def lease_defaults_to_two_seconds(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g", "o") as consumer:
        first = consumer.next()
        # Shortly before the end the owner still holds the message.
        check(consumer.poll(1.5) is None, "the lease ended before 1.5 s")
        second = consumer.next(10.0)
        equal(second.offset, first.offset, "offset")
        # The reader sees the first line a little after it was sent.
        check(second.at - first.at >= 1.9, f"redelivered after {second.at - first.at:.2f} s")
        check(second.at - first.at <= 6.0, f"redelivered after {second.at - first.at:.2f} s")


@holds("V1-093", "V1-094", "V1-095", "V1-096", "V1-097", "V1-201", "V1-212", "V1-213", "V1-221",
       "V1-232", "V1-236", "V1-237", "V1-239", "V1-330")
def item_has_the_fields_of_a_delivery(client: Client) -> None:
    topic = new_topic(client, 2)
    client.produce(topic, "with-key", key="k", envelope={"partition_override": 1})
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        for name in ("partition", "offset", "attempts"):
            check(type(message.fields.get(name)) is int, f"{name}: {message.line!r}")
        equal(message.partition, 1, "partition")
        check(message.offset >= 0, f"offset: {message.line!r}")
        equal(message.attempts, 1, "attempts")
        equal(message.fields.get("key"), "k", "key")
        equal(message.fields.get("value"), "with-key", "value")
        # These are the partition and the offset that the server knows it by.
        equal(consumer.ack(message).status, 204, "ack")
        check(consumer.poll(3.0) is None, "an acked message must not come back")


@holds("V1-098")
def first_delivery_has_no_last_error(client: Client) -> None:
    topic = new_topic(client)
    client.produce(topic, "v")
    with client.consume(topic, "g", "o") as consumer:
        first = consumer.next()
        equal(first.fields.get("last_error"), "", "last_error of a first delivery")
        consumer.nack(first, "broken")
        equal(consumer.next().fields.get("last_error"), "broken", "last_error after a nack")
