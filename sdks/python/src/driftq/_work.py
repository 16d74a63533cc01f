"""A message in work, and how it is settled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

from . import _wire
from ._duration import Duration
from ._values import Decoder
from .context import BaseContext
from .effect import OnDoubt
from .errors import clean, describe
from .outcomes import Cancelled, Declined, NotHappened, Reject, Release, Retry

#: The longest delay of a nack: 7 days.
_DELAY_MS_MAX = 604_800_000
#: The server keeps this much of a reason.
_REASON_BYTES_MAX = 1_024

#: Guards the ends of all messages in work. It is held for an instant.
END_LOCK = threading.Lock()

Kind = Literal["async", "thread", "process"]
Middleware = Callable[[Any], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Handler:
    """A function of the caller, and what it handles."""

    topic: str
    group: str
    fn: Callable[..., Any]
    kind: Kind
    decode: Decoder
    concurrency: int
    on_doubt: OnDoubt | None
    window: Duration | None


class Work:
    """A message in work."""

    __slots__ = ("cancel", "context", "handler", "is_cancelling", "is_ended", "lost", "token")

    def __init__(self, handler: Handler, context: BaseContext) -> None:
        self.handler = handler
        self.context = context
        self.token = context.delivery.lease.token
        #: Why the lease is lost.
        self.lost: str | None = None
        #: Whether the worker stops and no longer waits.
        self.is_cancelling = False
        #: Whether the handler has ended, or is not waited for.
        self.is_ended = False
        #: Cancels the handler. A thread reads it from its context.
        self.cancel: Callable[[], object] = _do_nothing

    @property
    def name(self) -> str:
        """The message and the attempt. Two attempts of one message can be in work here, after the lease of
        the first was lost."""
        of = self.context.delivery
        return f"{of.id} of {of.topic}/{of.group}, attempt {of.lease.attempt}"

    def take_end(self) -> bool:
        """Whether the end of the handler counts. Only the first one does."""
        with END_LOCK:
            is_first, self.is_ended = not self.is_ended, True
            return is_first


def _do_nothing() -> None: ...


def outcome_of(work: Work, error: BaseException | None) -> _wire.SettleItem:
    """How to settle a message by the end of its handler."""
    token = work.token
    is_cancelled = isinstance(error, Cancelled | asyncio.CancelledError)
    if is_cancelled and work.is_cancelling:
        return {"op": "nack", "token": token, "release": True}
    match error:
        case None:
            return {"op": "ack", "token": token}
        case Release(after=after):
            item: _wire.SettleItem = {"op": "nack", "token": token, "release": True}
            return item if after is None else {**item, "delay_ms": _delay_ms(after)}
        case Reject(reason=reason):
            return {"op": "nack", "token": token, "reason": reason_of(reason), "dead_letter": True}
        case Retry(reason=reason, after=None):
            return {"op": "nack", "token": token, "reason": reason_of(reason)}
        case Retry(reason=reason, after=after):
            delay = _delay_ms(after or 0.0)
            return {"op": "nack", "token": token, "reason": reason_of(reason), "delay_ms": delay}
        case Declined(reason=reason):
            return {"op": "nack", "token": token, "reason": reason_of(reason)}
        case _:
            return {"op": "nack", "token": token, "reason": reason_of(describe(error))}


def is_expected(error: BaseException | None) -> bool:
    """Whether a handler chose to end this way, so that its trace is of no use."""
    return error is None or isinstance(
        error, Retry | Reject | Release | Declined | NotHappened | Cancelled | asyncio.CancelledError
    )


def reason_of(text: object) -> str:
    """The reason as the server stores it. An empty one is its default."""
    reason = clean(str(text)).encode()[:_REASON_BYTES_MAX].decode(errors="ignore")
    return reason or "failed"


def _delay_ms(after: float) -> int:
    """The delay of a nack, at most the longest that the server accepts."""
    return min(round(after * 1000), _DELAY_MS_MAX)


class Slots:
    """The free slots of a handler. No message waits in the worker, so there is no more than one for each."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._changed = threading.Condition()
        self._is_stopped = False

    def take_all(self) -> int:
        """Waits for a free slot and takes all that are free. 0 if the worker stops."""
        with self._changed:
            while self._free == 0 and not self._is_stopped:
                self._changed.wait()
            free, self._free = self._free, 0
            return 0 if self._is_stopped else free

    def give_back(self, count: int = 1, *, wake: bool = True) -> None:
        """Gives slots back. Without ``wake``, the receiver takes them when it is woken for others."""
        with self._changed:
            self._free += count
            if wake and self._free:
                self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
