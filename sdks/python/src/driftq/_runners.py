"""Runs handlers: ``async def`` on the loop of the caller, ``def`` in threads."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Protocol

from ._values import DecodeError
from ._work import Middleware, Work
from .outcomes import Cancelled, Reject

#: Gets the error with which a handler ended, or None.
Ended = Callable[[Work, BaseException | None], None]


class Runner(Protocol):
    """Runs the handler of each message, and reports its end once."""

    def start(self, works: list[Work]) -> None: ...
    def close(self) -> None: ...


class LoopRunner:
    """Runs coroutines on a loop. Each is a task."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, middleware: Sequence[Middleware], ended: Ended
    ) -> None:
        self._loop = loop
        self._middleware = middleware
        self._ended = ended

    def start(self, works: list[Work]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._spawn, works)
        except RuntimeError as closed:
            for work in works:
                self._ended(work, closed)

    def close(self) -> None:
        """The loop belongs to the caller."""

    def _spawn(self, works: list[Work]) -> None:
        for work in works:
            if work.context._is_cancelled:
                self._ended(work, Cancelled())
                continue
            task = self._loop.create_task(self._run(work), name=work.context.delivery.id)
            # The loop keeps no reference to its tasks. Messages in work are kept by the engine.
            work.cancel = partial(self._cancel, task)
            if work.context._is_cancelled:
                task.cancel()

    def _cancel(self, task: asyncio.Task[None]) -> None:
        try:
            self._loop.call_soon_threadsafe(task.cancel)
        except RuntimeError:
            # The loop is closed, so the task has ended.
            return

    async def _run(self, work: Work) -> None:
        error: BaseException | None = None
        try:
            with ExitStack() as around:
                for middleware in self._middleware:
                    around.enter_context(middleware(work.context))
                await work.handler.fn(_value(work), work.context)
        except BaseException as raised:
            # Also SystemExit, which would end the loop of all handlers.
            error = raised
        self._ended(work, error)


class ThreadRunner:
    """Runs functions in at most ``count`` threads, which start when they are needed."""

    def __init__(
        self, count: int, call: Callable[[Work], Any], middleware: Sequence[Middleware], ended: Ended
    ) -> None:
        self._count = count
        self._call = call
        self._middleware = middleware
        self._ended = ended
        self._works: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._busy = 0

    def start(self, works: list[Work]) -> None:
        with self._lock:
            self._busy += len(works)
            while self._threads < min(self._busy, self._count):
                try:
                    threading.Thread(target=self._run, name="driftq-handler", daemon=True).start()
                except RuntimeError:
                    # The system has no more threads. Those that run take one message after the other.
                    if self._threads == 0:
                        self._busy -= len(works)
                        raise
                    break
                self._threads += 1
        for work in works:
            self._works.put(work)

    def close(self) -> None:
        for _ in range(self._threads):
            self._works.put(None)

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            # What a handler sets in its context variables ends with the message.
            error = contextvars.copy_context().run(self._handle, work)
            with self._lock:
                self._busy -= 1
            self._ended(work, error)
            del work, error

    def _handle(self, work: Work) -> BaseException | None:
        if work.context._is_cancelled:
            return Cancelled()
        try:
            with ExitStack() as around:
                for middleware in self._middleware:
                    around.enter_context(middleware(work.context))
                self._call(work)
        except BaseException as raised:
            # Also SystemExit: it would end the thread without a word.
            return raised
        return None


def call_function(work: Work) -> None:
    """Calls a ``def`` handler in this thread."""
    work.handler.fn(_value(work), work.context)


def _value(work: Work) -> Any:
    try:
        return work.handler.decode(work.context.delivery.value)
    except DecodeError as error:
        raise Reject(f"decode: {error}") from error
