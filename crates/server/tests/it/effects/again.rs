//! Reacquire and extend.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ended, named};
use crate::broker::Broker;
use crate::client::{Answer, Client};
use crate::verbs::{fields, time, with};

async fn reacquire(broker: &Client, key: &str, how: Value) -> Answer {
    broker.post("/v1/effects/reacquire", with(named(key), how)).await
}

async fn extend(broker: &Client, began: &Value, how: Value) -> Answer {
    broker.post("/v1/effects/extend", with(json!({ "token": began["token"] }), how)).await
}

#[tokio::test]
async fn a_failed_or_doubtful_effect_is_reacquired_by_its_policy() {
    let broker = Broker::start().await;
    for (status, on_doubt, decision) in [
        ("FAILED_RETRYABLE", "retry", "EXECUTE"),
        ("FAILED_RETRYABLE", "probe", "EXECUTE"),
        ("FAILED_RETRYABLE", "park", "EXECUTE"),
        ("UNKNOWN", "retry", "EXECUTE"),
        ("UNKNOWN", "probe", "IN_DOUBT"),
    ] {
        let key = format!("{status}-{on_doubt}");
        let began = broker.execute(&key, json!({ "on_doubt": on_doubt, "owner": "a" })).await;
        broker.finish(&began, ended(status)).await.is(200);
        let how = json!({ "owner": "b", "lease_ms": 60_000 });
        let again = reacquire(&broker, &key, how).await.is(200);
        assert_eq!((&again["decision"], &again["fence"]), (&json!(decision), &json!(2)), "{key}");
        assert_eq!(again.get("action").is_some(), decision == "IN_DOUBT", "{again}");
        assert_eq!(again["downstream_key"], began["downstream_key"]);
        assert_eq!(again.get("doubt").is_some(), status == "UNKNOWN", "{again}");
        let shown = broker.effect("op/charge", &key).await;
        assert_eq!((&shown["owner"], &shown["on_doubt"]), (&json!("b"), &json!(on_doubt)));
        let lease = time(&again["expires_at"]) - time(&shown["began_at"]);
        assert_eq!(lease, 60_000);
        broker.finish(&again, ended("SUCCEEDED")).await.is(200);
    }
}

#[tokio::test]
async fn in_any_other_state_reacquire_answers_like_begin() {
    let broker = Broker::start().await;
    let missing = reacquire(&broker, "nothing", json!({})).await.refused(404, "NOT_FOUND");
    assert_eq!(missing["kind"], "effect");
    let began = broker.execute("held", json!({ "on_doubt": "retry" })).await;
    let body = reacquire(&broker, "held", json!({})).await.refused(409, "IN_PROGRESS");
    assert_eq!((&body["decision"], &body["fence"]), (&json!("IN_PROGRESS"), &json!(1)));
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    assert_eq!(reacquire(&broker, "held", json!({})).await.is(200)["decision"], "REPLAY");
    let began = broker.execute("parked", json!({ "on_doubt": "park" })).await;
    broker.finish(&began, ended("UNKNOWN")).await.is(200);
    let body = reacquire(&broker, "parked", json!({})).await.refused(409, "IN_DOUBT");
    assert_eq!((&body["action"], &body["doubt"]["cause"]), (&json!("park"), &json!("reported")));
    let began = broker.execute("failed", json!({ "on_doubt": "park" })).await;
    broker.finish(&began, ended("FAILED_FINAL")).await.is(200);
    assert_eq!(reacquire(&broker, "failed", json!({})).await.is(200)["state"], "FAILED_FINAL");
}

#[tokio::test]
async fn a_request_sent_with_reacquire_must_equal_the_first() {
    let broker = Broker::start().await;
    let began = broker.execute("k", json!({ "on_doubt": "park", "request": "r" })).await;
    broker.finish(&began, ended("FAILED_RETRYABLE")).await.is(200);
    for other in [json!({ "request": "s" }), json!({ "request_hash": "r" })] {
        let body = reacquire(&broker, "k", other).await.refused(422, "CONFLICT");
        assert_eq!(body["field"], "request");
    }
    let again = reacquire(&broker, "k", json!({ "request": "r" })).await.is(200);
    broker.finish(&again, ended("FAILED_RETRYABLE")).await.is(200);
    assert_eq!(reacquire(&broker, "k", json!({})).await.is(200)["fence"], 3, "or omitted");
}

#[tokio::test]
async fn fields_of_begin_are_rejected_by_reacquire() {
    let broker = Broker::start().await;
    for field in ["on_doubt", "ttl_ms", "provider_window_ms", "lease_token", "fence"] {
        let answer = reacquire(&broker, "k", json!({ field: "x" })).await;
        answer.invalid(field);
    }
    for scope in ["produce/t", "effect/t/g"] {
        let body = json!({ "scope": scope, "key": "k" });
        broker.post("/v1/effects/reacquire", body).await.invalid("scope");
    }
}

#[tokio::test]
async fn extend_sets_the_lease_from_the_current_time() {
    let broker = Broker::in_memory().await;
    let began = broker.execute("k", json!({ "on_doubt": "park", "lease_ms": 40_000 })).await;
    let granted = time(&began["expires_at"]) - 40_000;
    let answer = extend(&broker, &began, json!({ "lease_ms": 60_000 })).await.is(200);
    assert_eq!(fields(&answer), ["expires_at", "status"]);
    assert_eq!(answer["status"], "extended");
    let lease = time(&answer["expires_at"]) - granted;
    assert!((60_000..63_000).contains(&lease), "{lease}");
    assert_eq!(broker.effect("op/charge", "k").await["expires_at"], answer["expires_at"]);
    // Defaults to the granted length.
    let answer = extend(&broker, &began, json!({})).await.is(200);
    let lease = time(&answer["expires_at"]) - granted;
    assert!((40_000..43_000).contains(&lease), "{lease}");
    // A waiting caller receives the new end.
    let body = broker.begin(named("k"), json!({ "on_doubt": "park" })).await;
    let left = body.refused(409, "IN_PROGRESS")["retry_after_ms"].as_u64().expect("a time");
    assert!((37_000..=40_000).contains(&left), "{left}");
    // A lease can be shortened, but not below the grace period of ten seconds after a start.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    let answer = extend(&broker, &began, json!({ "lease_ms": 250 })).await.is(200);
    let lease = time(&answer["expires_at"]) - granted;
    assert!((11_250..14_000).contains(&lease), "{lease}");
}

#[tokio::test]
async fn a_stale_or_finished_effect_is_not_extended() {
    let broker = Broker::start().await;
    for (status, on_doubt, state) in [
        ("SUCCEEDED", "park", "SUCCEEDED"),
        ("FAILED_FINAL", "park", "FAILED_FINAL"),
        ("FAILED_RETRYABLE", "park", "FAILED_RETRYABLE"),
        ("UNKNOWN", "probe", "IN_DOUBT"),
        ("UNKNOWN", "park", "PARKED"),
    ] {
        let key = format!("{status}-{on_doubt}");
        let began = broker.execute(&key, json!({ "on_doubt": on_doubt })).await;
        broker.finish(&began, ended(status)).await.is(200);
        let body = extend(&broker, &began, json!({})).await.refused(409, "STALE_FENCE");
        assert_eq!(body["state"], state);
        assert_eq!((&body["fence"], &body["current_fence"]), (&json!(1), &json!(1)));
    }
    let again = reacquire(&broker, "UNKNOWN-probe", json!({})).await.is(200);
    extend(&broker, &again, json!({})).await.is(200);
    let first = broker.execute("late", json!({ "on_doubt": "retry", "lease_ms": 250 })).await;
    broker.until_effect("op/charge", "late", "IN_DOUBT").await;
    let body = extend(&broker, &first, json!({})).await.refused(409, "STALE_FENCE");
    assert_eq!(body["state"], "IN_DOUBT", "its lease has expired");
    reacquire(&broker, "late", json!({})).await.is(200);
    let body = extend(&broker, &first, json!({})).await.refused(409, "STALE_FENCE");
    assert_eq!((&body["fence"], &body["current_fence"]), (&json!(1), &json!(2)));
}

/// A lost reply must not lock its caller out and leave an effect in doubt that was never executed.
#[tokio::test]
async fn a_reacquire_repeated_with_its_nonce_returns_the_same_answer() {
    let broker = Broker::start().await;
    let began = broker.execute("k", json!({ "on_doubt": "park" })).await;
    broker.finish(&began, ended("FAILED_RETRYABLE")).await.is(200);
    let mine = json!({ "nonce": "n1" });
    let taken = reacquire(&broker, "k", mine.clone()).await.is(200);
    assert_eq!(reacquire(&broker, "k", mine).await.is(200), taken);
    reacquire(&broker, "k", json!({ "nonce": "n2" })).await.refused(409, "IN_PROGRESS");
    reacquire(&broker, "k", json!({})).await.refused(409, "IN_PROGRESS");
}
