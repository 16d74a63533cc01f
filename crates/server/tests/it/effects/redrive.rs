//! A message that comes back from the dead keeps its effects.

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

/// Kills a message whose effect is as `status` says, if it has one. Returns its delivery and its letter.
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
async fn what_had_an_outcome_or_was_in_doubt_still_has_or_is() {
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
async fn twice_redriven_it_is_still_its_first_self() {
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
async fn dead_for_longer_than_its_effects_are_kept_it_comes_back_by_force_only() {
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
    assert_eq!(state["dead_letters"].as_array().map(Vec::len), Some(2), "both are still there");
    // What never had an effect has none to lose.
    assert_eq!(redrive(&broker, &plain, Value::Null).await["status"], "redriven");
    assert_eq!(redrive(&broker, &letter, json!(true)).await["status"], "redriven");
    // By force it is executed again: nobody remembers.
    broker.receive("t", "g", "o").await;
    let forced = broker.receive("t", "g", "o").await;
    let began = broker.begin(under(&forced), json!({})).await.is(200);
    assert_eq!((&began["decision"], &began["fence"]), (&json!("EXECUTE"), &json!(1)));
}

#[tokio::test]
async fn force_goes_with_a_filter_too() {
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
async fn doubt_outlives_its_letter() {
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
