//! Spans of a message, exported to a collector.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use driftq_server::config::Config;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;

use crate::broker::Broker;
use crate::verbs::token;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PRODUCER: &str = "b7ad6b7169203331";
const WORKER: &str = "00f067aa0ba902b7";

/// A collector that keeps the spans it receives.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

impl Collector {
    /// Returns the collector and its URL.
    async fn start() -> (Collector, String) {
        let collector = Collector::default();
        let routes = axum::Router::new()
            .route("/v1/traces", post(Collector::take))
            .with_state(collector.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(axum::serve(listener, routes).into_future());
        (collector, url)
    }

    async fn take(State(collector): State<Collector>, body: Bytes) {
        let export = ExportTraceServiceRequest::decode(body).expect("an export");
        let scopes = export.resource_spans.into_iter().flat_map(|of| of.scope_spans);
        let spans = scopes.flat_map(|scope| scope.spans);
        collector.0.lock().expect("never poisoned").extend(spans);
    }

    fn spans(&self) -> Vec<Span> {
        self.0.lock().expect("never poisoned").clone()
    }
}

/// The span's name, trace and parent.
fn shown(span: &Span) -> (&str, String, String) {
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect();
    (&span.name, hex(&span.trace_id), hex(&span.parent_span_id))
}

fn attribute(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|found| found.value.clone()?.value) {
        Some(Any::StringValue(text)) => text,
        Some(Any::IntValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn traceparent(span: &str, flags: &str) -> String {
    format!("00-{TRACE}-{span}-{flags}")
}

#[tokio::test(flavor = "multi_thread")]
async fn send_deliver_and_settle_are_spans_of_one_trace() {
    let (collector, url) = Collector::start().await;
    let to_collector = |config: &mut Config| config.otlp_endpoint = Some(url.clone());
    let broker = Broker::with(to_collector).await;
    broker.topic("orders").await;
    let body = json!({ "topic": "orders", "value": "m" });
    for flags in ["01", "00"] {
        let parent = traceparent(PRODUCER, flags);
        let ask = broker.ask("POST", "/v1/produce").json(&body).header("traceparent", parent);
        ask.send().await.is(200);
    }
    for delivery in broker.receive_now("orders", "biller", "me").await {
        let parent = delivery["trace"]["traceparent"].as_str().expect("a trace");
        let parent = parent.replace(PRODUCER, WORKER);
        let ask = broker.ask("POST", "/v1/ack").json(&token(&delivery));
        ask.header("traceparent", parent).send().await.is(204);
    }
    let late = broker.ask("POST", "/v1/ack").json(&json!({ "token": "none" }));
    late.header("traceparent", traceparent(WORKER, "01")).send().await.is(400);
    // A server that stops exports the spans that wait.
    broker.stop().await;

    let spans = collector.spans();
    let trace = |name, parent: &str| (name, TRACE.to_owned(), parent.to_owned());
    let expected = [
        trace("send orders", PRODUCER),
        trace("deliver orders", PRODUCER),
        trace("settle", WORKER),
        trace("settle", WORKER),
    ];
    assert_eq!(spans.iter().map(shown).collect::<Vec<_>>(), expected);
    let [send, deliver, settle, late] = &spans[..] else { unreachable!("compared above") };
    assert_eq!(attribute(send, "messaging.destination.name"), "orders");
    assert_eq!(attribute(send, "http.response.status_code"), "200");
    assert_eq!(attribute(send, "driftq.request_id").len(), 32);
    assert_eq!(attribute(deliver, "messaging.consumer.group.name"), "biller");
    assert_eq!(attribute(deliver, "driftq.attempt"), "1");
    assert_eq!(attribute(settle, "messaging.operation.name"), "settle");
    assert_eq!(attribute(late, "error.type"), "INVALID_ARGUMENT");
    assert!(send.start_time_unix_nano < send.end_time_unix_nano);
}

/// A collector that never answers delays no request, and a stop only briefly.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_delays_nothing() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let broker = Broker::with(|config: &mut Config| config.otlp_endpoint = Some(url)).await;
    broker.topic("orders").await;
    let body = json!({ "topic": "orders", "value": "m" });
    let began = std::time::Instant::now();
    for _ in 0..50 {
        let ask = broker.ask("POST", "/v1/produce").json(&body);
        ask.header("traceparent", traceparent(PRODUCER, "01")).send().await.is(200);
    }
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    broker.stop().await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
