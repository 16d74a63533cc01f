"""A delivery of a message."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import _wire
from ._transport import Trace


@dataclass(slots=True)
class Lease:
    """A lease."""

    #: The token that settles the delivery.
    token: str
    #: The number of this attempt.
    attempt: int
    #: When it ends, as RFC 3339.
    expires_at: str


# A frozen dataclass takes three times as long to create, and each message has one.
@dataclass(slots=True)
class Delivery:
    """A message, leased to this worker for one attempt."""

    #: The id of the message.
    id: str
    #: The id under which the message was first stored. It stays the same when it is redriven.
    origin_id: str
    topic: str
    group: str
    partition: int
    offset: int
    #: The number of attempts so far, this one included, that count against ``max_attempts``.
    attempts: int
    #: The message key.
    key: str
    #: The value, as bytes.
    value: bytes = field(repr=False)
    #: Why the last attempt failed. Empty on the first one.
    last_error: str
    tenant_id: str
    #: When it was produced, as RFC 3339.
    produced_at: str
    lease: Lease
    #: The metadata that the producer set, by the names in the API.
    envelope: Mapping[str, Any]
    #: The trace context of the producer.
    trace: Trace | None

    @property
    def run_id(self) -> str | None:
        """The run that the message belongs to."""
        run = self.envelope.get("run_id")
        return run if isinstance(run, str) else None

    @staticmethod
    def of(wire: _wire.Delivery) -> Delivery:
        """Reads a delivery. Raises ``KeyError``, ``TypeError`` or ``ValueError`` if it is not one."""
        text, digits = wire.get("value"), wire.get("value_base64")
        value = text.encode() if text is not None else base64.b64decode(digits or "", validate=True)
        lease, trace = wire["lease"], wire.get("trace")
        return Delivery(
            id=wire["id"],
            origin_id=wire["origin_id"],
            topic=wire["topic"],
            group=wire["group"],
            partition=wire["partition"],
            offset=wire["offset"],
            attempts=wire["attempts"],
            key=wire["key"],
            value=value,
            last_error=wire["last_error"],
            tenant_id=wire["tenant_id"],
            produced_at=wire["produced_at"],
            lease=Lease(lease["token"], lease["attempt"], lease["expires_at"]),
            envelope=wire.get("envelope") or {},
            trace=trace and Trace(trace["traceparent"], trace.get("tracestate")),
        )
