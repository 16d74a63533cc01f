//! Batch produce: each item succeeds or fails on its own.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::verbs::fields;

fn items(count: usize) -> Value {
    let message = |number| json!({ "topic": "t", "value": format!("{number}") });
    json!({ "messages": (0..count).map(message).collect::<Vec<_>>() })
}

#[tokio::test]
async fn each_item_has_its_result_in_order() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let large = "x".repeat((1 << 20) + 1);
    let messages = json!({ "messages": [
        { "topic": "t", "value": "a" },
        { "topic": "t", "value": large },
        { "topic": "nowhere", "value": "x" },
        { "topic": "t", "value": "b" },
        { "topic": "t" },
        { "topic": "t", "value": "c", "envelope": { "deadline": "2025-12-21T12:00:00Z" } },
    ] });
    let answer = broker.post("/v1/produce/batch", messages).await.is(200);
    assert_eq!(fields(&answer), ["accepted", "refused", "results"]);
    assert_eq!(answer["accepted"], 2);
    assert_eq!(answer["refused"], 4);
    let results = answer["results"].as_array().expect("a list");
    assert_eq!(results.len(), 6);
    for (at, offset) in [(0, 0), (3, 1)] {
        assert_eq!(results[at]["status"], "produced");
        assert_eq!(results[at]["topic"], "t");
        assert_eq!(results[at]["offset"], offset);
        assert_eq!(results[at]["deduplicated"], false);
        assert!(results[at]["id"].is_string());
    }
    for (at, error) in
        [(1, "TOO_LARGE"), (2, "NOT_FOUND"), (4, "INVALID_ARGUMENT"), (5, "INVALID_ARGUMENT")]
    {
        assert_eq!(results[at]["error"], error, "{}", results[at]);
        assert_eq!(results[at]["retryable"], false);
        assert!(results[at]["message"].is_string());
    }
    assert_eq!(results[1]["field"], "value");
    assert_eq!(results[1]["limit"], 1 << 20);
    assert_eq!(results[2]["kind"], "topic");
    assert_eq!(results[5]["reason"], "deadline");
}

#[tokio::test]
async fn items_of_one_partition_are_stored_in_order() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let answer = broker.post("/v1/produce/batch", items(100)).await.is(200);
    let offsets = answer["results"].as_array().expect("a list").iter();
    assert!(offsets.map(|result| result["offset"].as_u64()).is_sorted());
    let values = broker.receive_now("t", "g", "o").await;
    for (number, delivery) in values.iter().enumerate() {
        assert_eq!(delivery["value"], number.to_string());
    }
    assert_eq!(values.len(), 100);
}

#[tokio::test]
async fn a_batch_has_1_to_1000_items() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    assert_eq!(broker.post("/v1/produce/batch", items(1000)).await.is(200)["accepted"], 1000);
    broker.post("/v1/produce/batch", items(1001)).await.invalid("messages");
    broker.post("/v1/produce/batch", items(0)).await.invalid("messages");
    broker.post("/v1/produce/batch", json!({})).await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(broker.show("t").await["messages"], 1000, "a rejected batch is not stored");
}

#[tokio::test]
async fn a_batch_of_only_rejected_items_is_answered_with_200() {
    let broker = Broker::start().await;
    let answer = broker.post("/v1/produce/batch", items(3)).await.is(200);
    assert_eq!(answer["accepted"], 0);
    assert_eq!(answer["refused"], 3);
}

#[tokio::test]
async fn the_idempotency_key_header_is_rejected_for_a_batch() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let ask =
        broker.ask("POST", "/v1/produce/batch").json(&items(1)).header("idempotency-key", "k");
    ask.send().await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(broker.show("t").await["messages"], 0);
}

#[tokio::test]
async fn a_key_used_twice_in_a_batch_is_deduplicated() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let message = json!({ "topic": "t", "value": "x", "envelope": { "idempotency_key": "k" } });
    let other = json!({ "topic": "t", "value": "y", "envelope": { "idempotency_key": "k" } });
    let batch = json!({ "messages": [message, message, other] });
    let answer = broker.post("/v1/produce/batch", batch).await.is(200);
    let results = &answer["results"];
    assert_eq!(results[0]["deduplicated"], false);
    assert_eq!(results[1]["deduplicated"], true);
    assert_eq!(results[1]["id"], results[0]["id"]);
    assert_eq!(results[2]["error"], "CONFLICT");
    assert_eq!((&answer["accepted"], &answer["refused"]), (&json!(2), &json!(1)));
    assert_eq!(broker.show("t").await["messages"], 1);
}

#[tokio::test]
async fn a_rejected_item_has_retry_after_ms() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_messages": 2 })).await;
    let answer = broker.post("/v1/produce/batch", items(3)).await.is(200);
    assert_eq!(answer["accepted"], 2);
    let full = &answer["results"][2];
    assert_eq!(full["error"], "RESOURCE_EXHAUSTED");
    assert_eq!(full["retryable"], true);
    assert_eq!(full["reason"], "partition_buffer_full");
    assert!(full["retry_after_ms"].is_u64());
}

#[tokio::test]
async fn one_malformed_item_rejects_the_batch() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let batch =
        json!({ "messages": [{ "topic": "t", "value": "x" }, { "topic": "t", "bogus": "y" }] });
    let body = broker.post("/v1/produce/batch", batch).await.refused(400, "INVALID_ARGUMENT");
    assert!(body["message"].as_str().is_some_and(|message| message.contains("bogus")), "{body}");
    assert_eq!(broker.show("t").await["messages"], 0);
}
