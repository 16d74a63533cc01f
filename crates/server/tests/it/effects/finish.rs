//! Finish: each status, repeats, and late finishes, rejected or accepted.

use serde_json::{Value, json};

use super::{ended, named};
use crate::broker::Broker;
use crate::verbs::{fields, with};

fn park() -> Value {
    json!({ "on_doubt": "park" })
}

/// (status, state, status of v1)
const STATUSES: [(&str, &str, &str); 4] = [
    ("SUCCEEDED", "SUCCEEDED", "COMMITTED"),
    ("FAILED_FINAL", "FAILED_FINAL", "FAILED"),
    ("FAILED_RETRYABLE", "FAILED_RETRYABLE", "FAILED"),
    ("UNKNOWN", "PARKED", "PENDING"),
];

#[tokio::test]
async fn each_status_sets_a_state_and_a_repeat_is_marked() {
    let broker = Broker::start().await;
    for (status, state, v1) in STATUSES {
        let began = broker.execute(status, park()).await;
        for repeated in [false, true, true] {
            let answer =
                broker.finish(&began, json!({ "status": status, "code": 7 })).await.is(200);
            let expected =
                json!({ "state": state, "status": v1, "fence": 1, "repeated": repeated });
            assert_eq!(answer, expected);
        }
        let shown = broker.effect("op/charge", status).await;
        assert_eq!((&shown["state"], &shown["status"]), (&json!(state), &json!(v1)));
    }
}

#[tokio::test]
async fn status_unknown_leads_to_doubt_by_the_policy() {
    let broker = Broker::start().await;
    for (on_doubt, state) in [("retry", "IN_DOUBT"), ("probe", "IN_DOUBT"), ("park", "PARKED")] {
        let began = broker.execute(on_doubt, json!({ "on_doubt": on_doubt, "owner": "o" })).await;
        let timeout = json!({ "status": "UNKNOWN", "error": "timeout", "code": 504 });
        let answer = broker.finish(&began, timeout).await.is(200);
        assert_eq!((&answer["state"], &answer["status"]), (&json!(state), &json!("PENDING")));
        let shown = broker.effect("op/charge", on_doubt).await;
        assert_eq!(shown["state"], state);
        assert_eq!(shown["error"], "timeout");
        assert_eq!(shown["doubt"]["cause"], "reported");
        assert_eq!(shown["doubt"]["owner"], "o");
        assert_eq!(shown.get("expires_at"), None, "no lease is left");
        assert_eq!(shown.get("replay_until"), None, "doubt is kept until it is resolved");
    }
}

#[tokio::test]
async fn another_outcome_under_the_same_fence_is_a_conflict_and_changes_nothing() {
    let broker = Broker::start().await;
    let outcomes = [
        json!({ "status": "SUCCEEDED", "result": { "a": 1 } }),
        json!({ "status": "SUCCEEDED", "result": { "a": 2 } }),
        json!({ "status": "SUCCEEDED", "result": "1" }),
        json!({ "status": "SUCCEEDED", "result_base64": "MQ==" }),
        json!({ "status": "SUCCEEDED" }),
        json!({ "status": "SUCCEEDED", "code": 1 }),
        json!({ "status": "FAILED_FINAL" }),
        json!({ "status": "FAILED_FINAL", "error": "declined" }),
        json!({ "status": "FAILED_FINAL", "error": "declined", "result": { "a": 1 } }),
        json!({ "status": "FAILED_RETRYABLE" }),
        json!({ "status": "FAILED_RETRYABLE", "error": "declined" }),
        json!({ "status": "FAILED_RETRYABLE", "downstream_key": "renew" }),
    ];
    for (number, outcome) in outcomes.iter().enumerate() {
        let key = number.to_string();
        let began = broker.execute(&key, park()).await;
        assert_eq!(broker.finish(&began, outcome.clone()).await.is(200)["repeated"], false);
        let shown = broker.effect("op/charge", &key).await;
        for other in outcomes.iter().filter(|other| *other != outcome) {
            let body = broker.finish(&began, other.clone()).await.refused(422, "CONFLICT");
            assert_eq!(body["field"], "outcome", "{outcome} then {other}");
        }
        let body = broker.finish(&began, ended("UNKNOWN")).await.refused(422, "CONFLICT");
        assert_eq!(body["field"], "outcome");
        assert_eq!(broker.finish(&began, outcome.clone()).await.is(200)["repeated"], true);
        assert_eq!(broker.effect("op/charge", &key).await, shown);
    }
}

#[tokio::test]
async fn a_finish_with_unknown_can_be_followed_by_the_real_outcome() {
    let broker = Broker::start().await;
    for (status, state, v1) in STATUSES {
        let began = broker.execute(status, park()).await;
        broker.finish(&began, json!({ "status": "UNKNOWN", "error": "timeout" })).await.is(200);
        let answer = broker.finish(&began, ended(status)).await.is(200);
        let expected = json!({ "state": state, "status": v1, "fence": 1, "repeated": false });
        assert_eq!(answer, expected);
    }
}

#[tokio::test]
async fn a_late_finish_with_the_latest_fence_is_accepted() {
    let broker = Broker::start().await;
    for (on_doubt, state) in [("retry", "IN_DOUBT"), ("probe", "IN_DOUBT"), ("park", "PARKED")] {
        for (status, ..) in STATUSES {
            let key = format!("{on_doubt}-{status}");
            let began =
                broker.execute(&key, json!({ "on_doubt": on_doubt, "lease_ms": 250 })).await;
            broker.until_effect("op/charge", &key, state).await;
            let answer = broker.finish(&began, ended(status)).await.is(200);
            assert_eq!((&answer["repeated"], &answer["fence"]), (&json!(false), &json!(1)));
            let shown = broker.effect("op/charge", &key).await;
            let is_known = status != "UNKNOWN";
            assert_eq!(shown.get("doubt").is_none(), is_known, "{shown}");
        }
    }
}

#[tokio::test]
async fn a_later_fence_makes_the_token_stale() {
    let broker = Broker::start().await;
    for (on_doubt, status) in
        [("retry", "UNKNOWN"), ("probe", "UNKNOWN"), ("park", "FAILED_RETRYABLE")]
    {
        let how = json!({ "on_doubt": on_doubt });
        let first = broker.execute(on_doubt, how).await;
        broker.finish(&first, ended(status)).await.is(200);
        let again = broker.post("/v1/effects/reacquire", named(on_doubt)).await.is(200);
        assert_eq!(again["fence"], 2);
        for outcome in [ended(status), ended("SUCCEEDED"), ended("UNKNOWN")] {
            let body = broker.finish(&first, outcome).await.refused(409, "STALE_FENCE");
            assert_eq!((&body["fence"], &body["current_fence"]), (&json!(1), &json!(2)));
            assert_eq!(body["state"], "IN_PROGRESS");
        }
        broker.finish(&again, ended("SUCCEEDED")).await.is(200);
        let body = broker.finish(&first, ended("SUCCEEDED")).await.refused(409, "STALE_FENCE");
        assert_eq!(body["state"], "SUCCEEDED");
    }
}

#[tokio::test]
async fn a_resolved_effect_cannot_be_finished() {
    let broker = Broker::start().await;
    for (resolved_as, state) in
        [("succeeded", "SUCCEEDED"), ("failed", "FAILED_FINAL"), ("retry", "FAILED_RETRYABLE")]
    {
        let began = broker.execute(resolved_as, park()).await;
        broker.finish(&began, ended("UNKNOWN")).await.is(200);
        let how = json!({ "fence": 1, "as": resolved_as, "by": "ops", "reason": "looked" });
        broker.post("/v1/effects/resolve", with(named(resolved_as), how)).await.is(200);
        for (status, ..) in STATUSES {
            let body = broker.finish(&began, ended(status)).await.refused(409, "STALE_FENCE");
            assert_eq!((&body["fence"], &body["current_fence"]), (&json!(1), &json!(1)));
            assert_eq!(body["state"], state);
        }
    }
}

#[tokio::test]
async fn a_renewed_downstream_key_stays_until_it_is_renewed_again() {
    let broker = Broker::start().await;
    let first =
        broker.execute("k", json!({ "on_doubt": "park", "provider_window_ms": 9_000 })).await;
    let mut keys = vec![first["downstream_key"].clone()];
    let mut began = first;
    for keep in ["renew", "keep", "renew", "", "keep"] {
        let mut how = ended("FAILED_RETRYABLE");
        if !keep.is_empty() {
            how["downstream_key"] = json!(keep);
        }
        broker.finish(&began, how).await.is(200);
        began = broker.post("/v1/effects/reacquire", named("k")).await.is(200);
        let last = keys.last().expect("one").clone();
        assert_eq!(began["downstream_key"] == last, keep != "renew", "{keep}");
        keys.push(began["downstream_key"].clone());
    }
    let distinct: std::collections::BTreeSet<_> = keys.iter().map(Value::to_string).collect();
    assert_eq!(distinct.len(), 3, "a downstream key was reused: {keys:?}");
    let shown = broker.effect("op/charge", "k").await;
    assert_eq!(shown["downstream_key"], began["downstream_key"]);
}

#[tokio::test]
async fn each_status_accepts_only_its_own_fields() {
    let broker = Broker::start().await;
    let began = broker.execute("k", park()).await;
    for (status, field, value, is_taken) in [
        ("SUCCEEDED", "error", json!("x"), false),
        ("SUCCEEDED", "downstream_key", json!("renew"), false),
        ("SUCCEEDED", "downstream_key", json!("keep"), false),
        ("FAILED_FINAL", "downstream_key", json!("renew"), false),
        ("UNKNOWN", "downstream_key", json!("renew"), false),
        ("FAILED_RETRYABLE", "result", json!({}), false),
        ("FAILED_RETRYABLE", "result_base64", json!("AA=="), false),
        ("UNKNOWN", "result", json!(1), false),
        ("UNKNOWN", "result_base64", json!("AA=="), false),
        ("FAILED_RETRYABLE", "downstream_key", json!("lose"), false),
        ("UNKNOWN", "error", json!("x"), true),
        ("FAILED_FINAL", "error", json!("x"), true),
    ] {
        let answer = broker.finish(&began, json!({ "status": status, field: value })).await;
        if is_taken {
            answer.is(200);
        } else {
            // Base64 results are reported under the field `result`.
            let field = field.trim_end_matches("_base64");
            answer.invalid(field);
        }
    }
    for status in ["", "succeeded", "IN_PROGRESS", "IN_DOUBT", "PARKED", "COMMITTED"] {
        broker.finish(&began, ended(status)).await.invalid("status");
    }
}

#[tokio::test]
async fn a_long_error_is_truncated_and_its_repeat_is_recognized() {
    let broker = Broker::start().await;
    let began = broker.execute("k", park()).await;
    let error = format!("{}ü and more", "x".repeat(1023));
    let how = json!({ "status": "FAILED_FINAL", "error": error });
    for repeated in [false, true] {
        assert_eq!(broker.finish(&began, how.clone()).await.is(200)["repeated"], repeated);
    }
    assert_eq!(broker.effect("op/charge", "k").await["error"], "x".repeat(1023));
}

#[tokio::test]
async fn an_invalid_token_is_rejected() {
    let broker = Broker::start().await;
    let began = broker.execute("k", park()).await;
    let good = began["token"].as_str().expect("a token");
    let mut changed = good.to_owned();
    let last = if changed.ends_with('A') { 'B' } else { 'A' };
    changed.replace_range(changed.len() - 1.., &last.to_string());
    let other = Broker::start().await;
    let foreign = other.execute("k", park()).await;
    let foreign = foreign["token"].as_str().expect("a token");
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    let lease = delivery["lease"]["token"].as_str().expect("a token");
    for bad in ["", "et_", "x", &good[..good.len() - 4], &changed, foreign, lease] {
        for (verb, how) in [("finish", ended("SUCCEEDED")), ("extend", json!({}))] {
            let body = with(json!({ "token": bad }), how);
            broker.post(format!("/v1/effects/{verb}"), body).await.invalid("token");
        }
    }
    // An effect token is not a lease token.
    broker.ack(json!({ "token": good })).await.invalid("token");
    broker.begin(json!({ "lease_token": good }), park()).await.invalid("lease_token");
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
}

#[tokio::test]
async fn a_token_is_short_and_url_safe() {
    let broker = Broker::start().await;
    let long = "k".repeat(255);
    let began = broker.begin(named(&long), park()).await.is(200);
    let token = began["token"].as_str().expect("a token");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    assert!(token.len() <= 512 && token.chars().all(is_plain), "{token}");
}

#[tokio::test]
async fn an_outcome_is_returned_with_its_fields() {
    let broker = Broker::start().await;
    let began = broker.execute("k", park()).await;
    let how = json!({ "status": "FAILED_FINAL", "code": -7, "error": "declined", "result": [1] });
    broker.finish(&began, how).await.is(200);
    let replay = broker.begin(named("k"), park()).await.is(200);
    let names = "code decision error fence finished_at key replay_until result scope state status tenant_id";
    assert_eq!(fields(&replay).join(" "), names);
    assert_eq!((&replay["code"], &replay["error"]), (&json!(-7), &json!("declined")));
    assert_eq!((&replay["result"], &replay["fence"]), (&json!([1]), &json!(1)));
    let began = broker.execute("r", park()).await;
    let how = json!({ "status": "FAILED_RETRYABLE", "code": 5, "error": "busy" });
    broker.finish(&began, how).await.is(200);
    let retryable = broker.begin(named("r"), park()).await.is(200);
    let names =
        "code decision error fence finished_at key replay_until scope state status tenant_id";
    assert_eq!(fields(&retryable).join(" "), names);
    assert_eq!(retryable["error"], "busy");
}
