"""The worker: receives messages, runs their handlers, renews their leases and settles them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Literal, Protocol, TypeVar, overload

from ._duration import Duration, seconds
from ._engine import Engine, OnLost, Options
from ._signals import stop_at_signal
from ._values import decoder, is_async, value_type
from ._work import Handler, Kind, Middleware
from .client import Client
from .context import Context, SyncContext
from .effect import EffectOptions, OnDoubt

V = TypeVar("V")
AsyncHandler = Callable[[V, Context], Awaitable[object]]
SyncHandler = Callable[[V, SyncContext], object]
A = TypeVar("A", bound=Callable[[Any, Context], Awaitable[object]])
S = TypeVar("S", bound=Callable[[Any, SyncContext], object])

#: What the server accepts.
_LEASE_MIN, _LEASE_MAX = 0.25, 43_200.0
_CONCURRENCY_MAX = 1_000


class _Register(Protocol):
    """The decorator of a handler. It returns the function as it is."""

    @overload
    def __call__(self, fn: A) -> A: ...
    @overload
    def __call__(self, fn: S) -> S: ...


class Worker:
    """Runs handlers for the messages of topics. ::

    app = Worker("http://127.0.0.1:8080")

    @app.handler("orders", group="biller")
    async def bill(order: Order, ctx: Context) -> None:
        ...

    app.run()
    """

    def __init__(
        self,
        server: str | Client,
        *,
        api_key: str | None = None,
        certificates: str | os.PathLike[str] | None = None,
        concurrency: int = 8,
        lease: Duration = "30s",
        max_processing: Duration = "1h",
        shutdown_timeout: Duration = "25s",
        renewal: Literal["process", "thread"] = "process",
        stall_timeout: Duration | None = None,
        on_lost: OnLost | None = None,
    ) -> None:
        """Creates a worker without handlers.

        - ``server``: the URL of the server, or a client.
        - ``concurrency``: how many messages each handler works on at a time, if it does not say otherwise.
        - ``lease``: the lease of deliveries, which is renewed while their handlers run.
        - ``max_processing``: how long the lease of a message is renewed.
        - ``shutdown_timeout``: how long handlers may take to end when the worker stops.
        - ``renewal``: ``thread`` where no process may be started.
        - ``stall_timeout``: ends the leases of a process that has not run any thread for this long.
        - ``on_lost``: is called with the delivery and the reason when a lease is lost.
        """
        if isinstance(server, Client):
            if api_key is not None or certificates is not None:
                raise ValueError("api_key and certificates are settings of the client")
            self.client = server
        else:
            self.client = Client(server, api_key=api_key, certificates=certificates)
        if renewal not in ("process", "thread"):
            raise ValueError(f'renewal must be "process" or "thread" (got {renewal!r})')
        lease_time = seconds(lease)
        if not _LEASE_MIN <= lease_time <= _LEASE_MAX:
            raise ValueError(f"lease must be between 250 ms and 12 h (got {lease!r})")
        self._concurrency = _check_concurrency(concurrency)
        self._options = Options(
            lease=lease_time,
            max_processing=seconds(max_processing),
            shutdown_timeout=seconds(shutdown_timeout),
            renewal_in_process=renewal == "process",
            stall_timeout=None if stall_timeout is None else seconds(stall_timeout),
            on_lost=on_lost,
        )
        self._handlers: list[Handler] = []
        self._middleware: list[Middleware] = []
        self._engine: Engine | None = None
        self._is_stopping = False

    def handler(
        self,
        topic: str,
        *,
        group: str,
        concurrency: int | None = None,
        on_doubt: OnDoubt | None = None,
        window: Duration | None = None,
        kind: Literal["process"] | None = None,
    ) -> _Register:
        """Handles the messages of a topic for a group.

        The value is read as the annotation of the first parameter says: see :mod:`driftq`. A value that is
        something else makes the message a dead letter. An ``async def`` runs on the loop of the caller, a
        ``def`` in a thread, and a ``def`` with ``kind="process"`` in a process. ``on_doubt`` and ``window``
        are the defaults of its effects.
        """
        EffectOptions(on_doubt=on_doubt)
        if window is not None:
            seconds(window)
        count = self._concurrency if concurrency is None else _check_concurrency(concurrency)

        def register(fn: Callable[..., Any]) -> Any:
            of: Kind = "async" if is_async(fn) else (kind or "thread")
            if kind == "process" and of == "async":
                raise TypeError(f'a handler with kind="process" must be a def: {fn!r}')
            if any((other.topic, other.group) == (topic, group) for other in self._handlers):
                raise ValueError(f"the worker has a handler for {topic}/{group}")
            decode = decoder(value_type(fn))
            self._handlers.append(Handler(topic, group, fn, of, decode, count, on_doubt, window))
            return fn

        return register

    def middleware(self, around: Middleware) -> Middleware:
        """Runs a context manager around every handler. It gets the context, and sees the exceptions of the
        handler. The first middleware is the outermost. ::

            @app.middleware
            @contextmanager
            def timed(ctx):
                began = time.monotonic()
                yield
                ctx.log.info("took %.3f s", time.monotonic() - began)
        """
        self._middleware.append(around)
        return around

    @property
    def handles(self) -> list[tuple[str, str]]:
        """The topics and groups that the worker handles."""
        return [(handler.topic, handler.group) for handler in self._handlers]

    @property
    def lost_leases(self) -> int:
        """How many leases were lost while their handlers ran."""
        return 0 if self._engine is None else self._engine.lost_leases

    def run(self) -> None:
        """Runs until SIGTERM or SIGINT. Then it leaves, finishes what it has, cancels what does not end
        within ``shutdown_timeout``, and gives that back.

        A second signal ends the process with status 1, and so does a handler that ignores its
        cancellation: it may block the loop that an error would be raised on.
        """
        self._check_idle()
        with stop_at_signal(self.stop):
            asyncio.run(self._serve(exit_if_stuck=True))

    async def serve(self) -> None:
        """Runs on the current loop until :meth:`stop`, or until it is cancelled. Raises ``WorkerStuck`` if
        handlers ignored their cancellation."""
        self._check_idle()
        await self._serve(exit_if_stuck=False)

    def start(self) -> None:
        """Starts a worker whose handlers are ``def``, without signals. :meth:`join` waits for its end."""
        self._check_idle()
        self._engine = engine = self._make(None)
        engine.start()
        if self._is_stopping:
            engine.stop()

    def stop(self) -> None:
        """Starts to stop. It can be called from any thread."""
        # A signal can come before the engine is there.
        self._is_stopping = True
        if self._engine is not None:
            self._engine.stop()

    def join(self) -> None:
        """Waits until the worker has stopped. Raises ``WorkerStuck`` if handlers ignored that they were
        cancelled."""
        if self._engine is not None:
            self._engine.join()

    async def _serve(
        self, *, exit_if_stuck: bool = False, once: bool = False, is_test: bool = False
    ) -> Engine:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def on_end() -> None:
            # A loop that is closed waits for nothing.
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended.set)

        engine = self._make(loop, on_end, exit_if_stuck=exit_if_stuck, once=once, is_test=is_test)
        self._engine = engine
        engine.start()
        if self._is_stopping:
            engine.stop()
        cancelled: asyncio.CancelledError | None = None
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError as error:
                # Its handlers run on this loop, so it must live until they have ended.
                cancelled = error
                engine.stop()
        if cancelled is not None:
            raise cancelled
        engine.check()
        return engine

    def _make(
        self,
        loop: asyncio.AbstractEventLoop | None,
        on_end: Callable[[], None] | None = None,
        *,
        exit_if_stuck: bool = False,
        once: bool = False,
        is_test: bool = False,
    ) -> Engine:
        if not self._handlers:
            raise RuntimeError("the worker has no handlers; add one with @worker.handler(topic, group=…)")
        # A test has no time for the start of a process.
        in_process = self._options.renewal_in_process and not is_test
        options = replace(
            self._options, once=once, exit_if_stuck=exit_if_stuck, renewal_in_process=in_process
        )
        return Engine(self.client, self._handlers, self._middleware, options, loop, on_end)

    def _check_idle(self) -> None:
        if self._engine is not None and self._engine.is_running():
            raise RuntimeError("the worker is running")
        self._is_stopping = False


def _check_concurrency(concurrency: int) -> int:
    if not 1 <= concurrency <= _CONCURRENCY_MAX:
        raise ValueError(f"concurrency must be between 1 and {_CONCURRENCY_MAX} (got {concurrency})")
    return concurrency
