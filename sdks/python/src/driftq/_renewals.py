"""Starts the renewal of leases: in a process of its own, or in a thread where no process can be started.

A thread needs the interpreter to renew. A handler in code that does not release the interpreter (a large
regex, a sum of big numbers) would delay it until the leases end. A process does not wait for it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from . import _renewer
from ._renewer import Terms
from ._transport import Address

_logger = logging.getLogger("driftq.worker")

#: How long the process may take to read a command.
_WRITE_TIME = 2.0
#: Processes that end before they were ready, until renewals run in a thread.
_FAILURES_MAX = 3
_END_TIME = 1.0
#: How long the first receive waits for the process, which takes about 0.1 s.
_START_TIME = 5.0

Lost = Callable[[str, str], None]


class Renewals(Protocol):
    """Renews leases."""

    def wait_until_ready(self) -> None: ...
    def begin(self, tokens: list[str], terms: Terms) -> None: ...
    def end(self, tokens: list[str]) -> None: ...
    def alive(self) -> None: ...
    def close(self) -> None: ...


def start(address: Address, lost: Lost, *, in_process: bool, stall_timeout: float | None) -> Renewals:
    """Starts the renewals. ``lost`` gets the token and the reason of each lost lease."""
    return ProcessRenewals(address, lost, stall_timeout) if in_process else ThreadRenewals(address, lost)


class ThreadRenewals:
    """Renews in a thread."""

    def __init__(self, address: Address, lost: Lost) -> None:
        sender = _renewer.Sender(address.url, address.api_key, address.certificates)
        leases = _renewer.Leases(sender, lost)
        leases.start()
        self.begin, self.resume, self.end, self.close = leases.begin, leases.resume, leases.end, leases.close

    def wait_until_ready(self) -> None:
        """A thread is ready at once."""

    def alive(self) -> None:
        """A thread stalls together with the handlers."""


class ProcessRenewals:
    """Renews in a process. If the process ends, another one continues with the leases that are held."""

    def __init__(self, address: Address, lost: Lost, stall_timeout: float | None) -> None:
        self._address = address
        self._lost = lost
        self._stall_timeout = stall_timeout
        self._lock = threading.Lock()
        self._held: dict[str, Terms] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._thread: ThreadRenewals | None = None
        self._failures = 0
        self._is_closed = False
        self._is_ready = threading.Event()
        with self._lock:
            self._start()

    def wait_until_ready(self) -> None:
        """Waits until leases are renewed. The first handler may hold the interpreter for longer than the
        process takes to start."""
        self._is_ready.wait(_START_TIME)

    def begin(self, tokens: list[str], terms: Terms) -> None:
        with self._lock:
            self._held.update((token, terms) for token in tokens)
            if self._thread is not None:
                self._thread.begin(tokens, terms)
            else:
                self._write("begin", terms, tokens)

    def end(self, tokens: list[str]) -> None:
        with self._lock:
            for token in tokens:
                self._held.pop(token, None)
            if self._thread is not None:
                self._thread.end(tokens)
            else:
                self._write("end", tokens)

    def alive(self) -> None:
        with self._lock:
            self._write("alive")

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            child, self._child = self._child, None
            if self._thread is not None:
                self._thread.close()
        if child is None:
            return
        with contextlib.suppress(OSError):
            _pipe(child.stdin).close()
        try:
            child.wait(_END_TIME)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _start(self) -> None:
        """Starts a process, or the thread if that fails. Called with the lock."""
        settings = {
            "url": self._address.url,
            "api_key": self._address.api_key,
            "parent": os.getpid(),
            "certificates": self._address.certificates,
            "stall_timeout": self._stall_timeout,
        }
        try:
            if self._failures >= _FAILURES_MAX:
                raise OSError(f"the process ended {self._failures} times before it was ready")
            if os.name != "posix":
                raise OSError("its pipes are those of POSIX")
            if not sys.executable:
                raise OSError("this program has no Python executable")
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", _renewer.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            _logger.warning(
                "no renewal process (%s); a thread renews, and a handler that holds the interpreter for "
                "longer than a lease loses it",
                error,
            )
            self._thread = ThreadRenewals(self._address, self._lost)
            self._is_ready.set()
            for terms, tokens in self._by_terms().items():
                self._thread.resume(tokens, terms)
            return
        self._child = child
        os.set_blocking(_pipe(child.stdin).fileno(), False)
        # The key is sent by pipe: arguments are visible to other users.
        self._write_to(child, settings)
        for terms, tokens in self._by_terms().items():
            self._write("resume", terms, tokens)
        threading.Thread(target=self._read, args=(child,), name="driftq-renewals", daemon=True).start()

    def _by_terms(self) -> dict[Terms, list[str]]:
        """The leases that are held."""
        held: dict[Terms, list[str]] = {}
        for token, terms in self._held.items():
            held.setdefault(terms, []).append(token)
        return held

    def _write(self, *command: object) -> None:
        if self._child is not None:
            self._write_to(self._child, command)

    def _write_to(self, child: subprocess.Popen[bytes], command: object) -> None:
        """Writes before it returns, because the next handler may hold the interpreter."""
        data = memoryview(json.dumps(command).encode() + b"\n")
        pipe = _pipe(child.stdin).fileno()
        end = time.monotonic() + _WRITE_TIME
        while data:
            try:
                data = data[os.write(pipe, data) :]
            except BlockingIOError:
                if time.monotonic() >= end:
                    # It does not read. Its end is seen by the thread that reads from it.
                    child.kill()
                    return
                select.select([], [pipe], [], 0.1)
            except OSError:
                return

    def _read(self, child: subprocess.Popen[bytes]) -> None:
        """Reports what the process reports, until it ends. Then starts another one."""
        is_ready = False
        for line in _pipe(child.stdout):
            event = json.loads(line)
            if event[0] == "ready":
                is_ready, self._failures = True, 0
                self._is_ready.set()
            elif event[0] == "lost":
                self._lost(event[1], event[2])
        status = child.wait()
        with self._lock:
            if self._is_closed:
                return
            _logger.warning("the renewal process ended with status %s; starting another one", status)
            self._failures += 0 if is_ready else 1
            self._child = None
            with contextlib.suppress(OSError):
                _pipe(child.stdin).close()
            self._start()


def _pipe(pipe: Any) -> Any:
    if pipe is None:
        raise RuntimeError("the pipes of the process exist as long as it does")
    return pipe
