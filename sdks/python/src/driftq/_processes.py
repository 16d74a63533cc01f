"""Runs handlers in processes.

A thread of the worker stands for each process: it sends the delivery, sends the requests of the handler to
the server, and waits for the end. The requests of effects and commits are sent by the worker, so an outcome
that is known is recorded even if the process ends. Unlike a thread, a process that ignores its cancellation
can be killed.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from . import _wire
from ._duration import Duration
from ._transport import Address
from ._values import DecodeError, decoder, value_type
from ._work import Handler, Work
from .client import Client
from .context import SyncContext
from .delivery import Delivery
from .effect import OnDoubt
from .errors import Error, ProcessError, describe
from .outcomes import Cancelled, Declined, Reject, Release, Retry

#: How long a cancelled process may take to end. It is less than a worker that stops waits for a handler.
_CANCEL_TIME = 1.5
#: What a handler raises to say what becomes of the message. Other exceptions may not survive the pipe.
_SENT = (Retry, Reject, Release, Declined, Cancelled, Error)


@dataclass(frozen=True, slots=True)
class _Setup:
    """What a process needs to run a handler."""

    fn: Callable[..., Any]
    address: Address
    on_doubt: OnDoubt | None
    window: Duration | None


class _Child:
    """A process that runs one handler at a time."""

    def __init__(self, setup: _Setup) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.connection, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_main, args=(setup, theirs), name="driftq-handler", daemon=True)
        self.process.start()
        theirs.close()
        self._sending = threading.Lock()
        #: Kills the process. It is set once the handler is cancelled.
        self.timer: threading.Timer | None = None

    def send(self, message: object) -> None:
        with self._sending:
            self.connection.send(message)

    def cancel(self) -> None:
        """Tells the handler, and kills the process if it does not end."""
        try:
            self.send(("cancel",))
        except OSError:
            return
        self.timer = threading.Timer(_CANCEL_TIME, self.process.kill)
        self.timer.daemon = True
        self.timer.start()


class ProcessCalls:
    """Calls a handler in processes, which start when they are needed and are used again."""

    def __init__(self, handler: Handler, client: Client) -> None:
        self._setup = _Setup(handler.fn, client._transport.address, handler.on_doubt, handler.window)
        try:
            pickle.dumps(handler.fn)
        except Exception as error:
            raise TypeError(f"a handler in a process must be a function of a module: {error}") from error
        self._idle: list[_Child] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def __call__(self, work: Work) -> None:
        with self._lock:
            child = self._idle.pop() if self._idle else None
        child = child or _Child(self._setup)
        work.cancel = child.cancel
        try:
            error = self._run(child, work)
        except (EOFError, OSError) as closed:
            child.connection.close()
            child.process.join(_CANCEL_TIME)
            if work.context._is_cancelled:
                raise Cancelled from closed
            status = child.process.exitcode
            raise ProcessError(f"the process of the handler ended with status {status}") from closed
        except BaseException:
            # What it sent cannot be read. It ends when its input does.
            child.connection.close()
            raise
        finally:
            work.cancel = lambda: None
        self._give_back(child)
        if error is not None:
            raise error

    def close(self) -> None:
        """Ends the processes: each sees the end of its input."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.connection.close()

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            # A process that is ending is not used again, because it may be killed at any time.
            if not self._is_closed and child.timer is None:
                self._idle.append(child)
                return
        child.connection.close()

    def _run(self, child: _Child, work: Work) -> BaseException | None:
        """Runs the handler, and returns what it raised."""
        context = work.context
        child.send(("run", context.delivery, context._owner))
        if context._is_cancelled:
            child.cancel()
        while True:
            match child.connection.recv():
                case ("call", path, body):
                    child.send(self._call(work, path, body))
                case ("pending", pending):
                    context._ledger.pending = pending
                case ("end", None):
                    return None
                case ("end", BaseException() as error):
                    return error
                case other:
                    raise ProcessError(f"the process of the handler sent {other!r}")

    def _call(self, work: Work, path: str, body: object) -> tuple[str, object]:
        try:
            answer = work.context._send(path, body)
        except Error as error:
            return ("raise", error)
        if path == "commit":
            work.context._is_committed = True
        return ("answer", answer)


def _main(setup: _Setup, connection: Connection) -> None:
    """The process: runs the handler for each delivery that it gets."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # The worker decides when its handlers end.
        signal.signal(number, signal.SIG_IGN)
    _Process(setup, connection).run()


class _Process:
    def __init__(self, setup: _Setup, connection: Connection) -> None:
        self._setup = setup
        self._connection = connection
        self._client = Client(
            setup.address.url, api_key=setup.address.api_key, certificates=setup.address.certificates
        )
        self._decode = decoder(value_type(setup.fn))
        self._deliveries: queue.SimpleQueue[tuple[Delivery, str]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._calling = threading.Lock()
        self._sending = threading.Lock()
        self._context: SyncContext | None = None
        self._is_cancelled = False

    def run(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            delivery, owner = self._deliveries.get()
            setup = self._setup
            context = SyncContext(self._client, delivery, owner, setup.on_doubt, setup.window, self._call)
            context._ledger.on_pending = lambda pending: self._send(("pending", pending))
            self._context = context
            if self._is_cancelled:
                context._cancel()
            error = self._handle(context)
            try:
                self._send(("end", error))
            except (TypeError, AttributeError, pickle.PicklingError):
                # An exception of the caller, derived from one that is sent.
                self._send(("end", ProcessError(describe(error or RuntimeError("no error")))))

    def _handle(self, context: SyncContext) -> BaseException | None:
        try:
            self._setup.fn(self._decode(context.delivery.value), context)
        except DecodeError as error:
            return Reject(f"decode: {error}")
        except _SENT as error:
            return error
        except BaseException as error:
            traceback.print_exc()
            return ProcessError(describe(error))
        return None

    def _listen(self) -> None:
        try:
            while True:
                match self._connection.recv():
                    case ("run", delivery, owner):
                        self._deliveries.put((delivery, owner))
                    case ("cancel",):
                        self._is_cancelled = True
                        if self._context is not None:
                            self._context._cancel()
                    case answer:
                        self._answers.put(answer)
        except (EOFError, OSError):
            # Without the worker, the lease is not renewed any more.
            os._exit(1)

    def _call(self, path: str, body: object) -> dict[str, Any]:
        with self._calling:
            self._send(("call", path, body))
            kind, answer = self._answers.get()
        if kind == "raise":
            raise answer
        return dict(answer)

    def _send(self, message: tuple[str, _wire.Finish | object] | tuple[str, str, object]) -> None:
        with self._sending:
            self._connection.send(message)
