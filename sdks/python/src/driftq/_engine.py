"""The threads of a worker: they receive, renew, settle and stop.

1. A worker receives no more messages than it has free slots. No message waits in the worker.
2. Handlers run on the loop of the caller or in threads. Everything else runs in threads of the engine and
   in the renewal process, so a blocked loop delays no renewal, receive or ack.
3. A stopping worker leaves first, so that it gets nothing more. It then finishes what it has, while it
   still renews.
4. A handler that does not end when it is cancelled may still act. Its message is not released.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from . import _renewals, _retry, _wire
from ._processes import ProcessCalls
from ._receive import Batch, Receiver
from ._renewer import Terms
from ._runners import LoopRunner, Runner, ThreadRunner, call_function
from ._settle import Settler
from ._signals import EXIT_STATUS
from ._transport import Transport
from ._version import __version__
from ._work import END_LOCK, Handler, Middleware, Slots, Work, is_expected, outcome_of, reason_of
from .client import Client
from .context import BaseContext, Context, SyncContext
from .delivery import Delivery
from .errors import Error, LeaseLost, Refused, WorkerStuck
from .outcomes import Cancelled

_logger = logging.getLogger("driftq.worker")

#: How long a cancelled handler may take to end.
_CANCEL_TIME = 2.0
#: How long the server may take to answer that the worker has left.
_LEAVE_TIME = 5.0
#: Requests of ``async`` handlers at a time.
_REQUESTS_MAX = 32

OnLost = Callable[[Delivery, str], object]


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a worker. Times are in seconds."""

    lease: float
    max_processing: float
    shutdown_timeout: float
    renewal_in_process: bool
    stall_timeout: float | None
    on_lost: OnLost | None
    #: Receive once, without a wait, and stop.
    once: bool = False
    #: End the process if a handler does not end.
    exit_if_stuck: bool = False


class Engine:
    """A running worker."""

    def __init__(
        self,
        client: Client,
        handlers: Sequence[Handler],
        middleware: Sequence[Middleware],
        options: Options,
        loop: asyncio.AbstractEventLoop | None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._on_end = on_end
        self.owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
        self._stop = threading.Event()
        #: Guards what follows, and tells that some of it has ended.
        self._changed = threading.Condition()
        self._in_work: dict[str, Work] = {}
        self._receiving = 0
        self._handled = 0
        self._lost = 0
        self._ended_tokens: list[str] = []
        self._is_cancelling = False
        self._error: Exception | None = None
        # A handler that cannot be run is an error before anything is started.
        self._processes: list[ProcessCalls] = []
        self._runs = [(handler, self._runner(handler, middleware, loop)) for handler in handlers]
        self._transport = Transport(client._transport.address)
        calls = sum(handler.concurrency for handler in handlers)
        self._requests = ThreadPoolExecutor(min(calls, _REQUESTS_MAX), "driftq-requests")
        self._calls = ThreadPoolExecutor(calls, "driftq-calls")
        self._settler = Settler(self._transport, lambda: len(self._in_work), self._wake)
        self._renewals = _renewals.start(
            self._transport.address,
            self._lose,
            in_process=options.renewal_in_process,
            stall_timeout=options.stall_timeout,
        )
        self._slots = [Slots(handler.concurrency) for handler in handlers]
        self._slots_of = {id(handler): slots for handler, slots in zip(handlers, self._slots, strict=True)}
        self._thread = threading.Thread(target=self._run, name="driftq-worker", daemon=True)

    def start(self) -> None:
        """Starts to receive."""
        for (handler, runner), slots in zip(self._runs, self._slots, strict=True):
            worker: _wire.Worker = {
                "id": self.owner,
                "sdk": "python",
                "version": __version__,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "concurrency": handler.concurrency,
            }
            lease_ms = round(self._options.lease * 1000)
            receiver = Receiver(self._transport, handler, worker, lease_ms, slots, self._stop)
            self._receiving += 1
            threading.Thread(
                target=self._receive, args=(receiver, handler, runner), name="driftq-receiver", daemon=True
            ).start()
        self._thread.start()

    def stop(self) -> None:
        """Starts to stop. :meth:`join` waits until the worker has stopped."""
        self._stop.set()
        for slots in self._slots:
            slots.stop()
        with self._changed:
            self._changed.notify_all()

    def join(self) -> None:
        """Waits until the worker has stopped. Raises ``WorkerStuck``."""
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raises the error with which the worker ended."""
        if self._error is not None:
            raise self._error

    def wait_until_idle(self, timeout: float) -> None:
        """Waits until no message is in work."""
        with self._changed:
            self._changed.wait_for(lambda: not self._in_work, timeout)

    def is_running(self) -> bool:
        """Whether it has not stopped."""
        return self._thread.is_alive()

    @property
    def handled(self) -> int:
        """How many messages it has received."""
        return self._handled

    @property
    def lost_leases(self) -> int:
        """How many leases were lost while their handlers ran."""
        return self._lost

    def _runner(
        self, handler: Handler, middleware: Sequence[Middleware], loop: asyncio.AbstractEventLoop | None
    ) -> Runner:
        if handler.kind == "async":
            if loop is None:
                raise RuntimeError("async handlers need a loop")
            return LoopRunner(loop, middleware, self._ended)
        if handler.kind == "process":
            processes = ProcessCalls(handler, self._client)
            self._processes.append(processes)
            return ThreadRunner(handler.concurrency, processes, middleware, self._ended)
        return ThreadRunner(handler.concurrency, call_function, middleware, self._ended)

    # Receiving.

    def _receive(self, receiver: Receiver, handler: Handler, runner: Runner) -> None:
        try:
            self._renewals.wait_until_ready()
            batch = receiver.now() if self._options.once else receiver.next()
            while batch is not None:
                if batch.deliveries:
                    self._begin(batch, handler, runner)
                batch = None if self._options.once else receiver.next()
        except Exception as error:
            _logger.exception("receiving from %s/%s ended", handler.topic, handler.group)
            self._error = error
            self.stop()
        finally:
            with self._changed:
                self._receiving -= 1
                self._changed.notify_all()

    def _begin(self, batch: Batch, handler: Handler, runner: Runner) -> None:
        works = [Work(handler, self._context(handler, delivery)) for delivery in batch.deliveries]
        lease, arrived = self._options.lease, batch.arrived
        over_at = arrived + self._options.max_processing
        with self._changed:
            self._handled += len(works)
            self._in_work.update((work.token, work) for work in works)
            is_cancelling = self._is_cancelling
        if is_cancelling or (self._stop.is_set() and not self._options.once):
            # They were on their way while the worker left.
            for work in works:
                work.is_cancelling = True
                self._ended(work, Cancelled())
            return
        self._flush()
        # Before a handler starts: it may hold the interpreter from then on.
        self._renewals.begin([work.token for work in works], Terms(lease, arrived, over_at))
        try:
            runner.start(works)
        except Exception as error:
            for work in works:
                self._ended(work, error)

    def _context(self, handler: Handler, delivery: Delivery) -> BaseContext:
        arguments = (self._client, delivery, self.owner, handler.on_doubt, handler.window)
        if handler.kind == "async":
            return Context(*arguments, requests=self._requests, calls=self._calls)
        return SyncContext(*arguments)

    # The end of handlers.

    def _lose(self, token: str, why: str) -> None:
        with self._changed:
            work = self._in_work.get(token)
        if work is None:
            return
        with END_LOCK:
            if work.is_ended:
                return
            work.lost = why
        work.context._cancel()
        work.cancel()

    def _ended(self, work: Work, error: BaseException | None) -> None:
        """The handler has ended. Runs on the thread of the handler, or on the loop."""
        if not work.take_end():
            return
        if self._is_cancelling:
            with self._changed:
                self._changed.notify_all()
        if work.lost is None and not work.context._pending_outcomes():
            self._conclude(work, error)
            return
        try:
            self._requests.submit(self._conclude, work, error)
        except RuntimeError:
            # The worker ends, and its threads are closed.
            self._conclude(work, error)

    def _conclude(self, work: Work, error: BaseException | None) -> None:
        try:
            self._settle(work, error)
        except Exception:
            # Its lease ends, and it is delivered again.
            _logger.exception("%s was not settled", work.name)
            self._done(work)

    def _settle(self, work: Work, error: BaseException | None) -> None:
        context = work.context
        if work.lost is not None:
            _logger.warning("%s: lease lost, the result is dropped: %s", work.name, work.lost)
            self._record_pending(work)
            self._report_lost(work, work.lost)
            self._done(work)
            return
        if not is_expected(error):
            _logger.error("%s failed", work.name, exc_info=error)
        if context._is_committed:
            if error is not None:
                _logger.warning("%s: the handler failed after its commit", work.name)
            self._done(work)
            return
        self._record_pending(work)
        if isinstance(error, LeaseLost):
            # Its message is delivered to another worker.
            self._report_lost(work, str(error))
            self._done(work)
            return
        item = outcome_of(work, error)
        self._settler.settle(item, lambda failed: self._settled(work, item, failed))

    def _settled(self, work: Work, item: _wire.SettleItem, error: Error | None) -> None:
        is_in_doubt = isinstance(error, Refused) and error.code == "FAILED_PRECONDITION"
        if item["op"] == "ack" and is_in_doubt and isinstance(error, Refused):
            # An effect of the message is in doubt.
            nack: _wire.SettleItem = {"op": "nack", "token": work.token, "reason": reason_of(error.message)}
            self._settler.settle(nack, lambda failed: self._settled(work, nack, failed))
            return
        if isinstance(error, LeaseLost):
            # The result does not count, and another worker has the message.
            self._report_lost(work, str(error))
        elif error is not None:
            _logger.warning("%s was not settled: %s", work.name, error)
        self._done(work, wake=False)

    def _record_pending(self, work: Work) -> None:
        if not work.context._pending_outcomes():
            return
        try:
            work.context._ledger.finish_pending()
        except Error as error:
            _logger.warning("%s: an outcome was not recorded: %s", work.name, error)

    def _report_lost(self, work: Work, why: str) -> None:
        with self._changed:
            self._lost += 1
        if self._options.on_lost is None:
            return
        try:
            self._requests.submit(self._call_on_lost, work.context.delivery, why)
        except RuntimeError:
            self._call_on_lost(work.context.delivery, why)

    def _call_on_lost(self, delivery: Delivery, why: str) -> None:
        try:
            if self._options.on_lost is not None:
                self._options.on_lost(delivery, why)
        except Exception:
            _logger.exception("on_lost failed")

    def _done(self, work: Work, *, wake: bool = True) -> None:
        with self._changed:
            if self._in_work.pop(work.token, None) is None:
                return
            self._ended_tokens.append(work.token)
            if not self._in_work or self._is_cancelling:
                self._changed.notify_all()
        self._slots_of[id(work.handler)].give_back(wake=wake)

    def _wake(self) -> None:
        """Receives again after the settlements of one request, and not after each."""
        for slots in self._slots:
            slots.give_back(0)

    def _flush(self) -> None:
        """Ends the renewal of messages that are settled: of many at once, before the next one is due."""
        with self._changed:
            tokens, self._ended_tokens = self._ended_tokens, []
        if tokens:
            self._renewals.end(tokens)

    # The thread of the worker.

    def _run(self) -> None:
        try:
            self._work_and_stop()
        except Exception as error:
            _logger.exception("the worker ended")
            self._error = error
        if isinstance(self._error, WorkerStuck) and self._options.exit_if_stuck:
            # The loop of the handlers can be blocked, so an error would end nothing.
            _logger.error("the worker ends the process")
            os._exit(EXIT_STATUS)
        if self._on_end is not None:
            self._on_end()

    def _work_and_stop(self) -> None:
        if self._options.once:
            self._wait(lambda: self._receiving == 0, None)
        else:
            self._wait(self._stop.is_set, None)
            self._leave()
        if not self._wait(lambda: self._receiving == 0 and not self._in_work, self._options.shutdown_timeout):
            self._cancel()
        self.stop()
        for _, runner in self._runs:
            runner.close()
        for processes in self._processes:
            processes.close()
        self._settler.close()
        self._renewals.close()
        self._requests.shutdown(wait=False)
        self._calls.shutdown(wait=False)
        self._transport.close()

    def _leave(self) -> None:
        try:
            _retry.call(
                self._transport, "leave", {"worker": self.owner}, is_repeatable=True, timeout=_LEAVE_TIME
            )
        except Error as error:
            # Polls that still wait may get messages, which are then given back.
            _logger.warning("the worker could not leave: %s", error)

    def _cancel(self) -> None:
        """Cancels the handlers, and gives the messages of those that end back."""
        with self._changed:
            self._is_cancelling = True
            works = list(self._in_work.values())
        for work in works:
            work.is_cancelling = True
            work.context._cancel()
            work.cancel()
        self._wait(lambda: all(work.is_ended for work in works), _CANCEL_TIME)
        # Those that have not ended by now are not waited for. They may still act, so they are not released.
        stuck = [work for work in works if work.take_end()]
        self._renewals.end([work.token for work in stuck])
        with self._changed:
            for work in stuck:
                del self._in_work[work.token]
        self._wait(lambda: not self._in_work, _CANCEL_TIME)
        if stuck:
            self._error = WorkerStuck(sorted(work.name for work in stuck))
            _logger.error("%s", self._error)

    def _wait(self, is_done: Callable[[], bool], timeout: float | None) -> bool:
        """Waits, and looks after the renewals meanwhile."""
        options = self._options
        interval = options.lease / 6
        if options.stall_timeout is not None:
            interval = min(interval, options.stall_timeout / 4)
        end = None if timeout is None else time.monotonic() + timeout
        tick = time.monotonic() + interval
        while True:
            with self._changed:
                if is_done():
                    return True
                now = time.monotonic()
                if end is not None and now >= end:
                    return False
                if now < tick:
                    self._changed.wait(min(tick, end or tick) - now)
                    continue
            self._tick(now - tick)
            tick = time.monotonic() + interval

    def _tick(self, late: float) -> None:
        self._flush()
        if self._options.stall_timeout is not None:
            self._renewals.alive()
        if late > self._options.lease / 3:
            with self._changed:
                names = [work.name for work in self._in_work.values()]
            _logger.warning(
                "the interpreter was held for %.1f s, while these were in work: %s",
                late,
                ", ".join(names[:8]),
            )
