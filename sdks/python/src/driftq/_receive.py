"""Receives messages for a handler, as many as there are free slots."""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass
from typing import Any

from . import _wire
from ._transport import SendError, Transport
from ._work import Handler, Slots
from .delivery import Delivery
from .errors import OutcomeUnknown

_logger = logging.getLogger("driftq.worker")

#: How long a receive waits for a message.
_WAIT_MS = 20_000
#: How much longer its response may take.
_ANSWER_TIME = 15.0
#: The shortest and the longest wait after a receive that failed.
_BACKOFF_FIRST, _BACKOFF_MAX = 0.05, 5.0


class _FailedError(Exception):
    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


@dataclass(frozen=True, slots=True)
class Batch:
    """Deliveries, and when they arrived by the monotonic clock."""

    deliveries: list[Delivery]
    arrived: float


class Receiver:
    """Long polls for one handler."""

    def __init__(
        self,
        transport: Transport,
        handler: Handler,
        worker: _wire.Worker,
        lease_ms: int,
        slots: Slots,
        stop: threading.Event,
    ) -> None:
        self._transport = transport
        self._handler = handler
        self._worker = worker
        self._lease_ms = lease_ms
        self._slots = slots
        self._stop = stop
        self._backoff = _BACKOFF_FIRST

    def next(self) -> Batch | None:
        """The next messages, which have their slots. None if the worker stops."""
        while (free := self._slots.take_all()) > 0:
            try:
                batch = self.receive(free, _WAIT_MS)
            except _FailedError as failed:
                self._slots.give_back(free)
                _logger.warning(
                    "receiving from %s/%s failed; trying again: %s",
                    self._handler.topic,
                    self._handler.group,
                    failed,
                )
                wait = self._backoff * (0.5 + random.random() / 2) if failed.after is None else failed.after
                self._backoff = min(self._backoff * 2, _BACKOFF_MAX)
                self._stop.wait(wait)
                continue
            self._backoff = _BACKOFF_FIRST
            self._slots.give_back(free - len(batch.deliveries))
            return batch
        return None

    def now(self) -> Batch | None:
        """The messages that are due now, which have their slots."""
        free = self._slots.take_all()
        if free == 0:
            return None
        try:
            batch = self.receive(free, 0)
        except _FailedError as failed:
            raise OutcomeUnknown(str(failed)) from failed
        self._slots.give_back(free - len(batch.deliveries))
        return batch

    def receive(self, most: int, wait_ms: int) -> Batch:
        body: _wire.Receive = {
            "topic": self._handler.topic,
            "group": self._handler.group,
            "owner": self._worker["id"],
            "max": most,
            "wait_ms": wait_ms,
            "lease_ms": self._lease_ms,
            "worker": self._worker,
        }
        try:
            reply = self._transport.send("POST", "receive", body, timeout=wait_ms / 1000 + _ANSWER_TIME)
        except SendError as error:
            raise _FailedError(str(error)) from error
        if reply.status != 200:
            after = reply.body.get("retry_after_ms")
            why = str(reply.body.get("message") or f"HTTP status {reply.status}")
            raise _FailedError(why, after / 1000 if isinstance(after, int) else None)
        arrived = time.monotonic()
        messages = reply.body.get("messages")
        if not isinstance(messages, list):
            raise _FailedError("the response is not that of DriftQ")
        # The server gives no more than was asked for.
        read = [delivery for of in messages[:most] if (delivery := _read(of)) is not None]
        return Batch(read, arrived)


def _read(wire: Any) -> Delivery | None:
    try:
        return Delivery.of(wire)
    except (KeyError, TypeError, ValueError, AttributeError):
        # Its lease ends, and it is delivered again.
        _logger.exception("a delivery cannot be read")
        return None
