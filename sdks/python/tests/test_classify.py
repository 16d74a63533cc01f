"""The failures of real HTTP libraries, against real sockets."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator

import httpx
import pytest
import requests
import urllib3

from driftq import Declined, NotHappened, classify_http


def by_requests(url: str) -> None:
    requests.post(url, timeout=0.5).raise_for_status()


def by_httpx(url: str) -> None:
    httpx.post(url, timeout=0.5, trust_env=False).raise_for_status()


def by_urllib(url: str) -> None:
    urllib.request.urlopen(urllib.request.Request(url, b""), timeout=0.5)


def by_urllib3(url: str) -> None:
    urllib3.request("POST", url, timeout=0.5, retries=False)


ALL = [by_requests, by_httpx, by_urllib]
Post = Callable[[str], None]


@pytest.fixture
def server() -> Iterator[Callable[[bytes], str]]:
    """A server that answers every request with these bytes. Without bytes, it closes the connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(response: bytes) -> str:
        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(response)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/"

    with listener:
        yield answer


def response(status: int) -> bytes:
    return f"HTTP/1.1 {status} -\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()


@pytest.mark.parametrize("post", [*ALL, by_urllib3])
def test_a_refused_connection_did_not_happen(post: Post) -> None:
    with pytest.raises(NotHappened), classify_http():
        post("http://127.0.0.1:1/")


@pytest.mark.parametrize("post", ALL)
def test_a_busy_provider_did_not_act(post: Post, server: Callable[[bytes], str]) -> None:
    with pytest.raises(NotHappened), classify_http():
        post(server(response(429)))


@pytest.mark.parametrize("post", ALL)
def test_a_rejection_is_final(post: Post, server: Callable[[bytes], str]) -> None:
    with pytest.raises(Declined) as declined, classify_http():
        post(server(response(402)))
    assert declined.value.code == 402


@pytest.mark.parametrize("post", ALL)
@pytest.mark.parametrize("status", [408, 409, 425, 500, 503])
def test_other_statuses_say_nothing(post: Post, status: int, server: Callable[[bytes], str]) -> None:
    with pytest.raises(Exception) as raised, classify_http():
        post(server(response(status)))
    assert not isinstance(raised.value, NotHappened | Declined)


@pytest.mark.parametrize("post", [*ALL, by_urllib3])
def test_a_broken_connection_says_nothing(post: Post, server: Callable[[bytes], str]) -> None:
    with pytest.raises(Exception) as raised, classify_http():
        post(server(b""))
    assert not isinstance(raised.value, NotHappened | Declined)
