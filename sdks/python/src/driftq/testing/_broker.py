"""A server in memory, with a clock that the test advances."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Any

from .._duration import Duration, milliseconds, seconds
from ..client import Client
from ..errors import Refused
from ..worker import Worker
from ._proxy import How, Proxy

#: How long the server may take to start.
_START_TIME = 10.0
#: How often the state of the groups is read.
_INTERVAL = 0.01
#: How long a handler may run until the state is read meanwhile.
_IDLE_WAIT = 0.1


class Broker:
    """A running server. :func:`broker` starts one."""

    def __init__(self, address: tuple[str, int], proxy: Proxy) -> None:
        self._direct = Client(f"http://{address[0]}:{address[1]}")
        self._proxy = proxy
        #: The URL for workers and clients. :meth:`fail` breaks requests to it.
        self.url = proxy.url
        #: A client of the server.
        self.client = Client(self.url)

    def create(self, topic: str, **settings: Any) -> None:
        """Creates a topic, with settings as in the API: ``retry_policy={"max_attempts": 2}``."""
        self._direct.call("POST", "topics", {"name": topic, "settings": settings})

    def advance(self, time: Duration) -> datetime:
        """Advances the clock, and returns its time. Leases that end and retries that become due take
        effect before it returns."""
        answer = self._direct.call("POST", "dev/clock", {"advance_ms": milliseconds(time)})
        return datetime.fromisoformat(answer["now"])

    def fail(self, *, next: str, how: How, times: int = 1) -> None:
        """Breaks the next requests to a route, by its path below ``/v1``: ``"commit"``, ``"settle"``.

        ``lost_reply`` closes the connection after the server has handled the request, and
        ``lost_request`` before. ``unavailable`` is a 503 with outcome none, ``unknown`` one with an unknown
        outcome, ``busy`` a 429, and ``broken`` a 500 without a body.
        """
        self._proxy.fail(next, how, times)

    def run_once(self, worker: Worker) -> int:
        """Runs the handlers of the messages that are due now, and returns how many there were."""
        worker._check_idle()
        handled: int = _in_loop(lambda: worker._serve(once=True, is_test=True)).handled
        return handled

    def drain(self, worker: Worker, *, timeout: Duration = "30s") -> None:
        """Runs the worker until every message of its topics is settled, and stops it.

        While every open message waits for a retry, the clock is advanced to the next one. ``timeout`` is in
        real time."""
        worker._check_idle()
        ended: Future[object] = Future()

        def run() -> None:
            try:
                ended.set_result(asyncio.run(worker._serve(is_test=True)))
            except BaseException as error:
                ended.set_exception(error)

        thread = threading.Thread(target=run, name="driftq-test", daemon=True)
        thread.start()
        end = time.monotonic() + seconds(timeout)
        times_settled = 0
        try:
            # Twice, because a handler may produce to a topic that was read before.
            while times_settled < 2 and not ended.done():
                if worker._engine is not None:
                    worker._engine.wait_until_idle(_IDLE_WAIT)
                open_group = self._open_group(worker.handles)
                times_settled = times_settled + 1 if open_group is None else 0
                if open_group is not None:
                    if time.monotonic() > end:
                        raise TimeoutError(f"not settled in {timeout}: {json.dumps(open_group)}")
                    time.sleep(_INTERVAL)
        finally:
            worker.stop()
            thread.join()
        ended.result()

    def values(self, topic: str) -> list[str]:
        """The values of the messages that are stored in a topic, as text."""
        page = self._direct.call("GET", f"topics/{topic}/messages?limit=1000")
        return [message.get("value", message.get("value_base64")) for message in page["messages"]]

    def dead_letters(self, topic: str) -> list[dict[str, Any]]:
        """The dead letters of a topic, as in ``GET /v1/dlq/{topic}``."""
        letters: list[dict[str, Any]] = self._direct.call("GET", f"dlq/{topic}")["dead_letters"]
        return letters

    def effects(self, state: str) -> list[dict[str, Any]]:
        """The effects that are ``IN_PROGRESS``, ``IN_DOUBT`` or ``PARKED``, as in ``GET /v1/effects``."""
        effects: list[dict[str, Any]] = self._direct.call("GET", f"effects?state={state}")["effects"]
        return effects

    def _open_group(self, handles: list[tuple[str, str]]) -> dict[str, Any] | None:
        """A group that has open messages, if there is one. Advances the clock if all of them wait."""
        first: dict[str, Any] | None = None
        retries: list[datetime] = []
        is_working = False
        for topic, group in handles:
            try:
                of = self._direct.call("GET", f"topics/{topic}/groups/{group}")
            except Refused as refused:
                if refused.code != "NOT_FOUND" or refused.body.get("kind") == "topic":
                    raise
                # It exists from the first receive on.
                first, is_working = refused.body, True
                continue
            if of["backlog"] == 0:
                continue
            first = of
            is_working = is_working or of["leased"] != 0 or of["waiting"] != of["backlog"]
            dues = (partition.get("next_retry_at") for partition in of["partitions"])
            retries.extend(datetime.fromisoformat(due) for due in dues if due)
        if not is_working and retries:
            now = self.advance(0.001)
            if now < min(retries):
                self.advance(min(retries) - now + timedelta(milliseconds=1))
        return first


@contextlib.contextmanager
def broker(*topics: str, binary: str | None = None) -> Iterator[Broker]:
    """Starts a server that has these topics, and stops it at the end."""
    program = binary or os.environ.get("DRIFTQ_BIN") or shutil.which("driftq")
    if program is None:
        raise FileNotFoundError("no program driftq in PATH; set DRIFTQ_BIN to its path")
    arguments = [program, "dev", "--test-clock", "--listen", "127.0.0.1:0"]
    for topic in topics:
        arguments += ["--topic", topic]
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        try:
            address = _address(child, log)
            with contextlib.closing(Proxy(address)) as proxy:
                server = Broker(address, proxy)
                yield server
                server._direct.close()
                server.client.close()
        finally:
            # What it stores is lost anyway.
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def _address(child: subprocess.Popen[bytes], log: Any) -> tuple[str, int]:
    timer = threading.Timer(_START_TIME, child.kill)
    timer.start()
    line = child.stdout.readline().decode() if child.stdout is not None else ""
    timer.cancel()
    prefix = "listening on http://"
    if not line.startswith(prefix):
        child.kill()
        log.seek(0)
        raise RuntimeError(f"the server did not start: {line}{log.read().decode(errors='replace')}")
    host, _, port = line.removeprefix(prefix).strip().rpartition(":")
    return host, int(port)


def _in_loop(make: Callable[[], Any]) -> Any:
    """Runs a coroutine to its end, also in a test that has a loop: then on a loop of another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    result: Future[Any] = Future()

    def run() -> None:
        try:
            result.set_result(asyncio.run(make()))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result.result()
