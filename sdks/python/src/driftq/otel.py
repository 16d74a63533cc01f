"""OpenTelemetry: a span for each message, in the trace of its producer. Needs ``driftq[otel]``. ::

worker.middleware(otel.spans())
otel.propagate(client)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ._transport import Trace
from ._version import __version__
from ._work import Middleware
from .client import Client
from .context import BaseContext
from .outcomes import Cancelled, Reject, Release, Retry

_PROPAGATOR = TraceContextTextMapPropagator()


def spans(tracer_provider: TracerProvider | None = None) -> Middleware:
    """A middleware that runs each handler in a span ``process <topic>``.

    The first attempt continues the trace of the producer. A retry has a trace of its own, which links to it:
    it may be hours later. What the handler sends is in the trace of its span.
    """
    tracer = trace.get_tracer("driftq", __version__, tracer_provider)

    @contextmanager
    def span(ctx: BaseContext) -> Iterator[None]:
        delivery = ctx.delivery
        parent, links = None, []
        if delivery.trace is not None:
            parent = _PROPAGATOR.extract(_carrier(delivery.trace))
            if delivery.lease.attempt > 1:
                links = [Link(trace.get_current_span(parent).get_span_context())]
                parent = None
        attributes: dict[str, str | int] = {
            "messaging.system": "driftq",
            "messaging.operation.type": "process",
            "messaging.destination.name": delivery.topic,
            "messaging.consumer.group.name": delivery.group,
            "messaging.message.id": delivery.id,
            "driftq.attempt": delivery.lease.attempt,
        }
        if delivery.run_id is not None:
            attributes["driftq.run_id"] = delivery.run_id
        with tracer.start_as_current_span(
            f"process {delivery.topic}",
            parent or trace.set_span_in_context(trace.INVALID_SPAN),
            SpanKind.CONSUMER,
            attributes,
            links,
            record_exception=False,
            set_status_on_exception=False,
        ) as current:
            own = _current()
            if own is not None:
                ctx.continue_trace(own.traceparent, own.tracestate)
            try:
                yield
            except (Release, Cancelled):
                # The attempt did not fail.
                raise
            except (Retry, Reject) as error:
                current.set_status(StatusCode.ERROR, error.reason)
                raise
            except Exception as error:
                current.record_exception(error)
                current.set_status(StatusCode.ERROR, type(error).__name__)
                raise

    return span


def propagate(client: Client) -> None:
    """Sends the current span with what the client produces."""
    client.trace = _current


def _current() -> Trace | None:
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    parent = carrier.get("traceparent")
    return None if parent is None else Trace(parent, carrier.get("tracestate"))


def _carrier(of: Trace) -> dict[str, str]:
    carrier = {"traceparent": of.traceparent}
    if of.tracestate:
        carrier["tracestate"] = of.tracestate
    return carrier
