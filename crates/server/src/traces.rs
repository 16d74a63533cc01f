//! Spans of messages, exported to an OpenTelemetry collector.
//!
//! 1. The producer decides which messages are traced. A request or a message has spans only if its
//!    `traceparent` is sampled.
//! 2. `send`, `receive` and `settle` are requests. Their parent is the `traceparent` of the
//!    request. `deliver` is the hand-over of one message to a consumer. Its parent is the
//!    `traceparent` that was stored with the message.
//! 3. A worker continues the trace of a message if it settles with the `traceparent` of the
//!    delivery, or with that of a span of its own below it.
//! 4. A request never waits for the export. Spans wait in a queue of bounded length, and are
//!    dropped if it is full.

use std::time::{Duration, SystemTime};

use driftq_core::Trace;
use driftq_core::change::Delivery;
use opentelemetry::trace::{
    SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId,
    TraceState, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue, trace::Span as _};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};

/// How long the last spans may take when the server stops.
const EXPORT_WITHIN: Duration = Duration::from_secs(5);

/// The exporter of spans, or nothing if traces are off.
#[derive(Default)]
pub struct Traces(Option<Exporter>);

struct Exporter {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// A span that has begun.
pub(crate) struct PendingSpan {
    parent: SpanContext,
    began: SystemTime,
}

/// What a span of a request reports.
pub(crate) struct RequestSpan<'a> {
    pub(crate) method: &'a str,
    pub(crate) route: Option<&'a str>,
    pub(crate) topic: Option<&'a str>,
    pub(crate) group: Option<&'a str>,
    pub(crate) status: u16,
    pub(crate) error: Option<&'a str>,
    pub(crate) request_id: &'a str,
}

impl Traces {
    /// Exports spans to the OTLP/HTTP collector at this URL.
    pub(crate) fn start(collector: &str, node: &str) -> Result<Traces, TracesError> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", collector.trim_end_matches('/')))
            .with_timeout(EXPORT_WITHIN)
            .build()
            .map_err(|error| TracesError(error.to_string()))?;
        let resource = Resource::builder()
            .with_service_name("driftq")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new("service.instance.id", node.to_owned()))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)))
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("driftq");
        Ok(Traces(Some(Exporter { provider, tracer })))
    }

    /// Begins the span of a request with this `traceparent`. `None` if it is not traced.
    pub(crate) fn begin(&self, traceparent: Option<&str>) -> Option<PendingSpan> {
        self.0.as_ref()?;
        let parent = sampled(traceparent?)?;
        Some(PendingSpan { parent, began: SystemTime::now() })
    }

    /// Ends the span of a request.
    pub(crate) fn end(&self, span: PendingSpan, request: &RequestSpan<'_>) {
        let RequestSpan { method, route, topic, group, status, error, request_id } = *request;
        let operation = operation(route.unwrap_or_default());
        let name = match (operation, topic) {
            (Some(operation), Some(topic)) => format!("{operation} {topic}"),
            (Some(operation), None) => operation.to_owned(),
            (None, _) => format!("{method} {}", route.unwrap_or_default()),
        };
        let mut attributes = messaging(operation, topic, group);
        attributes.extend([
            KeyValue::new("http.request.method", method.to_owned()),
            KeyValue::new("http.response.status_code", i64::from(status)),
            KeyValue::new("driftq.request_id", request_id.to_owned()),
        ]);
        attributes.extend(route.map(|route| KeyValue::new("http.route", route.to_owned())));
        attributes.extend(error.map(|code| KeyValue::new("error.type", code.to_owned())));
        let status = error.map(|code| Status::error(code.to_owned()));
        self.export(name, SpanKind::Server, span, attributes, status);
    }

    /// Exports the span of a delivery.
    pub(crate) fn delivered(&self, delivery: &Delivery) {
        let trace = delivery.message.trace.as_deref();
        let Some(span) = self.begin(trace.map(|Trace { parent, .. }| &**parent)) else { return };
        let (topic, group) = (Some(&*delivery.topic), Some(&*delivery.group));
        let mut attributes = messaging(Some("deliver"), topic, group);
        attributes.extend([
            KeyValue::new("messaging.message.id", delivery.id.to_string()),
            KeyValue::new("driftq.attempt", i64::from(delivery.hold.attempt)),
        ]);
        let name = format!("deliver {}", delivery.topic);
        self.export(name, SpanKind::Producer, span, attributes, None);
    }

    fn export(
        &self,
        name: String,
        kind: SpanKind,
        PendingSpan { parent, began }: PendingSpan,
        attributes: Vec<KeyValue>,
        status: Option<Status>,
    ) {
        let Some(Exporter { tracer, .. }) = &self.0 else { return };
        let span = SpanBuilder::from_name(name)
            .with_kind(kind)
            .with_start_time(began)
            .with_attributes(attributes);
        let mut span =
            tracer.build_with_context(span, &Context::new().with_remote_span_context(parent));
        if let Some(status) = status {
            span.set_status(status);
        }
        span.end();
    }

    /// Exports the spans that wait, and stops.
    pub(crate) async fn stop(&self) {
        let Some(Exporter { provider, .. }) = &self.0 else { return };
        let provider = provider.clone();
        let stopped =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(EXPORT_WITHIN));
        if let Ok(Err(error)) = stopped.await {
            tracing::warn!(%error, "the last traces were not exported");
        }
    }
}

/// The exporter cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("traces cannot be exported: {0}")]
pub struct TracesError(String);

/// Parses a `traceparent` whose trace is sampled.
fn sampled(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-').skip(1);
    let (trace, span) = (parts.next()?, parts.next()?);
    let flags = TraceFlags::new(u8::from_str_radix(parts.next()?, 16).ok()?);
    let trace = TraceId::from_hex(trace).ok()?;
    let span = SpanId::from_hex(span).ok()?;
    let parent = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    (flags.is_sampled() && parent.is_valid()).then_some(parent)
}

/// The operation that a route performs on messages.
fn operation(route: &str) -> Option<&'static str> {
    match route {
        "/v1/produce" | "/v1/produce/batch" => Some("send"),
        "/v1/receive" | "/v1/consume" => Some("receive"),
        "/v1/ack" | "/v1/nack" | "/v1/extend" | "/v1/settle" | "/v1/commit" => Some("settle"),
        _ => None,
    }
}

// The attributes follow OpenTelemetry's conventions for messaging. They are not stable yet, so
// their names are in this file only.
fn messaging(
    operation: Option<&'static str>,
    topic: Option<&str>,
    group: Option<&str>,
) -> Vec<KeyValue> {
    let mut attributes = vec![KeyValue::new("messaging.system", "driftq")];
    attributes.extend(operation.map(|name| KeyValue::new("messaging.operation.name", name)));
    let named = |name: &'static str, value: &str| KeyValue::new(name, value.to_owned());
    attributes.extend(topic.map(|topic| named("messaging.destination.name", topic)));
    attributes.extend(group.map(|group| named("messaging.consumer.group.name", group)));
    attributes
}
