"""Creating and listing topics."""

from __future__ import annotations

from client import Answer, Client
from holds import check, equal, holds, new_topic


def echoes(answer: Answer, name: str, partitions: int) -> None:
    equal(answer.status, 201, f"status ({answer})")
    equal(answer.body.get("status"), "created", f"status field ({answer})")
    equal(answer.body.get("name"), name, f"name ({answer})")
    equal(answer.body.get("partitions"), partitions, f"partitions ({answer})")


@holds("V1-011", "V1-029", "V1-030", "V1-033", "V1-034", "V1-035", "V1-036")
def create_by_json_returns_201_and_echo(client: Client) -> None:
    answer = client.create_topic("created-by-json", 3)
    echoes(answer, "created-by-json", 3)
    check("created-by-json" in client.topics().body["topics"], "the topic must exist")
    last = client.produce("created-by-json", "v", envelope={"partition_override": 2})
    equal(last.status, 200, f"produce to the last partition ({last})")
    beyond = client.produce("created-by-json", "v", envelope={"partition_override": 3})
    check(beyond.rejected, f"produce beyond the last partition: {beyond}")


@holds("V1-031", "V1-032")
def create_by_query_returns_201_and_echo(client: Client) -> None:
    answer = client.create_topic("created-by-query", 2, as_json=False)
    echoes(answer, "created-by-query", 2)
    last = client.produce("created-by-query", "v", envelope={"partition_override": 1})
    equal(last.status, 200, f"produce to the last partition ({last})")
    beyond = client.produce("created-by-query", "v", envelope={"partition_override": 2})
    check(beyond.rejected, f"produce beyond the last partition: {beyond}")


@holds("V1-010", "V1-027", "V1-028")
def list_names_the_created_topics(client: Client) -> None:
    first, second = new_topic(client), new_topic(client, 2)
    answer = client.topics()
    equal(answer.status, 200, "status")
    topics = answer.body["topics"]
    check(isinstance(topics, list), f"topics must be a list: {answer}")
    check(all(isinstance(name, str) for name in topics), f"names must be strings: {answer}")
    equal(topics.count(first), 1, "the first topic in the list")
    equal(topics.count(second), 1, "the second topic in the list")
    check("never-created" not in topics, "only created topics are listed")


@holds("V1-209")
def partition_count_is_at_least_one(client: Client) -> None:
    for count in (0, -1):
        name = f"count-{count}"
        answer = client.create_topic(name, count)
        # A server may reject the count or use a valid one instead.
        if answer.rejected:
            check(name not in client.topics().body["topics"], f"{name} must not exist")
        else:
            equal(answer.status, 201, f"status ({answer})")
            check(answer.body["partitions"] >= 1, f"partitions of {name}: {answer}")


@holds("V1-152")
def topics_are_separate_streams(client: Client) -> None:
    one, other = new_topic(client), new_topic(client)
    equal(client.produce(one, "for-one").status, 200, "produce")
    with client.consume(other, "g", "o") as wrong, client.consume(one, "g", "o") as right:
        equal(right.next().value, "for-one", "value")
        check(wrong.poll(1.0) is None, "another topic must not get the message")
