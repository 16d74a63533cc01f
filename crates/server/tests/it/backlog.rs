//! A partition that is full says so, and by whom.

use serde_json::json;

use crate::broker::Broker;
use crate::verbs::token;

#[tokio::test]
async fn a_full_partition_says_which_group_is_behind() {
    let broker = Broker::start().await;
    broker.topic_with("t", 2, json!({ "max_backlog_messages": 2 })).await;
    broker.produce("t", "a").await;
    broker.produce("t", "b").await;
    let one_more = json!({ "topic": "t", "value": "c" });
    let body =
        broker.post("/v1/produce", one_more.clone()).await.refused(429, "RESOURCE_EXHAUSTED");
    assert_eq!(body["reason"], "partition_buffer_full");
    assert_eq!(body.get("group"), None, "nobody reads it");
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
async fn a_partition_is_full_by_bytes_too() {
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
async fn a_message_larger_than_the_whole_partition_is_too_large_for_ever() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_bytes": 20 })).await;
    let exact = json!({ "topic": "t", "key": "k", "value": "x".repeat(19) });
    let over = json!({ "topic": "t", "key": "k", "value": "x".repeat(20) });
    let body = broker.post("/v1/produce", over).await.refused(413, "TOO_LARGE");
    assert_eq!(body["limit"], 20, "{body}");
    broker.post("/v1/produce", exact).await.is(200);
}

#[tokio::test]
async fn the_wait_is_told_in_whole_seconds_too() {
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
async fn on_a_disk_that_is_nearly_full_nothing_is_stored_and_everything_is_settled() {
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
