//! Effects and their leases survive a restart.

use serde_json::{Value, json};

use super::{ended, named, under};
use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::{time, token, wanted, with};

async fn all_records(broker: &Client, keys: &[String]) -> Vec<Value> {
    let mut records = Vec::new();
    for key in keys {
        records.push(broker.effect("op/charge", key).await);
    }
    records
}

#[tokio::test]
async fn records_survive_a_restart_and_tokens_stay_valid() {
    let broker = Broker::durable().await;
    let mut keys = Vec::new();
    let mut open = Value::Null;
    for (status, more) in [
        ("", json!({})),
        ("SUCCEEDED", json!({ "code": 7, "result": { "b": [1, "ü"] } })),
        ("FAILED_FINAL", json!({ "error": "declined", "result_base64": "/wD+" })),
        ("FAILED_RETRYABLE", json!({ "downstream_key": "renew" })),
        ("UNKNOWN", json!({ "error": "timeout" })),
    ] {
        let key = format!("k{status}");
        let how = json!({ "on_doubt": "probe", "request": "r", "owner": "o", "nonce": "n",
            "lease_ms": 600_000, "provider_window_ms": 86_400_000 });
        let began = broker.execute(&key, how).await;
        match status {
            "" => open = began,
            _ => drop(broker.finish(&began, with(ended(status), more)).await.is(200)),
        }
        keys.push(key);
    }
    let resolved = broker.execute("resolved", json!({ "on_doubt": "park" })).await;
    broker.finish(&resolved, ended("UNKNOWN")).await.is(200);
    let how = json!({ "fence": 1, "as": "failed", "by": "ops", "reason": "r" });
    broker.post("/v1/effects/resolve", with(named("resolved"), how)).await.is(200);
    keys.push("resolved".to_owned());
    let before = all_records(&broker, &keys).await;
    let broker = broker.restart().await;
    assert_eq!(all_records(&broker, &keys).await, before);
    let how = json!({ "on_doubt": "park", "request": "r", "nonce": "n" });
    let again = broker.begin(named("k"), how.clone()).await.is(200);
    assert_eq!(again["token"], open["token"], "a lost reply can be requested again");
    let other = with(how, json!({ "request": "s" }));
    broker.begin(named("kSUCCEEDED"), other).await.refused(422, "CONFLICT");
    broker.post("/v1/effects/extend", json!({ "token": open["token"] })).await.is(200);
    broker.finish(&open, ended("SUCCEEDED")).await.is(200);
    let body = broker.finish(&resolved, ended("SUCCEEDED")).await;
    body.refused(409, "STALE_FENCE");
    let list = broker.get("/v1/effects?state=IN_DOUBT").await.is(200);
    assert_eq!(list["effects"][0]["key"], "kUNKNOWN");
    let probe = broker.post("/v1/effects/reacquire", named("kUNKNOWN")).await.is(200);
    assert_eq!((&probe["action"], &probe["fence"]), (&json!("probe"), &json!(2)));
    let before = broker.effect("op/charge", "kFAILED_RETRYABLE").await;
    let renewed = broker.post("/v1/effects/reacquire", named("kFAILED_RETRYABLE")).await.is(200);
    assert_eq!(renewed["fence"], 2);
    assert_ne!(renewed["downstream_key"], before["downstream_key"], "it was renewed");
}

#[tokio::test]
async fn a_lease_that_expired_during_a_restart_is_extended_once() {
    let broker = Broker::durable().await;
    let began = broker.execute("k", json!({ "on_doubt": "park", "lease_ms": 2_000 })).await;
    let broker = broker.restart().await;
    let shown = broker.effect("op/charge", "k").await;
    assert_eq!(shown["state"], "IN_PROGRESS");
    assert!(time(&shown["expires_at"]) > time(&began["expires_at"]), "time to reconnect");
    broker.until_effect("op/charge", "k", "PARKED").await;
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
}

#[tokio::test]
async fn unfinished_effects_of_a_message_survive_a_restart() {
    let broker = Broker::durable().await;
    let policy = json!({ "max_attempts": 9, "backoff_ms": 0, "max_backoff_ms": 0 });
    broker.topic_with("t", 1, json!({ "retry_policy": policy, "on_doubt": "retry" })).await;
    broker.produce("t", "x").await;
    let long = with(wanted("t", "g", "o"), json!({ "lease_ms": 600_000 }));
    let delivery = broker.receive_with(long).await;
    let how = |key: &str| json!({ "key": key });
    let done = broker.begin(under(&delivery), how("done")).await.is(200);
    broker.finish(&done, json!({ "status": "SUCCEEDED", "result": 1 })).await.is(200);
    let open = broker.begin(under(&delivery), how("open")).await.is(200);
    let broker = broker.restart().await;
    let body = broker.ack(token(&delivery)).await.refused(409, "FAILED_PRECONDITION");
    assert_eq!(body["effects"], json!(["open"]));
    let replay = broker.begin(under(&delivery), how("done")).await.is(200);
    assert_eq!((&replay["decision"], &replay["result"]), (&json!("REPLAY"), &json!(1)));
    broker.nack(token(&delivery), json!({ "delay_ms": 0 })).await.is(204);
    let broker = broker.restart().await;
    let record = broker.effect("effect/t/g", "open").await;
    assert_eq!(
        (&record["state"], &record["doubt"]["cause"]),
        (&json!("IN_DOUBT"), &json!("abandoned"))
    );
    let again = broker.receive("t", "g", "o").await;
    let began = broker.begin(under(&again), how("open")).await.is(200);
    assert_eq!((&began["decision"], &began["fence"]), (&json!("EXECUTE"), &json!(2)));
    assert_eq!(began["downstream_key"], open["downstream_key"]);
    let broker = broker.restart().await;
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    broker.ack(token(&again)).await.is(204);
    assert!(broker.effect("effect/t/g", "open").await["replay_until"].is_string());
}

#[tokio::test]
async fn effects_of_a_dead_letter_survive_a_restart() {
    let broker = Broker::durable().await;
    broker.topic_with("t", 1, json!({ "on_doubt": "park" })).await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    let began = broker.begin(under(&delivery), json!({})).await.is(200);
    broker.finish(&began, json!({ "status": "SUCCEEDED", "result": 1 })).await.is(200);
    broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    let broker = broker.restart().await;
    let letters = broker.get("/v1/dlq/t").await.is(200);
    let ids = json!({ "ids": [letters["dead_letters"][0]["id"]] });
    broker.post("/v1/dlq/t/redrive", ids).await.is(200);
    let broker = broker.restart().await;
    let again = broker.receive("t", "g", "o").await;
    let replay = broker.begin(under(&again), json!({})).await.is(200);
    assert_eq!((&replay["decision"], &replay["key"]), (&json!("REPLAY"), &delivery["id"]));
}
