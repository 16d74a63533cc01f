"""Stands between workers and the server of a test, and makes some of their requests fail."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import IO, Literal, get_args

How = Literal["lost_reply", "lost_request", "unavailable", "unknown", "busy", "broken"]

_ERRORS: dict[str, tuple[int, str, str | None]] = {
    "unavailable": (503, "UNAVAILABLE", "none"),
    "unknown": (503, "UNAVAILABLE", "unknown"),
    "busy": (429, "RESOURCE_EXHAUSTED", None),
    "broken": (500, "", None),
}


class Proxy:
    """A running proxy. Each connection has a thread and a connection to the server."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self._faults: list[tuple[str, How]] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._open: set[socket.socket] = set()
        host, port = self._listener.getsockname()
        self.url = f"http://{host}:{port}"
        threading.Thread(target=self._accept, name="driftq-proxy", daemon=True).start()

    def fail(self, route: str, how: How, times: int) -> None:
        if how not in get_args(How):
            raise ValueError(f"how must be one of {', '.join(get_args(How))} (got {how!r})")
        with self._lock:
            self._faults += [(f"/v1/{route.strip('/')}", how)] * times

    def close(self) -> None:
        # Closing alone does not end the accept of another thread.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            open_now = list(self._open)
        for connection in open_now:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open.add(client)
        try:
            with client, socket.create_connection(self._server) as server:
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                requests, replies = client.makefile("rb"), server.makefile("rb")
                while (request := _read(requests)) is not None:
                    how = self._fault(request)
                    if how == "lost_request":
                        return
                    reply: bytes | None = b""
                    if how in (None, "lost_reply", "unknown", "broken"):
                        # A server that rejects a large body answers before it has read it.
                        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                            server.sendall(request)
                        reply = _read(replies)
                    if reply is None or how == "lost_reply":
                        return
                    client.sendall(reply if how is None else _error(how))
        except OSError:
            # A side that closed its connection closes the other one too.
            return
        finally:
            with self._lock:
                self._open.discard(client)

    def _fault(self, request: bytes) -> How | None:
        target = request.split(b" ", 2)[1].split(b"?")[0].decode()
        with self._lock:
            for fault in self._faults:
                if fault[0] == target:
                    self._faults.remove(fault)
                    return fault[1]
        return None


def _read(stream: IO[bytes]) -> bytes | None:
    """A request or a response, as it came. None at the end of the stream."""
    head, length = b"", 0
    while True:
        line = stream.readline()
        if not line:
            return None
        head += line
        if line in (b"\r\n", b"\n"):
            break
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return head + stream.read(length)


def _error(how: How) -> bytes:
    status, code, outcome = _ERRORS[how]
    fields = {"error": code, "message": "by the test", "retryable": True, "retry_after_ms": 10}
    if outcome is not None:
        fields["outcome"] = outcome
    body = json.dumps(fields).encode() if code else b""
    return f"HTTP/1.1 {status} -\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
