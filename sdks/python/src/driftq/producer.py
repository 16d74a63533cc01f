"""A producer that sends many messages with one request."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from ._duration import Duration, seconds
from .client import Client
from .errors import Error
from .message import Message, Receipt

#: Messages of one request, and bytes of their values: the server takes 1 000 messages and 8 MiB.
_MESSAGES_MAX = 500
_BYTES_MAX = 2_000_000
#: Messages that wait to be sent. Above that, producing waits.
_WAITING_MAX = 10_000


class Producer:
    """Gathers messages for up to ``linger``, and sends them in batches, in the order in which they came.

    A message that was accepted here is stored only when its future has a receipt. ::

        with Producer(client) as producer:
            futures = [producer.produce("orders", order) for order in orders]
        receipts = [future.result() for future in futures]
    """

    def __init__(self, client: Client, *, linger: Duration = 0.005) -> None:
        self._client = client
        self._linger = seconds(linger)
        self._waiting: queue.Queue[tuple[Message, int, Future[Receipt]] | None] = queue.Queue(_WAITING_MAX)
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="driftq-producer", daemon=True)
        self._thread.start()

    def produce(self, topic: str, value: object, **fields: Any) -> Future[Receipt]:
        """Sends a message soon. ``fields`` are those of :class:`Message`."""
        message = Message(topic, value, **fields)
        wire = message.to_wire()
        size = len(wire.get("value") or wire.get("value_base64") or "")
        future: Future[Receipt] = Future()
        # A future that can be cancelled would be of a message that may be stored.
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the producer is closed")
            self._waiting.put((message, size, future))
        return future

    def close(self) -> None:
        """Sends what waits, and ends."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._waiting.put(None)
        self._thread.join()

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        is_open = True
        while is_open:
            item = self._waiting.get()
            if item is None:
                return
            message, size, future = item
            batch = [(message, future)]
            end = time.monotonic() + self._linger
            while len(batch) < _MESSAGES_MAX and size < _BYTES_MAX:
                try:
                    item = self._waiting.get(timeout=max(end - time.monotonic(), 0))
                except queue.Empty:
                    break
                if item is None:
                    is_open = False
                    break
                batch.append((item[0], item[2]))
                size += item[1]
            self._send(batch)

    def _send(self, batch: list[tuple[Message, Future[Receipt]]]) -> None:
        try:
            results: list[Receipt | Error] = self._client.produce_batch(message for message, _ in batch)
        except Exception as error:
            # Also a bug: the futures of the next messages must not wait for ever.
            results = []
            for _, future in batch:
                future.set_exception(error)
        for (_, future), result in zip(batch, results, strict=False):
            if isinstance(result, Error):
                future.set_exception(result)
            else:
                future.set_result(result)
