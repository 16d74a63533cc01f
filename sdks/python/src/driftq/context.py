"""What a handler has besides the value of its message.

``async def`` handlers get a :class:`Context`, ``def`` handlers a :class:`SyncContext`. They do the same:
the requests of a ``Context`` run in threads, so they do not block the loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence
from concurrent.futures import Executor
from functools import cached_property
from typing import Any, Literal, TypeVar, overload

from . import _retry
from ._duration import Duration
from ._transport import Trace
from ._values import is_async
from .client import AsyncClient, Client, TracedClient
from .commit import UNSET, commit
from .delivery import Delivery
from .effect import Call, EffectOptions, Execution, Ledger, OnDoubt, Recorded, ToDo
from .message import Message
from .outcomes import Cancelled, Happened, NotHappened

T = TypeVar("T")
R = TypeVar("R")
Probed = Happened[Any] | NotHappened

_logger = logging.getLogger("driftq.handler")

#: How long the ledger is asked and a commit is tried. The lease of the message may end the attempt before.
_REQUEST_TIMEOUT = 60.0
#: Guards the events of all contexts, which are seldom used.
_LOCK = threading.Lock()


class BaseContext:
    """The delivery that a handler works on, and whether it still counts."""

    def __init__(
        self,
        client: Client,
        delivery: Delivery,
        owner: str,
        on_doubt: OnDoubt | None,
        window: Duration | None,
        call: Call | None = None,
    ) -> None:
        #: The delivery.
        self.delivery = delivery
        self._is_cancelled = False
        self._cancelled: threading.Event | None = None
        self._shared_client = client
        self._call_server = call or self._send
        self._trace = delivery.trace
        self._on_doubt: OnDoubt | None = on_doubt
        self._window = window
        self._owner = owner
        self._used_ledger: Ledger | None = None
        self._is_committed = False

    @property
    def cancelled(self) -> threading.Event:
        """Set when the handler has to end: its lease is lost, or the worker stops and no longer waits."""
        # Most handlers do not ask.
        with _LOCK:
            if self._cancelled is None:
                self._cancelled = threading.Event()
                if self._is_cancelled:
                    self._cancelled.set()
            return self._cancelled

    @property
    def _ledger(self) -> Ledger:
        # Not every handler has effects. Those that have may begin them in several threads.
        with _LOCK:
            if self._used_ledger is None:
                self._used_ledger = Ledger(self._call_server, self.delivery.lease.token, self._owner)
            return self._used_ledger

    def _pending_outcomes(self) -> bool:
        """Whether outcomes wait for the commit."""
        return self._used_ledger is not None and bool(self._used_ledger.pending)

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that names the message, its attempt and its run."""
        return _Log(_logger, self.delivery)

    def message(self, topic: str, value: object, key: str | None = None, **fields: Any) -> Message:
        """A message to produce: see :class:`Message`."""
        return Message(topic, value, key, **fields)

    def check(self) -> None:
        """Raises :class:`Cancelled` if the handler has to end."""
        if self._is_cancelled:
            raise Cancelled("the handler is cancelled")

    def continue_trace(self, traceparent: str, tracestate: str | None = None) -> None:
        """Sets the trace that the requests of the handler continue, instead of that of the message."""
        self._trace = Trace(traceparent, tracestate)

    def _cancel(self) -> None:
        with _LOCK:
            self._is_cancelled = True
            if self._cancelled is not None:
                self._cancelled.set()

    def _send(self, path: str, body: object) -> dict[str, Any]:
        transport = self._shared_client._transport
        return _retry.call(
            transport, path, body, is_repeatable=True, timeout=_REQUEST_TIMEOUT, trace=self._trace
        )

    def _options(self, options: EffectOptions) -> EffectOptions:
        return EffectOptions(
            options.request,
            options.on_doubt or self._on_doubt,
            self._window if options.window is None else options.window,
            options.finish,
            options.returns,
        )

    def _begin(self, key: str, options: EffectOptions) -> Recorded | ToDo:
        self.check()
        return self._ledger.begin(key, options)

    def _commit(
        self, produce: Sequence[Message], pointers: Sequence[Mapping[str, Any]], result: object
    ) -> None:
        commit(
            self._call_server,
            self._ledger,
            self.delivery.lease.token,
            produce=produce,
            pointers=pointers,
            result=result,
        )
        self._is_committed = True


class SyncContext(BaseContext):
    """The context of a ``def`` handler. It can be used by the threads that the handler starts."""

    @property
    def client(self) -> TracedClient:
        """The client of the worker. What it produces continues the trace of the message."""
        return TracedClient(self._shared_client, self._trace)

    @overload
    def effect(
        self,
        key: str,
        fn: Callable[[Execution], T],
        *,
        returns: type[R],
        request: str | None = None,
        on_doubt: OnDoubt | None = None,
        probe: Callable[[Execution], Probed] | None = None,
        window: Duration | None = None,
        finish: Literal["now", "commit"] = "now",
    ) -> R: ...
    @overload
    def effect(
        self,
        key: str,
        fn: Callable[[Execution], T],
        *,
        request: str | None = None,
        on_doubt: OnDoubt | None = None,
        probe: Callable[[Execution], Probed] | None = None,
        window: Duration | None = None,
        finish: Literal["now", "commit"] = "now",
    ) -> T: ...
    def effect(
        self,
        key: str,
        fn: Callable[[Execution], Any],
        *,
        returns: Any = Any,
        request: str | None = None,
        on_doubt: OnDoubt | None = None,
        probe: Callable[[Execution], Probed] | None = None,
        window: Duration | None = None,
        finish: Literal["now", "commit"] = "now",
    ) -> Any:
        """Executes an effect with ``fn``, or returns its recorded result.

        The key names the effect among those of its tenant and group. The same key with another
        ``request`` is rejected. The result is read back from JSON: with ``returns``, as that type.
        """
        options = self._options(EffectOptions(request, on_doubt, window, finish, returns))
        begun = self._begin(key, options)
        if isinstance(begun, Recorded):
            return begun.result
        if begun.what == "execute":
            try:
                result = fn(begun.execution)
            except Exception as error:
                self._ledger.failed(begun.token, error)
                raise
            return self._ledger.succeeded(begun.token, result, options)
        try:
            answer = _no_probe() if probe is None else probe(begun.execution)
        except Exception as error:
            self._ledger.probe_failed(begun.token, error)
            raise
        return self._ledger.probed(begun.token, answer, options)

    def commit(
        self,
        produce: Sequence[Message] = (),
        pointers: Sequence[Mapping[str, Any]] = (),
        result: object = UNSET,
    ) -> None:
        """Acks the message, records outcomes and produces messages at once. It is the last thing that a
        handler does. ``result`` is recorded for clients that wait for it."""
        self._commit(produce, pointers, result)


class Context(BaseContext):
    """The context of an ``async def`` handler."""

    def __init__(self, *arguments: Any, requests: Executor, calls: Executor) -> None:
        super().__init__(*arguments)
        self._requests = requests
        self._calls = calls

    @property
    def client(self) -> AsyncClient:
        """The client of the worker. What it produces continues the trace of the message."""
        return AsyncClient(TracedClient(self._shared_client, self._trace))

    # Of a lambda, mypy finds the result of a coroutine, and not of any Awaitable.
    @overload
    async def effect(
        self,
        key: str,
        fn: Callable[[Execution], object],
        *,
        returns: type[R],
        request: str | None = None,
        on_doubt: OnDoubt | None = None,
        probe: Callable[[Execution], Awaitable[Probed] | Probed] | None = None,
        window: Duration | None = None,
        finish: Literal["now", "commit"] = "now",
    ) -> R: ...
    @overload
    async def effect(
        self,
        key: str,
        fn: Callable[[Execution], Coroutine[Any, Any, T]],
        *,
        request: str | None = None,
        on_doubt: OnDoubt | None = None,
        probe: Callable[[Execution], Awaitable[Probed] | Probed] | None = None,
        window: Duration | None = None,
        finish: Literal["now", "commit"] = "now",
    ) -> T: ...
    @overload
    async def effect(
        self,
        key: str,
        fn: Callable[[Execution], asyncio.Future[T]],
        *,
        request: str | None = None,
        on_doubt: OnDoubt | None = None,
        probe: Callable[[Execution], Awaitable[Probed] | Probed] | None = None,
        window: Duration | None = None,
        finish: Literal["now", "commit"] = "now",
    ) -> T: ...
    @overload
    async def effect(
        self,
        key: str,
        fn: Callable[[Execution], T],
        *,
        request: str | None = None,
        on_doubt: OnDoubt | None = None,
        probe: Callable[[Execution], Awaitable[Probed] | Probed] | None = None,
        window: Duration | None = None,
        finish: Literal["now", "commit"] = "now",
    ) -> T: ...
    async def effect(
        self,
        key: str,
        fn: Callable[[Execution], Any],
        *,
        returns: Any = Any,
        request: str | None = None,
        on_doubt: OnDoubt | None = None,
        probe: Callable[[Execution], Awaitable[Probed] | Probed] | None = None,
        window: Duration | None = None,
        finish: Literal["now", "commit"] = "now",
    ) -> Any:
        """Executes an effect with ``fn``, or returns its recorded result.

        A ``def`` or a ``lambda`` runs in a thread, and what it returns is awaited if it can be. See
        :meth:`SyncContext.effect`.
        """
        options = self._options(EffectOptions(request, on_doubt, window, finish, returns))
        begun = await self._in_thread(self._begin, key, options)
        if isinstance(begun, Recorded):
            return begun.result
        ledger, token = self._ledger, begun.token
        if begun.what == "execute":
            try:
                result, cancelled = await self._call(fn, begun.execution)
            except Exception as error:
                await self._in_thread(ledger.failed, token, error)
                raise
            recorded = await self._in_thread(ledger.succeeded, token, result, options)
        else:
            try:
                answer, cancelled = _no_probe() if probe is None else await self._call(probe, begun.execution)
            except Exception as error:
                await self._in_thread(ledger.probe_failed, token, error)
                raise
            recorded = await self._in_thread(ledger.probed, token, answer, options)
        if cancelled is not None:
            raise cancelled
        return recorded

    async def commit(
        self,
        produce: Sequence[Message] = (),
        pointers: Sequence[Mapping[str, Any]] = (),
        result: object = UNSET,
    ) -> None:
        """Acks the message, records outcomes and produces messages at once. It is the last thing that a
        handler does. ``result`` is recorded for clients that wait for it."""
        await self._in_thread(self._commit, produce, pointers, result)

    async def _in_thread(self, fn: Callable[..., T], *arguments: Any) -> T:
        """Runs a request. It is not cancelled with the handler: an outcome that is known is recorded, and
        a commit has its answer, before the handler ends."""
        running = asyncio.get_running_loop().run_in_executor(self._requests, fn, *arguments)
        cancelled = await _end_of(running)
        if cancelled is not None:
            # An error of the request does not count any more.
            running.exception()
            raise cancelled
        return running.result()

    async def _call(
        self, fn: Callable[[Execution], Any], execution: Execution
    ) -> tuple[Any, asyncio.CancelledError | None]:
        """Calls a function of the caller. A thread cannot be cancelled, so its outcome is waited for, and
        returned with the cancellation."""
        if is_async(fn):
            return await fn(execution), None
        run = contextvars.copy_context().run
        running = asyncio.get_running_loop().run_in_executor(self._calls, run, _guard, fn, execution)
        cancelled = await _end_of(running)
        result = running.result()
        if not inspect.isawaitable(result):
            return result, cancelled
        if cancelled is not None:
            if inspect.iscoroutine(result):
                result.close()
            raise cancelled
        return await result, None


def _guard(fn: Callable[[Execution], Any], execution: Execution) -> Any:
    try:
        return fn(execution)
    except StopIteration as error:
        # A future cannot have this exception: it would never end.
        raise RuntimeError("the function of the effect raised StopIteration") from error


async def _end_of(running: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Waits until a thread has ended, also if the handler is cancelled meanwhile."""
    cancelled = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


class _Log(logging.LoggerAdapter[logging.Logger]):
    """Names the message in each line, and has its fields for formatters."""

    def __init__(self, logger: logging.Logger, delivery: Delivery) -> None:
        fields = {
            "message_id": delivery.id,
            "attempt": delivery.lease.attempt,
            "run_id": delivery.run_id,
            "topic": delivery.topic,
            "group": delivery.group,
        }
        super().__init__(logger, fields)
        run = f" run={delivery.run_id}" if delivery.run_id else ""
        self._prefix = f"{delivery.id} attempt={delivery.lease.attempt}{run}"

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return f"{self._prefix}: {msg}", kwargs


def _no_probe() -> Any:
    raise LookupError("the handler has no probe for an effect in doubt")
