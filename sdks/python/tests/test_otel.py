"""Spans of handlers, by the SDK of OpenTelemetry."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import driftq
from driftq import Context, SyncContext, Worker, otel
from driftq.testing import Broker


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.mark.parametrize("is_async", [True, False])
def test_the_first_attempt_continues_the_trace_and_a_retry_links_to_it(
    server: Broker, exporter: InMemorySpanExporter, is_async: bool
) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = Worker(server.url)
    app.middleware(otel.spans(provider))

    if is_async:

        @app.handler("orders", group="biller")
        async def fails_once(value: str, ctx: Context) -> None:
            if ctx.delivery.attempts == 1:
                raise ValueError("boom")
            await ctx.client.produce("receipts", "1")
    else:

        @app.handler("orders", group="biller")
        def fails_once_too(value: str, ctx: SyncContext) -> None:
            if ctx.delivery.attempts == 1:
                raise ValueError("boom")
            ctx.client.produce("receipts", "1")

    otel.propagate(server.client)
    with provider.get_tracer("test").start_as_current_span("request") as request:
        server.client.produce("orders", "1")
    server.drain(app)
    producer, first, second = exporter.get_finished_spans()
    assert (first.name, second.name) == ("process orders", "process orders")
    assert first.parent is not None
    assert first.parent.span_id == request.get_span_context().span_id
    assert first.status.status_code is StatusCode.ERROR
    assert [event.name for event in first.events] == ["exception"]
    assert second.parent is None
    assert [link.context.span_id for link in second.links] == [producer.get_span_context().span_id]
    assert second.status.status_code is StatusCode.UNSET
    assert traceparent_of_receipt(server) == trace_of(second)


def traceparent_of_receipt(server: Broker) -> str:
    reader, seen = Worker(server.url), []

    @reader.handler("receipts", group="reader")
    def read(value: str, ctx: SyncContext) -> None:
        assert ctx.delivery.trace is not None
        seen.append(ctx.delivery.trace.traceparent)

    server.run_once(reader)
    return str(seen[0])


def trace_of(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def test_a_release_is_not_an_error(server: Broker, exporter: InMemorySpanExporter) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = Worker(server.url)
    app.middleware(otel.spans(provider))

    @app.handler("orders", group="biller")
    def release_once(value: str, ctx: SyncContext) -> None:
        if ctx.delivery.lease.attempt == 1:
            raise driftq.Release

    server.client.produce("orders", "1")
    server.drain(app)
    spans = exporter.get_finished_spans()
    assert [span.status.status_code for span in spans] == [StatusCode.UNSET, StatusCode.UNSET]
