"""Renews the leases of messages in work. Uses the standard library only: it is also the program of the
renewal process, which starts in about 0.1 s and shares no interpreter with the handlers.

The parent writes lines of JSON: the settings first, then ``["begin", terms, [token, ...]]``, the same with
``resume``, ``["end", [token, ...]]`` and ``["alive"]``. The process writes ``["ready"]`` and ``["lost",
token, why]``. Times are those of the monotonic clock, which both processes share, in seconds. It
ends with its parent: at the end of its input, and when it has another parent.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

#: Items of one request.
ITEMS_MAX = 1_000
#: The shortest time that a renewal waits for its answer.
ANSWER_MIN = 0.25
#: How often the process looks whether it still has its parent.
PARENT_INTERVAL = 1.0


def third(lease: float) -> float:
    """About a third, so that the renewals of many workers do not come together."""
    return lease * (0.9 + 0.2 * random.random()) / 3


class Terms(NamedTuple):
    """When leases are renewed. The messages of one receive have the same."""

    lease: float
    #: When the messages arrived.
    arrived: float
    #: When they are not renewed any more.
    over_at: float


class Lease:
    """A lease that is renewed."""

    __slots__ = ("ends_at", "lease", "over_at", "renew_at", "token")

    def __init__(self, token: str, terms: Terms) -> None:
        self.token = token
        self.lease = terms.lease
        self.renew_at = terms.arrived + third(terms.lease)
        self.ends_at = terms.arrived + terms.lease
        self.over_at = terms.over_at

    def is_over(self) -> bool:
        """Whether it is not renewed any more."""
        return self.renew_at >= self.over_at


class Sender:
    """A connection that sends renewals."""

    def __init__(self, url: str, api_key: str | None, certificates: str | None) -> None:
        parts = urlsplit(url)
        self._path = f"{parts.path}/v1/settle"
        self._host = parts.hostname or ""
        self._port = parts.port
        self._context = None
        if parts.scheme == "https":
            self._context = ssl.create_default_context(cafile=certificates)
        self._headers = {"content-type": "application/json"}
        if api_key is not None:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._connection: http.client.HTTPConnection | None = None

    def send(self, items: list[dict[str, Any]], timeout: float) -> list[Any] | None:
        """The results, or None if the outcome is unknown or the server is busy."""
        try:
            connection = self._connection or self._connect(timeout)
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            connection.request("POST", self._path, json.dumps({"items": items}).encode(), self._headers)
            response = connection.getresponse()
            body = response.read()
            results = json.loads(body)["results"] if response.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            self._close()
            return None
        return results if isinstance(results, list) else None

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._context is None:
            self._connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        else:
            self._connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout, context=self._context
            )
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Leases:
    """Renews leases until they end, in a thread of its own."""

    def __init__(self, sender: Sender, lost: Callable[[str, str], None]) -> None:
        self._sender = sender
        self._lost = lost
        self._leases: dict[str, Lease] = {}
        self._changed = threading.Condition()
        self._is_waiting = False
        self._is_closed = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="driftq-renewals", daemon=True).start()

    def begin(self, tokens: list[str], terms: Terms) -> None:
        """Renews leases until :meth:`end`."""
        with self._changed:
            for token in tokens:
                self._leases[token] = Lease(token, terms)
            self._changed.notify()

    def resume(self, tokens: list[str], terms: Terms) -> None:
        """Renews leases at once. The server knows whether they have ended."""
        now = time.monotonic()
        with self._changed:
            for token in tokens:
                lease = self._leases[token] = Lease(token, terms)
                lease.renew_at, lease.ends_at = now, now + terms.lease
            self._changed.notify()

    def end(self, tokens: list[str]) -> None:
        with self._changed:
            for token in tokens:
                self._leases.pop(token, None)

    def close(self) -> None:
        with self._changed:
            self._leases.clear()
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                lost = self._take_ended()
                renewed = None if self._is_waiting else self._due()
                self._is_waiting = self._is_waiting or renewed is not None
                if not lost and renewed is None:
                    if self._is_closed:
                        return
                    self._changed.wait(self._wait_time())
            for lease in lost:
                self._lost(lease.token, "the lease ended before it was renewed")
            if renewed is not None:
                try:
                    threading.Thread(target=self._renew, args=(renewed,), daemon=True).start()
                except RuntimeError:
                    # The system has no more threads.
                    self._renew(renewed)

    def _wait_time(self) -> float | None:
        """How long nothing has to be done."""
        if not self._leases:
            return None
        at = min(
            lease.ends_at if self._is_waiting or lease.is_over() else min(lease.renew_at, lease.ends_at)
            for lease in self._leases.values()
        )
        return max(at - time.monotonic(), 0.0)

    def _take_ended(self) -> list[Lease]:
        now = time.monotonic()
        ended = [lease for lease in self._leases.values() if lease.ends_at <= now]
        for lease in ended:
            del self._leases[lease.token]
        return ended

    def _due(self) -> list[Lease] | None:
        """The leases of the next request, if one is due. One request renews every lease."""
        renewed = sorted(
            (lease for lease in self._leases.values() if not lease.is_over()), key=lambda of: of.renew_at
        )[:ITEMS_MAX]
        return renewed if renewed and renewed[0].renew_at <= time.monotonic() else None

    def _renew(self, renewed: list[Lease]) -> None:
        items = [
            {"op": "extend", "token": lease.token, "lease_ms": round(lease.lease * 1000)} for lease in renewed
        ]
        timeout = max(third(min(lease.lease for lease in renewed)), ANSWER_MIN)
        sent_at = time.monotonic()
        try:
            results = self._sender.send(items, timeout)
        except Exception:
            # Whatever it is: the leases must be renewed again.
            traceback.print_exc()
            results = None
        lost = []
        with self._changed:
            self._is_waiting = False
            for at, lease in enumerate(renewed):
                if lease.token not in self._leases:
                    continue
                result = results[at] if results is not None and at < len(results) else None
                if not isinstance(result, dict):
                    result = {}
                if result.get("status") == "extended":
                    lease.ends_at = sent_at + lease.lease
                    lease.renew_at = sent_at + third(lease.lease)
                elif result.get("retryable") is False:
                    del self._leases[lease.token]
                    lost.append((lease.token, str(result.get("message") or "the renewal was rejected")))
                else:
                    # The outcome is unknown, or the server is busy.
                    lease.renew_at = time.monotonic() + lease.lease / 10
            self._changed.notify()
        for token, why in lost:
            self._lost(token, why)


def main() -> None:
    """The renewal process."""
    for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        # A terminal or a supervisor sends signals to each process. Leases are renewed while the worker stops.
        signal.signal(number, signal.SIG_IGN)
    source, out = sys.stdin.buffer, sys.stdout.buffer
    settings = json.loads(source.readline())
    write_lock = threading.Lock()
    heard = time.monotonic()

    def report(*event: object) -> None:
        try:
            with write_lock:
                out.write(json.dumps(event).encode() + b"\n")
                out.flush()
        except OSError:
            os._exit(0)

    def watch() -> None:
        limit = settings["stall_timeout"]
        while os.getppid() == settings["parent"]:
            if limit is not None and time.monotonic() - heard > limit:
                break
            time.sleep(PARENT_INTERVAL if limit is None else min(PARENT_INTERVAL, limit / 4))
        os._exit(0)

    sender = Sender(settings["url"], settings["api_key"], settings["certificates"])
    leases = Leases(sender, lambda token, why: report("lost", token, why))
    leases.start()
    threading.Thread(target=watch, daemon=True).start()
    report("ready")
    for line in source:
        command = json.loads(line)
        if command[0] == "begin":
            leases.begin(command[2], Terms(*command[1]))
        elif command[0] == "resume":
            leases.resume(command[2], Terms(*command[1]))
        elif command[0] == "end":
            leases.end(command[1])
        heard = time.monotonic()
    os._exit(0)


if __name__ == "__main__":
    main()
