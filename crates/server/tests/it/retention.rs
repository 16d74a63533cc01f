//! Retention of messages, with advanced time.

use std::time::Duration;

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::token;

async fn settle_all(broker: &Client, group: &str) {
    for delivery in broker.receive_now("t", group, "o").await {
        broker.ack(token(&delivery)).await.is(204);
    }
}

/// Advances the time and lets the shard react.
async fn later(broker: &Client, seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
    broker.produce("clock", "tick").await;
    broker.produce("clock", "tick").await;
}

fn partition(topic: &Value) -> (u64, u64) {
    let partition = &topic["partitions_detail"][0];
    let number = |name: &str| partition[name].as_u64().expect("a number");
    (number("first_offset"), number("next_offset"))
}

async fn three(settings: Value) -> Broker {
    let broker = Broker::in_memory().await;
    broker.topic("clock").await;
    broker.topic_with("t", 1, settings).await;
    for value in ["a", "b", "c"] {
        broker.produce("t", value).await;
    }
    broker
}

#[tokio::test]
async fn messages_settled_by_every_group_are_deleted_after_retention_ms() {
    let broker = three(json!({ "retention_ms": 60_000 })).await;
    settle_all(&broker, "g").await;
    tokio::time::pause();
    later(&broker, 50).await;
    assert_eq!(partition(&broker.show("t").await), (0, 3));
    later(&broker, 120).await;
    let topic = broker.show("t").await;
    assert_eq!(partition(&topic), (3, 3));
    assert_eq!((&topic["messages"], &topic["bytes"]), (&json!(0), &json!(0)));
    assert_eq!(broker.produce("t", "d").await["offset"], 3);
}

#[tokio::test]
async fn a_new_group_can_read_settled_messages_until_they_are_deleted() {
    let broker = three(json!({ "retention_ms": 60_000 })).await;
    settle_all(&broker, "g").await;
    tokio::time::pause();
    later(&broker, 50).await;
    assert_eq!(broker.receive_now("t", "new", "o").await.len(), 3);
}

#[tokio::test]
async fn messages_only_a_deleted_group_held_back_are_deleted() {
    let broker = three(json!({ "retention_ms": 60_000 })).await;
    settle_all(&broker, "g").await;
    broker.put("/v1/topics/t/groups/slow", json!({})).await.is(201);
    tokio::time::pause();
    later(&broker, 300).await;
    assert_eq!(partition(&broker.show("t").await), (0, 3), "held back");
    broker.delete("/v1/topics/t/groups/slow?confirm=slow").await.is(200);
    for _ in 0..10 {
        later(&broker, 60).await;
    }
    assert_eq!(partition(&broker.show("t").await), (3, 3));
}

#[tokio::test]
async fn messages_some_group_has_not_settled_are_kept() {
    let broker = three(json!({ "retention_ms": 0 })).await;
    settle_all(&broker, "fast").await;
    broker.put("/v1/topics/t/groups/slow", json!({})).await.is(201);
    tokio::time::pause();
    later(&broker, 30 * 86_400).await;
    assert_eq!(broker.receive_now("t", "slow", "o").await.len(), 3);
}

#[tokio::test]
async fn without_a_group_messages_are_kept() {
    let broker = three(json!({ "retention_ms": 0, "retention_bytes": 0 })).await;
    tokio::time::pause();
    later(&broker, 30 * 86_400).await;
    assert_eq!(partition(&broker.show("t").await), (0, 3));
    assert_eq!(broker.receive_now("t", "g", "o").await.len(), 3);
}

#[tokio::test]
async fn settled_bytes_beyond_retention_bytes_are_deleted_earlier() {
    let broker = three(json!({ "retention_bytes": 0 })).await;
    settle_all(&broker, "g").await;
    tokio::time::pause();
    later(&broker, 60).await;
    assert_eq!(broker.show("t").await["bytes"], 0);
}

#[tokio::test]
async fn dead_letters_are_deleted_after_dlq_retention_ms() {
    let broker = three(json!({ "dlq_retention_ms": 60_000 })).await;
    for delivery in broker.receive_now("t", "g", "o").await {
        broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    }
    tokio::time::pause();
    later(&broker, 50).await;
    assert_eq!(broker.show("t").await["dead_letters"], 3);
    later(&broker, 120).await;
    assert_eq!(broker.show("t").await["dead_letters"], 0);
    assert_eq!(broker.get("/v1/dlq/t?state=all").await.is(200)["dead_letters"], json!([]));
}

#[tokio::test]
async fn dead_letters_are_kept_forever_by_default() {
    let broker = three(json!({ "retention_ms": 0 })).await;
    for delivery in broker.receive_now("t", "g", "o").await {
        broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    }
    tokio::time::pause();
    later(&broker, 300 * 86_400).await;
    assert_eq!(broker.show("t").await["dead_letters"], 3);
}
