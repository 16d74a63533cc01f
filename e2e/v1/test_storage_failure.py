"""What a failing write to the storage does."""

from __future__ import annotations

import http.client
import time
from typing import Callable

from client import Answer, Client
from holds import check, equal, holds, new_topic
from server import Server


def failed(request: Callable[[], Answer]) -> str:
    """Why the request failed, or an empty text if it was accepted."""
    try:
        answer = request()
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    return str(answer) if answer.status >= 400 else ""


def values(client: Client, topic: str, group: str, seconds: float) -> list[str]:
    """What a group gets in that time; nothing if the server refuses to stream."""
    got = []
    end = time.monotonic() + seconds
    try:
        with client.consume(topic, group, "o") as consumer:
            while (left := end - time.monotonic()) > 0 and not consumer.ended:
                message = consumer.poll(left)
                if message is not None:
                    got.append(message.value)
    except OSError:
        # A server may also end itself when it cannot write.
        pass
    return got


@holds("V1-197", "V1-274", "V1-275", needs="durable", fresh=True)
def produce_fails_when_storage_fails(server: Server) -> None:
    client = server.client
    topic = new_topic(client)
    equal(client.produce(topic, "good").status, 200, "produce")
    server.break_storage()
    reason = failed(lambda: client.produce(topic, "lost"))
    check(reason != "", "a produce was accepted without storage")
    # Neither the memory nor the storage may have the message.
    got = values(client, topic, "before", 1.5)
    check("lost" not in got, f"delivered before the restart: {got}")
    server.repair_storage()
    got = values(client, topic, "repaired", 1.5)
    check("lost" not in got, f"delivered after the repair: {got}")
    # The specification does not say that a server recovers without a restart.
    server.restart()
    got = values(client, topic, "after", 3.0)
    check("good" in got, f"delivered after the restart: {got}")
    check("lost" not in got, f"delivered after the restart: {got}")


@holds("V1-198", needs="durable", fresh=True)
def ack_fails_when_storage_fails(server: Server) -> None:
    client = server.client
    topic = new_topic(client)
    equal(client.produce(topic, "v").status, 200, "produce")
    with client.consume(topic, "g", "o") as consumer:
        message = consumer.next()
        server.break_storage()
        reason = failed(lambda: consumer.ack(message))
        check(reason != "", "an ack was accepted without storage")
    server.repair_storage()
    server.restart()
    with client.consume(topic, "g", "o") as consumer:
        equal(consumer.next(30.0).value, "v", "value of the unacked message")
