"""Settles deliveries, many with one request."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _retry, _wire
from ._transport import Transport
from .errors import Error, OutcomeUnknown, Refused, of_item

_logger = logging.getLogger("driftq.worker")

#: How long the first of several settlements waits for others.
_GATHER = 0.005
#: Settlements of one request.
_GATHERED_MAX = 100
#: How long to try. A message whose settlement fails is delivered again when its lease ends.
_TIMEOUT = 30.0
#: The wait before items are sent again that the server could not settle now.
_RETRY_DELAY = 0.2
#: Requests at a time. One that gets no answer must not delay the others.
_THREADS = 4

#: Gets the error of a settlement, or None.
Settled = Callable[[Error | None], None]


@dataclass(slots=True)
class _Request:
    item: _wire.SettleItem
    settled: Settled


class Settler:
    """Gathers settlements."""

    def __init__(
        self, transport: Transport, in_work: Callable[[], int], sent: Callable[[], None] = lambda: None
    ) -> None:
        """``in_work`` is how many messages may still be settled. ``sent`` is called after each request."""
        self._transport = transport
        self._in_work = in_work
        self._sent = sent
        self._changed = threading.Condition()
        self._requests: deque[_Request] = deque()
        self._sending = 0
        self._is_closed = False
        self._gathering = threading.Lock()
        for _ in range(_THREADS):
            threading.Thread(target=self._run, name="driftq-settler", daemon=True).start()

    def settle(self, item: _wire.SettleItem, settled: Settled) -> None:
        """Settles one delivery. ``settled`` runs in a thread of the settler, and must not block."""
        with self._changed:
            self._requests.append(_Request(item, settled))
            # The thread that gathers is not woken for each: it would take the interpreter from the handlers.
            if len(self._requests) == 1 or self._is_complete():
                self._changed.notify()

    def close(self) -> None:
        """Ends the threads when they have sent what they have."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _is_complete(self) -> bool:
        """Whether no other settlement is worth the wait."""
        count = len(self._requests)
        return count >= _GATHERED_MAX or count + self._sending >= self._in_work() or self._is_closed

    def _run(self) -> None:
        while True:
            with self._gathering:
                requests = self._gather()
            if not requests:
                return
            try:
                self._send(requests)
            except Exception as error:
                # A bug must not end the thread: the messages of the others would not be settled.
                _logger.exception("a settlement failed")
                for request in requests:
                    request.settled(OutcomeUnknown(str(error)))
            with self._changed:
                self._sending -= len(requests)
            self._sent()

    def _gather(self) -> list[_Request]:
        """The settlements of the next request. An empty list if there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._requests or self._is_closed)
            self._changed.wait_for(self._is_complete, _GATHER)
            count = min(len(self._requests), _GATHERED_MAX)
            self._sending += count
            return [self._requests.popleft() for _ in range(count)]

    def _send(self, requests: list[_Request]) -> None:
        end = time.monotonic() + _TIMEOUT
        while requests:
            left = max(end - time.monotonic(), 0.0)
            body = {"items": [request.item for request in requests]}
            try:
                answer = _retry.call(self._transport, "settle", body, is_repeatable=True, timeout=left)
            except Refused as refused:
                if len(requests) == 1:
                    requests[0].settled(refused)
                else:
                    # One of them is wrong, and must not keep the others from being settled.
                    for request in requests:
                        self._send([request])
                return
            except Error as error:
                for request in requests:
                    request.settled(error)
                return
            requests = self._answered(requests, answer.get("results"), time.monotonic() + _RETRY_DELAY < end)
            if requests:
                time.sleep(_RETRY_DELAY)

    def _answered(self, requests: list[_Request], results: Any, is_in_time: bool) -> list[_Request]:
        """Tells each its result, and returns those to send again."""
        again = []
        for at, request in enumerate(requests):
            result = results[at] if isinstance(results, list) and at < len(results) else {}
            if "status" in result:
                request.settled(None)
            elif is_in_time and result.get("retryable") is True:
                # For example, its shard is moving to another node.
                again.append(request)
            else:
                request.settled(of_item(result))
        return again
