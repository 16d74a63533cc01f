//! A full partition is rejected with the name of the slowest group.

use serde_json::json;

use crate::broker::Broker;
use crate::verbs::token;

#[tokio::test]
async fn a_full_partition_names_the_group_that_is_behind() {
    let broker = Broker::start().await;
    broker.topic_with("t", 2, json!({ "max_backlog_messages": 2, "unkeyed": "first" })).await;
    broker.produce("t", "a").await;
    broker.produce("t", "b").await;
    let one_more = json!({ "topic": "t", "value": "c" });
    let body =
        broker.post("/v1/produce", one_more.clone()).await.refused(429, "RESOURCE_EXHAUSTED");
    assert_eq!(body["reason"], "partition_buffer_full");
    assert_eq!(body.get("group"), None, "no group reads it");
    let first = broker.receive("t", "slow", "o").await;
    for delivery in broker.receive_now("t", "fast", "o").await {
        broker.ack(token(&delivery)).await.is(204);
    }
    let body =
        broker.post("/v1/produce", one_more.clone()).await.refused(429, "RESOURCE_EXHAUSTED");
    assert_eq!(body["group"], "slow");
    let elsewhere = json!({ "partition_override": 1 });
    assert_eq!(broker.produce_with("t", "d", elsewhere).await["partition"], 1);
    broker.ack(token(&first)).await.is(204);
    broker.post("/v1/produce", one_more).await.is(200);
}

#[tokio::test]
async fn a_partition_is_also_limited_in_bytes() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_bytes": 20 })).await;
    let body = |key: &str, value: &str| json!({ "topic": "t", "key": key, "value": value });
    broker.post("/v1/produce", body("12345", "1234567")).await.is(200);
    let answer = broker.post("/v1/produce", body("123", "123456")).await;
    let full = answer.refused(429, "RESOURCE_EXHAUSTED");
    assert_eq!(full["reason"], "partition_buffer_bytes_full");
    assert!(full["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{full}");
    broker.post("/v1/produce", body("12", "123456")).await.is(200);
}

#[tokio::test]
async fn a_message_larger_than_the_backlog_limit_is_too_large() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_bytes": 20 })).await;
    let exact = json!({ "topic": "t", "key": "k", "value": "x".repeat(19) });
    let over = json!({ "topic": "t", "key": "k", "value": "x".repeat(20) });
    let body = broker.post("/v1/produce", over).await.refused(413, "TOO_LARGE");
    assert_eq!(body["limit"], 20, "{body}");
    broker.post("/v1/produce", exact).await.is(200);
}

#[tokio::test]
async fn retry_after_is_also_sent_as_a_header_in_seconds() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_messages": 1 })).await;
    broker.produce("t", "x").await;
    let answer = broker.post("/v1/produce", json!({ "topic": "t", "value": "y" })).await;
    let body = answer.refused(429, "RESOURCE_EXHAUSTED");
    let ms = body["retry_after_ms"].as_u64().expect("how long");
    let seconds: u64 = answer.header("retry-after").parse().expect("whole seconds");
    assert_eq!(seconds, ms.div_ceil(1_000));
    assert!(seconds >= 1);
}

#[tokio::test]
async fn a_nearly_full_disk_rejects_produces_and_accepts_settles() {
    let broker = Broker::in_directory(|_| ()).await;
    broker.topic("t").await;
    broker.produce("t", "a").await;
    let broker = broker.restart_with(|config| config.min_free_bytes = u64::MAX).await;
    let one_more = json!({ "topic": "t", "value": "b" });
    let full =
        broker.post("/v1/produce", one_more.clone()).await.refused(429, "RESOURCE_EXHAUSTED");
    assert_eq!(full["reason"], "storage_low");
    assert_eq!(full.get("group"), None);
    let first = broker.receive("t", "g", "o").await;
    broker.ack(token(&first)).await.is(204);
    let broker = broker.restart().await;
    broker.post("/v1/produce", one_more).await.is(200);
}
