//! Resolve ends doubt, and only doubt.

use serde_json::{Value, json};

use super::{ended, named};
use crate::broker::Broker;
use crate::client::{Answer, Client};
use crate::verbs::{time, with};

async fn resolve(broker: &Client, key: &str, how: Value) -> Answer {
    let who = with(named(key), json!({ "by": "ops", "reason": "found ch_1" }));
    broker.post("/v1/effects/resolve", with(who, how)).await
}

async fn doubtful(broker: &Client, key: &str, on_doubt: &str) -> Value {
    let began = broker.execute(key, json!({ "on_doubt": on_doubt, "owner": "o" })).await;
    broker.finish(&began, ended("UNKNOWN")).await.is(200);
    began
}

#[tokio::test]
async fn resolve_sets_the_given_outcome() {
    let broker = Broker::start().await;
    for (resolved_as, more, state, status, decision) in [
        (
            "succeeded",
            json!({ "result": { "charge": "ch_1" }, "code": 3 }),
            "SUCCEEDED",
            "COMMITTED",
            "REPLAY",
        ),
        (
            "failed",
            json!({ "error": "declined", "result": [] }),
            "FAILED_FINAL",
            "FAILED",
            "REPLAY",
        ),
        ("retry", json!({ "error": "never arrived" }), "FAILED_RETRYABLE", "FAILED", "RETRYABLE"),
        ("succeeded", json!({ "result_base64": "/wD+" }), "SUCCEEDED", "COMMITTED", "REPLAY"),
        ("succeeded", json!({}), "SUCCEEDED", "COMMITTED", "REPLAY"),
    ] {
        for on_doubt in ["retry", "probe", "park"] {
            let key = format!("{resolved_as}-{on_doubt}-{}", more.to_string().len());
            doubtful(&broker, &key, on_doubt).await;
            let how = with(json!({ "fence": 1, "as": resolved_as }), more.clone());
            let record = resolve(&broker, &key, how).await.is(200);
            assert_eq!(record, broker.effect("op/charge", &key).await, "{key}");
            assert_eq!((&record["state"], &record["status"]), (&json!(state), &json!(status)));
            assert_eq!((&record["fence"], record.get("doubt")), (&json!(1), None));
            for (field, value) in more.as_object().expect("fields") {
                assert_eq!(record[field], *value, "{field}");
            }
            let resolution = &record["resolution"];
            assert_eq!(resolution["at"], record["updated_at"]);
            let expected = json!({ "as": resolved_as, "by": "ops", "reason": "found ch_1",
                "at": resolution["at"] });
            assert_eq!(*resolution, expected);
            assert!(time(&record["replay_until"]) > time(&record["updated_at"]));
            let began = broker.begin(named(&key), json!({ "on_doubt": "park" })).await.is(200);
            assert_eq!((&began["decision"], &began["state"]), (&json!(decision), &json!(state)));
        }
    }
}

#[tokio::test]
async fn resolving_as_retry_allows_the_next_fence() {
    let broker = Broker::start().await;
    let first = doubtful(&broker, "k", "park").await;
    resolve(&broker, "k", json!({ "fence": 1, "as": "retry" })).await.is(200);
    let again = broker.post("/v1/effects/reacquire", named("k")).await.is(200);
    assert_eq!((&again["decision"], &again["fence"]), (&json!("EXECUTE"), &json!(2)));
    assert_eq!(again["downstream_key"], first["downstream_key"]);
    assert_eq!(again.get("doubt"), None, "an operator resolved it");
    broker.finish(&again, ended("SUCCEEDED")).await.is(200);
    assert_eq!(broker.effect("op/charge", "k").await.get("resolution"), None, "of another fence");
}

#[tokio::test]
async fn an_effect_that_is_not_in_doubt_cannot_be_resolved() {
    let broker = Broker::start().await;
    let missing = resolve(&broker, "nothing", json!({ "fence": 1, "as": "retry" })).await;
    assert_eq!(missing.refused(404, "NOT_FOUND")["kind"], "effect");
    broker.execute("IN_PROGRESS", json!({ "on_doubt": "park" })).await;
    for status in ["SUCCEEDED", "FAILED_FINAL", "FAILED_RETRYABLE"] {
        let began = broker.execute(status, json!({ "on_doubt": "park" })).await;
        broker.finish(&began, ended(status)).await.is(200);
    }
    for state in ["IN_PROGRESS", "SUCCEEDED", "FAILED_FINAL", "FAILED_RETRYABLE"] {
        let before = broker.effect("op/charge", state).await;
        for resolved_as in ["succeeded", "failed", "retry"] {
            let how = json!({ "fence": 1, "as": resolved_as });
            let body = resolve(&broker, state, how).await.refused(409, "FAILED_PRECONDITION");
            assert_eq!(body["state"], state);
        }
        assert_eq!(broker.effect("op/charge", state).await, before);
    }
}

#[tokio::test]
async fn a_second_resolve_is_rejected() {
    let broker = Broker::start().await;
    doubtful(&broker, "k", "park").await;
    let how = json!({ "fence": 1, "as": "succeeded" });
    resolve(&broker, "k", how.clone()).await.is(200);
    let body = resolve(&broker, "k", how).await.refused(409, "FAILED_PRECONDITION");
    assert_eq!(body["state"], "SUCCEEDED");
}

#[tokio::test]
async fn resolving_another_fence_is_rejected_as_stale() {
    let broker = Broker::start().await;
    doubtful(&broker, "k", "probe").await;
    for fence in [0u64, 2, 9_007_199_254_740_991] {
        let body = resolve(&broker, "k", json!({ "fence": fence, "as": "failed" })).await;
        let body = body.refused(409, "STALE_FENCE");
        assert_eq!((&body["fence"], &body["current_fence"]), (&json!(fence), &json!(1)));
        assert_eq!(body["state"], "IN_DOUBT");
    }
    // A worker probes, so the operator looked at the previous fence.
    broker.begin(named("k"), json!({ "on_doubt": "park" })).await.is(200);
    let body = resolve(&broker, "k", json!({ "fence": 1, "as": "failed" })).await;
    assert_eq!(body.refused(409, "STALE_FENCE")["current_fence"], 2);
}

#[tokio::test]
async fn by_and_reason_are_required_and_stored() {
    let broker = Broker::start().await;
    doubtful(&broker, "k", "park").await;
    let whole = json!({ "fence": 1, "as": "retry", "by": "ops", "reason": "r" });
    for field in ["by", "reason", "fence", "as"] {
        let mut how = with(named("k"), whole.clone());
        how.as_object_mut().expect("an object").remove(field);
        let body = broker.post("/v1/effects/resolve", how).await;
        let body = body.refused(400, "INVALID_ARGUMENT");
        assert!(
            body["message"].as_str().is_some_and(|expected| expected.contains(field)),
            "{body}"
        );
    }
    for (field, value) in [
        ("by", json!("")),
        ("reason", json!("")),
        ("as", json!("SUCCEEDED")),
        ("as", json!("")),
        ("fence", json!("1")),
        ("fence", json!(-1)),
    ] {
        resolve(&broker, "k", with(whole.clone(), json!({ field: value }))).await.invalid(field);
    }
    for (how, field) in [
        (json!({ "as": "retry", "result": 1 }), "result"),
        (json!({ "as": "succeeded", "error": "x" }), "error"),
        (json!({ "as": "succeeded", "downstream_key": "renew" }), "downstream_key"),
    ] {
        resolve(&broker, "k", with(whole.clone(), how)).await.invalid(field);
    }
    let long = json!({ "by": "b".repeat(2_000), "reason": "r".repeat(2_000) });
    let record = resolve(&broker, "k", with(whole, long)).await.is(200);
    assert_eq!(record["resolution"]["by"], "b".repeat(1_024), "truncated, not rejected");
    assert_eq!(record["resolution"]["reason"], "r".repeat(1_024));
}

#[tokio::test]
async fn an_effect_past_the_provider_window_is_parked_and_can_be_resolved() {
    let broker = Broker::start().await;
    let how = json!({ "on_doubt": "retry", "provider_window_ms": 1 });
    let began = broker.execute("k", how).await;
    broker.finish(&began, ended("UNKNOWN")).await.is(200);
    broker.until_effect("op/charge", "k", "PARKED").await;
    let record = resolve(&broker, "k", json!({ "fence": 1, "as": "succeeded" })).await.is(200);
    assert_eq!(record["state"], "SUCCEEDED");
}
