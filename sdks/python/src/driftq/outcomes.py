"""How a handler or an effect ends without success: exceptions to raise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ._duration import Duration, seconds

T = TypeVar("T")


class Retry(Exception):
    """The attempt failed. The next one starts after ``after``, or after the backoff of the topic."""

    def __init__(self, reason: str = "", after: Duration | None = None) -> None:
        super().__init__(reason, after)
        self.reason = reason
        self.after = None if after is None else seconds(after)

    def __str__(self) -> str:
        return self.reason


class Reject(Exception):
    """The message becomes a dead letter now."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Release(Exception):
    """The message is given back. This costs no attempt."""

    def __init__(self, after: Duration | None = None) -> None:
        super().__init__(after)
        self.after = None if after is None else seconds(after)


class Cancelled(BaseException):
    """The handler has to end: its lease is lost, or the worker stops.

    Like ``asyncio.CancelledError``, it is not an ``Exception``, so that no handler catches it by accident.
    """


class NotHappened(Exception):
    """The effect did not happen, and may be executed again.

    An effect raises it. A probe returns it: an error of the probe says nothing about the execution.
    """


class Declined(Exception):
    """The provider declined the effect for good. The outcome is recorded."""

    def __init__(self, reason: str, code: int = 0) -> None:
        super().__init__(reason, code)
        self.reason = reason
        self.code = code

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class Happened(Generic[T]):
    """A probe returns it: the effect happened, with this result."""

    result: T
