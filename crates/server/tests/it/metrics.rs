//! Numbers for Prometheus.

use serde_json::json;

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::token;

/// The sum over all labels of a metric; none if it is not there.
async fn metric(broker: &Client, name: &str) -> Option<f64> {
    let answer = broker.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let page = String::from_utf8(answer.body.to_vec()).expect("text");
    let lines = page.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
    });
    let values = lines.map(|line| line.rsplit(' ').next().expect("a value"));
    values.map(|value| value.parse::<f64>().expect("a number")).reduce(|sum, value| sum + value)
}

#[tokio::test]
async fn the_page_is_prometheus_text_and_every_name_is_ours() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let answer = broker.get("/metrics").await;
    assert!(answer.header("content-type").starts_with("text/plain"), "{answer:?}");
    let page = String::from_utf8(answer.body.to_vec()).expect("text");
    for line in page.lines().filter(|line| !line.is_empty()) {
        let name = line.strip_prefix("# TYPE ").or(line.strip_prefix("# HELP ")).unwrap_or(line);
        assert!(name.starts_with("driftq_"), "{line}");
    }
}

#[tokio::test]
async fn what_happens_is_counted() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_messages": 3 })).await;
    for value in ["a", "b", "c"] {
        broker.produce("t", value).await;
    }
    let full = json!({ "topic": "t", "value": "d" });
    broker.post("/v1/produce", full).await.refused(429, "RESOURCE_EXHAUSTED");
    let held = broker.receive_now("t", "g", "o").await;
    broker.ack(token(&held[0])).await.is(204);
    broker.nack(token(&held[1]), json!({ "delay_ms": 60_000 })).await.is(204);
    broker.nack(token(&held[2]), json!({ "final": true })).await.is(204);
    for (name, count) in [
        ("driftq_produced_total", 3.0),
        ("driftq_delivered_total", 3.0),
        ("driftq_acked_total", 1.0),
        ("driftq_dead_letters_total", 1.0),
    ] {
        assert_eq!(metric(&broker, name).await, Some(count), "{name}");
    }
    assert!(metric(&broker, "driftq_nacked_total").await >= Some(1.0));
    assert!(metric(&broker, "driftq_backlog").await.is_some());
    assert!(metric(&broker, "driftq_in_flight").await.is_some());
}
