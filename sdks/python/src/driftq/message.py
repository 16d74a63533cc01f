"""Messages to produce, and the receipts for them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import _wire
from ._values import encode


@dataclass(frozen=True, slots=True)
class Message:
    """A message to produce.

    ``bytes`` and ``str`` are sent as they are. Everything else is sent as JSON: dataclasses, dictionaries,
    models of pydantic and structs of msgspec, for example.
    """

    topic: str
    value: object
    #: Messages with the same key are in the same partition.
    key: str | None = None
    #: While this key is in use, the message is stored once.
    idempotency_key: str | None = None
    tenant_id: str | None = None
    #: The run that the message belongs to.
    run_id: str | None = None
    headers: Mapping[str, str] | None = None
    labels: Mapping[str, str] | None = None
    #: Other fields of the envelope, by their names in the API.
    envelope: Mapping[str, Any] = field(default_factory=dict)

    def to_wire(self) -> _wire.Produce:
        """The message as the API takes it."""
        value = encode(self.value)
        wire: _wire.Produce = {"topic": self.topic}
        if isinstance(value, str):
            wire["value"] = value
        else:
            wire["value_base64"] = base64.b64encode(value).decode()
        if self.key is not None:
            wire["key"] = self.key
        envelope = dict(self.envelope)
        for name in ("idempotency_key", "tenant_id", "run_id", "headers", "labels"):
            of = getattr(self, name)
            if of is not None:
                envelope[name] = dict(of) if isinstance(of, Mapping) else of
        if envelope:
            wire["envelope"] = envelope  # type: ignore[typeddict-item]
        return wire

    def has_idempotency_key(self) -> bool:
        """Whether the server stores the message once by its key."""
        return bool(self.idempotency_key or self.envelope.get("idempotency_key"))


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where a message was stored."""

    #: The requested topic.
    topic: str
    partition: int
    offset: int
    id: str
    #: Whether it had been stored before.
    deduplicated: bool
    #: The topic that stored it, if it is another one.
    final_topic: str | None = None

    @staticmethod
    def of(wire: Mapping[str, Any]) -> Receipt:
        """Reads a receipt. Raises ``KeyError`` if it is not one."""
        return Receipt(
            wire["topic"],
            wire["partition"],
            wire["offset"],
            wire["id"],
            wire["deduplicated"],
            wire.get("final_topic"),
        )
