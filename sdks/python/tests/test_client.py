"""The client against servers that are not as they should be."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import driftq
from driftq import Client, Message, Producer
from driftq.testing import Broker


@contextmanager
def answering(
    response: bytes, family: socket.AddressFamily = socket.AF_INET
) -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers every request with these bytes."""
    host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    requests: list[bytes] = []
    with socket.create_server((host, 0), family=family) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    requests.append(connection.recv(65536))
                    connection.sendall(response)

        threading.Thread(target=serve, daemon=True).start()
        name = f"[{host}]" if family == socket.AF_INET6 else host
        yield f"http://{name}:{listener.getsockname()[1]}/v1", requests
        listener.shutdown(socket.SHUT_RDWR)


def http(body: bytes, status: int = 200) -> bytes:
    head = f"HTTP/1.1 {status} -\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'"text"', b"\xff"])
def test_a_response_that_is_not_that_of_driftq_is_an_unknown_outcome(body: bytes) -> None:
    with answering(http(body)) as (url, _), pytest.raises(driftq.OutcomeUnknown):
        Client(url, timeout=0.2).call("POST", "produce", {})


def test_a_response_without_a_receipt_is_an_unknown_outcome() -> None:
    with answering(http(b'{"features":["nonce"]}')) as (url, _), pytest.raises(driftq.OutcomeUnknown):
        Client(url, timeout=0.2).produce("orders", "1")


def test_the_key_is_sent_and_not_printed() -> None:
    with answering(http(b"{}"), socket.AF_INET6) as (url, requests):
        client = Client(url, api_key="secret")
        client.call("GET", "version")
    assert b"authorization: Bearer secret\r\n" in requests[0]
    assert b"GET /v1/version " in requests[0]
    assert "secret" not in repr(client)
    assert "secret" not in repr(client._transport.address)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8080", "ftp://localhost", "http://", "http://u:p@localhost", "http://localhost?b"]
)
def test_a_url_that_is_not_one_of_a_server_is_an_error(url: str) -> None:
    with pytest.raises(ValueError, match="the URL must"):
        Client(url)


def test_a_key_with_a_newline_is_an_error() -> None:
    with pytest.raises(ValueError, match="printable"):
        Client("http://localhost", api_key="secret\n")


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(driftq.Unavailable):
        Client("http://127.0.0.1:1", timeout=0.2).produce("orders", "1")


def test_a_value_of_10_mb_is_rejected(server: Broker) -> None:
    with pytest.raises(driftq.Refused) as refused:
        server.client.produce("orders", b"x" * 10_000_000)
    assert refused.value.code == "TOO_LARGE"


def test_a_lone_surrogate_is_an_error_of_the_caller(server: Broker) -> None:
    with pytest.raises(UnicodeEncodeError):
        server.client.produce("orders", "\ud800")
    assert server.values("orders") == []


def test_a_producer_sends_in_order_and_tells_each_its_result(server: Broker) -> None:
    with Producer(server.client) as producer:
        futures = [producer.produce("orders", str(n)) for n in range(1_200)]
        nowhere = producer.produce("nowhere", "1")
    assert [future.result().offset for future in futures] == list(range(1_200))
    assert isinstance(nowhere.exception(), driftq.Refused)
    with pytest.raises(RuntimeError, match="closed"):
        producer.produce("orders", "1")


def test_a_lost_reply_to_a_batch_stores_it_once(server: Broker) -> None:
    server.fail(next="produce/batch", how="lost_reply", times=2)
    results = server.client.produce_batch([Message("orders", "1"), Message("orders", "2")])
    assert [isinstance(result, driftq.Receipt) for result in results] == [True, True]
    assert server.values("orders") == ["1", "2"]


def test_errors_survive_a_pickle() -> None:
    import pickle

    refused = pickle.loads(pickle.dumps(driftq.Refused(404, {"error": "NOT_FOUND", "message": "no"})))
    assert (refused.code, str(refused)) == ("NOT_FOUND", "no (NOT_FOUND)")
    retry = pickle.loads(pickle.dumps(driftq.Retry("later", "2h")))
    assert (retry.reason, retry.after) == ("later", 7200)
