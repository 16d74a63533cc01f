//! A redriven message keeps its effects.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ended, under};
use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::token;

async fn topic(broker: &Client) {
    let minute = json!({ "dedupe_ttl_ms": 60_000, "effect_ttl_ms": 60_000, "on_doubt": "probe" });
    broker.topic_with("t", 1, minute).await;
}

/// Dead-letters a message whose effect ended with `status`, if any. Returns its delivery and its
/// dead letter.
async fn dead(broker: &Client, envelope: Value, status: Option<&str>) -> (Value, Value) {
    broker.produce_with("t", "x", envelope).await;
    let delivery = broker.receive("t", "g", "o").await;
    if let Some(status) = status {
        let began = broker.begin(under(&delivery), json!({})).await.is(200);
        if !status.is_empty() {
            broker.finish(&began, ended(status)).await.is(200);
        }
    }
    broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    let letters = broker.get("/v1/dlq/t?limit=1").await.is(200);
    (delivery, letters["dead_letters"][0]["id"].clone())
}

async fn redrive(broker: &Client, letter: &Value, force: Value) -> Value {
    let mut body = json!({ "ids": [letter] });
    if !force.is_null() {
        body["force"] = force;
    }
    let answer = broker.post("/v1/dlq/t/redrive", body).await.is(200);
    answer["results"][0].clone()
}

#[tokio::test]
async fn a_redriven_message_keeps_outcomes_and_doubt() {
    for envelope in [json!({}), json!({ "idempotency_key": "order-77" })] {
        for (status, decision, fence) in [
            ("SUCCEEDED", "REPLAY", 1),
            ("FAILED_FINAL", "REPLAY", 1),
            ("FAILED_RETRYABLE", "EXECUTE", 2),
            ("UNKNOWN", "IN_DOUBT", 2),
            ("", "IN_DOUBT", 2),
        ] {
            let broker = Broker::start().await;
            topic(&broker).await;
            let (delivery, letter) = dead(&broker, envelope.clone(), Some(status)).await;
            assert_eq!(redrive(&broker, &letter, Value::Null).await["status"], "redriven");
            let again = broker.receive("t", "g", "o").await;
            assert_ne!(again["id"], delivery["id"]);
            assert_eq!(again["redriven"]["origin_id"], delivery["id"]);
            let began = broker.begin(under(&again), json!({})).await.is(200);
            let what = format!("{status:?} {envelope}: {began}");
            assert_eq!(
                (&began["decision"], &began["fence"]),
                (&json!(decision), &json!(fence)),
                "{what}"
            );
            let key = envelope.get("idempotency_key").unwrap_or(&delivery["id"]);
            assert_eq!(began["key"], *key, "{what}");
            if decision != "REPLAY" {
                broker.finish(&began, ended("SUCCEEDED")).await.is(200);
            }
            broker.ack(token(&again)).await.is(204);
        }
    }
}

#[tokio::test]
async fn a_message_redriven_twice_keeps_its_origin_id() {
    let broker = Broker::start().await;
    topic(&broker).await;
    let (delivery, letter) = dead(&broker, json!({}), Some("SUCCEEDED")).await;
    redrive(&broker, &letter, Value::Null).await;
    let again = broker.receive("t", "g", "o").await;
    broker.nack(token(&again), json!({ "dead_letter": true })).await.is(204);
    let letters = broker.get("/v1/dlq/t?limit=1").await.is(200);
    redrive(&broker, &letters["dead_letters"][0]["id"], Value::Null).await;
    let third = broker.receive("t", "g", "o").await;
    assert_eq!(third["redriven"], json!({ "origin_id": delivery["id"], "times": 2 }));
    let began = broker.begin(under(&third), json!({})).await.is(200);
    assert_eq!((&began["decision"], &began["key"]), (&json!("REPLAY"), &delivery["id"]));
}

#[tokio::test]
async fn a_redrive_after_the_effects_expired_requires_force() {
    let broker = Broker::in_memory().await;
    topic(&broker).await;
    let (_, plain) = dead(&broker, json!({}), None).await;
    let (_, letter) = dead(&broker, json!({}), Some("SUCCEEDED")).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    for force in [Value::Null, json!(false)] {
        let refused = redrive(&broker, &letter, force).await;
        assert_eq!(refused["error"], "FAILED_PRECONDITION", "{refused}");
        assert_eq!(refused["state"], "effects_expired", "{refused}");
        assert_eq!(refused["retryable"], false);
    }
    let state = broker.get("/v1/dlq/t?state=dead").await.is(200);
    assert_eq!(state["dead_letters"].as_array().map(Vec::len), Some(2), "both still exist");
    // A message without effects needs no force.
    assert_eq!(redrive(&broker, &plain, Value::Null).await["status"], "redriven");
    assert_eq!(redrive(&broker, &letter, json!(true)).await["status"], "redriven");
    // After a forced redrive the effect is executed again, because its record has expired.
    broker.receive("t", "g", "o").await;
    let forced = broker.receive("t", "g", "o").await;
    let began = broker.begin(under(&forced), json!({})).await.is(200);
    assert_eq!((&began["decision"], &began["fence"]), (&json!("EXECUTE"), &json!(1)));
}

#[tokio::test]
async fn force_can_be_combined_with_a_filter() {
    let broker = Broker::in_memory().await;
    topic(&broker).await;
    dead(&broker, json!({}), Some("SUCCEEDED")).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    let all = json!({ "filter": { "group": "g" } });
    let answer = broker.post("/v1/dlq/t/redrive", all).await.is(200);
    assert_eq!((&answer["matched"], &answer["redriven"]), (&json!(1), &json!(0)));
    let all = json!({ "filter": { "group": "g" }, "force": true });
    let answer = broker.post("/v1/dlq/t/redrive", all).await.is(200);
    assert_eq!((&answer["matched"], &answer["redriven"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn doubt_is_kept_while_its_message_is_dead() {
    let broker = Broker::in_memory().await;
    topic(&broker).await;
    let (delivery, _) = dead(&broker, json!({}), Some("UNKNOWN")).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3_600)).await;
    tokio::time::resume();
    let id = delivery["id"].as_str().expect("an id");
    assert_eq!(broker.effect("effect/t/g", id).await["state"], "IN_DOUBT");
    let list = broker.get("/v1/effects?state=IN_DOUBT").await.is(200);
    assert_eq!(list["effects"].as_array().map(Vec::len), Some(1));
}
