//! A paused group receives nothing new, and its leased messages can be settled.

use serde_json::json;

use crate::broker::Broker;
use crate::verbs::{fields, time, token, without_rates};

const GROUP: &str = "/v1/topics/t/groups/g";

async fn paused_while_one_is_held() -> (Broker, serde_json::Value) {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "held").await;
    broker.produce("t", "next").await;
    let held = broker.receive("t", "g", "o").await;
    broker.post(format!("{GROUP}/pause"), json!({ "reason": "r", "by": "ops" })).await.is(200);
    (broker, held)
}

#[tokio::test]
async fn a_pause_records_by_and_reason() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.put(GROUP, json!({})).await.is(201);
    let pause = json!({ "reason": "bad deploy 41f2", "by": "ops" });
    let group = broker.post(format!("{GROUP}/pause"), pause).await.is(200);
    assert_eq!(fields(&group["paused"]), ["by", "reason", "since"]);
    assert_eq!(group["paused"]["by"], "ops");
    assert_eq!(group["paused"]["reason"], "bad deploy 41f2");
    time(&group["paused"]["since"]);
    assert_eq!(without_rates(broker.group("t", "g").await), without_rates(group));
    let again = json!({ "reason": "still bad", "by": "night shift" });
    let group = broker.post(format!("{GROUP}/pause"), again).await.is(200);
    assert_eq!(group["paused"]["reason"], "still bad");
    let group = broker.post(format!("{GROUP}/resume"), json!({})).await.is(200);
    assert_eq!(group.get("paused"), None);
    assert_eq!(broker.post(format!("{GROUP}/resume"), json!({})).await.is(200), group);
    broker.post_query(format!("{GROUP}/resume")).await.is(200);
}

#[tokio::test]
async fn a_paused_group_receives_nothing() {
    let (broker, _) = paused_while_one_is_held().await;
    assert!(broker.receive_now("t", "g", "o").await.is_empty());
    assert_eq!(broker.group("t", "g").await["partitions"][0]["blocked"], "paused");
    broker.post(format!("{GROUP}/resume"), json!({})).await.is(200);
    assert_eq!(broker.receive("t", "g", "o").await["value"], "next");
}

#[tokio::test]
async fn leased_messages_can_be_settled_and_extended_while_paused() {
    let (broker, held) = paused_while_one_is_held().await;
    broker.extend(token(&held), json!({ "lease_ms": 60_000 })).await.is(200);
    broker.nack(token(&held), json!({ "delay_ms": 0 })).await.is(204);
    assert!(broker.receive_now("t", "g", "o").await.is_empty());
    let (broker, held) = paused_while_one_is_held().await;
    broker.ack(token(&held)).await.is(204);
    assert_eq!(broker.group("t", "g").await["backlog"], 1);
}

#[tokio::test]
async fn a_stream_stays_open_during_a_pause() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let mut stream = broker.ask("GET", "/v1/consume?topic=t&group=g&owner=o").stream().await;
    broker.post(format!("{GROUP}/pause"), json!({})).await.is(200);
    broker.produce("t", "x").await;
    assert!(broker.receive_now("t", "g", "o").await.is_empty());
    broker.post(format!("{GROUP}/resume"), json!({})).await.is(200);
    let delivery = stream.next().await;
    assert_eq!(delivery["value"], "x");
    assert_eq!(delivery["attempts"], 1);
}

#[tokio::test]
async fn a_pause_uses_up_no_attempts() {
    let broker = Broker::start().await;
    let policy = json!({ "max_attempts": 2, "backoff_ms": 0, "max_backoff_ms": 0 });
    broker.topic_with("t", 1, json!({ "retry_policy": policy })).await;
    broker.produce("t", "x").await;
    let short = json!({ "topic": "t", "group": "g", "owner": "o", "lease_ms": 250 });
    assert_eq!(broker.receive_with(short).await["attempts"], 1);
    broker.post(format!("{GROUP}/pause"), json!({})).await.is(200);
    let group = broker.until_waiting("t", "g").await;
    assert_eq!(group["leased"], 0);
    assert!(broker.receive_now("t", "g", "o").await.is_empty());
    broker.post(format!("{GROUP}/resume"), json!({})).await.is(200);
    let again = broker.receive("t", "g", "o").await;
    assert_eq!(again["attempts"], 2);
    assert_eq!(again["last_error"], "ack_timeout");
    assert_eq!(broker.show("t").await["dead_letters"], 0);
}

#[tokio::test]
async fn a_pause_ends_at_its_end_time() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let receipt = broker.produce("t", "x").await;
    assert_eq!(receipt["offset"], 0);
    let seen = time(&broker.receive("t", "other", "o").await["produced_at"]);
    broker.put(GROUP, json!({})).await.is(201);
    let until = driftq_api::Time(seen + 1_500).to_string();
    let group = broker.post(format!("{GROUP}/pause"), json!({ "until": until })).await.is(200);
    assert_eq!(group["paused"]["until"], until.as_str());
    assert!(broker.receive_now("t", "g", "o").await.is_empty());
    let patient = json!({ "topic": "t", "group": "g", "owner": "o", "wait_ms": 20_000 });
    assert_eq!(broker.receive_with(patient).await["value"], "x");
    assert_eq!(broker.group("t", "g").await.get("paused"), None);
}

#[tokio::test]
async fn a_pause_survives_a_restart() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    broker.put(GROUP, json!({})).await.is(201);
    broker.post(format!("{GROUP}/pause"), json!({ "reason": "r", "by": "ops" })).await.is(200);
    let before = broker.group("t", "g").await;
    let broker = broker.restart().await;
    assert_eq!(broker.group("t", "g").await["paused"], before["paused"]);
    assert_eq!(broker.receive("t", "other", "o").await["value"], "x", "it is available");
    assert!(broker.receive_now("t", "g", "o").await.is_empty());
    broker.post(format!("{GROUP}/resume"), json!({})).await.is(200);
    broker.receive("t", "g", "o").await;
}

#[tokio::test]
async fn a_long_reason_is_truncated_not_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.put(GROUP, json!({})).await.is(201);
    let pause = json!({ "reason": "x".repeat(2_000) });
    let group = broker.post(format!("{GROUP}/pause"), pause).await.is(200);
    assert_eq!(group["paused"]["reason"], "x".repeat(1024));
}
