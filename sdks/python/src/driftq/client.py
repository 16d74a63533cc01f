"""A client of one server: produces messages and calls the other routes of the API."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _retry
from ._duration import Duration, seconds
from ._transport import Address, Trace, Transport
from .errors import Error, OutcomeUnknown, of_item
from .message import Message, Receipt

#: The wait before a batch is sent again of which the server could not store an item now.
_RETRY_DELAY = 0.2


class Client:
    """A client of one server. Threads can share it. It connects with its first request."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        certificates: str | os.PathLike[str] | None = None,
        timeout: Duration = 30.0,
    ) -> None:
        """``certificates`` is a file of certificates to trust, as PEM, instead of those of the system.
        ``timeout`` is how long a request is tried."""
        self._transport = Transport(Address.of(url, api_key, certificates))
        self._timeout = seconds(timeout)
        #: The trace that the next request continues, if there is one: see :mod:`driftq.otel`.
        self.trace: Callable[[], Trace | None] = lambda: None
        self._features: frozenset[str] | None = None
        self._features_lock = threading.Lock()

    @property
    def url(self) -> str:
        """The URL of the server, without ``/v1``."""
        return self._transport.address.url

    def produce(
        self,
        topic: str,
        value: object,
        *,
        key: str | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Receipt:
        """Stores a message. ``fields`` are those of :class:`Message`.

        A lost response is no reason to store it twice: the request has a nonce.
        """
        return self.produce_message(Message(topic, value, key, idempotency_key, **fields))

    def produce_message(self, message: Message) -> Receipt:
        """Stores a message."""
        return self._produce(message, self.trace())

    def produce_batch(self, messages: Iterable[Message]) -> list[Receipt | Error]:
        """Stores up to 1 000 messages. Each succeeds or fails on its own."""
        return self._produce_batch(list(messages), self.trace())

    def call(
        self, method: str, path: str, body: object = None, *, is_repeatable: bool | None = None
    ) -> dict[str, Any]:
        """Calls any route, by its path below ``/v1``, and returns the body of the response.

        After an unknown outcome it is sent again only if ``is_repeatable``, the default of GET and PUT.
        """
        repeatable = method in ("GET", "PUT") if is_repeatable is None else is_repeatable
        return _retry.call(
            self._transport, path, body, method=method, is_repeatable=repeatable, timeout=self._timeout
        )

    def close(self) -> None:
        """Closes the idle connections."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _produce(self, message: Message, trace: Trace | None) -> Receipt:
        body: dict[str, Any] = dict(message.to_wire())
        has_nonce = self._supports("nonce")
        if has_nonce:
            body["nonce"] = nonce()
        is_repeatable = has_nonce or message.has_idempotency_key()
        answer = _retry.call(
            self._transport, "produce", body, is_repeatable=is_repeatable, timeout=self._timeout, trace=trace
        )
        return _receipt(answer)

    def _produce_batch(self, messages: Sequence[Message], trace: Trace | None) -> list[Receipt | Error]:
        body: dict[str, Any] = {"messages": [message.to_wire() for message in messages]}
        has_nonce = self._supports("nonce")
        if has_nonce:
            body["nonce"] = nonce()
        is_repeatable = has_nonce or all(message.has_idempotency_key() for message in messages)
        end = time.monotonic() + self._timeout
        while True:
            left = max(end - time.monotonic(), 0.0)
            answer = _retry.call(
                self._transport, "produce/batch", body, is_repeatable=is_repeatable, timeout=left, trace=trace
            )
            results = answer.get("results")
            if not isinstance(results, list) or len(results) != len(messages):
                raise OutcomeUnknown("the response is not that of DriftQ")
            # For example, the shard of an item is moving to another node. The nonce keeps the items that
            # are stored from being stored again.
            is_done = not any(result.get("retryable") is True for result in results)
            if is_done or not has_nonce or time.monotonic() + _RETRY_DELAY >= end:
                return [_result(result) for result in results]
            time.sleep(_RETRY_DELAY)

    def _supports(self, feature: str) -> bool:
        """Whether the server has a feature, by its name in ``GET /v1/version``."""
        if self._features is None:
            with self._features_lock:
                if self._features is None:
                    answer = self.call("GET", "version")
                    self._features = frozenset(map(str, answer.get("features") or ()))
        return feature in self._features


class TracedClient:
    """The client of a worker in a handler: what it produces continues the trace of the message."""

    def __init__(self, client: Client, trace: Trace | None) -> None:
        self._client = client
        self._trace = trace

    def produce(self, topic: str, value: object, **fields: Any) -> Receipt:
        """Stores a message, as :meth:`Client.produce` does."""
        return self._client._produce(Message(topic, value, **fields), self._trace)

    def produce_batch(self, messages: Iterable[Message]) -> list[Receipt | Error]:
        """Stores messages, as :meth:`Client.produce_batch` does."""
        return self._client._produce_batch(list(messages), self._trace)


class AsyncClient:
    """A client for ``async`` functions. Its requests run in threads, so they do not block the loop."""

    def __init__(self, client: Client | TracedClient) -> None:
        self._client = client

    async def produce(self, topic: str, value: object, **fields: Any) -> Receipt:
        """Stores a message, as :meth:`Client.produce` does."""
        return await asyncio.to_thread(lambda: self._client.produce(topic, value, **fields))

    async def produce_batch(self, messages: Iterable[Message]) -> list[Receipt | Error]:
        """Stores messages, as :meth:`Client.produce_batch` does."""
        return await asyncio.to_thread(self._client.produce_batch, messages)


def nonce() -> str:
    """A name that no other request has."""
    return secrets.token_hex(16)


def _receipt(wire: dict[str, Any]) -> Receipt:
    try:
        return Receipt.of(wire)
    except KeyError as error:
        raise OutcomeUnknown(f"the response is not that of DriftQ: no {error}") from None


def _result(result: dict[str, Any]) -> Receipt | Error:
    return of_item(result) if "error" in result else _receipt(result)
