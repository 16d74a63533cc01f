//! Settings of a topic: every one with its default, its limits, and its behaviour under a patch.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::verbs::without_rates;

const MINUTE: u64 = 60_000;
const YEAR: u64 = 365 * 86_400_000;

#[tokio::test]
async fn a_topic_without_settings_has_the_defaults() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let settings = json!({
        "lease_ms": 30000, "max_in_flight": 1000, "max_open": 10000,
        "retry_policy": { "max_attempts": 20, "backoff_ms": 1000, "max_backoff_ms": 600000 },
        "max_backlog_messages": 1000000, "max_backlog_bytes": 1073741824,
        "retention_ms": 3600000, "retention_bytes": 1073741824, "dlq_retention_ms": null,
        "dedupe_ttl_ms": 604800000, "effect_ttl_ms": 604800000, "on_doubt": null,
        "unkeyed": "first", "require_token": false, "auto_create_groups": true,
        "group_idle_ms": null });
    let shown = broker.show("t").await["settings"].clone();
    for (name, value) in settings.as_object().expect("settings by name") {
        assert_eq!(shown.get(name), Some(value), "{name}");
    }
    assert_eq!(broker.show("t").await["changed_settings"], json!([]));
}

/// The last valid and the first invalid value at each limit.
fn edges() -> Vec<(&'static str, Vec<Value>, Vec<Value>)> {
    let policy = |attempts: i64, base: u64, max: u64| json!({ "max_attempts": attempts, "backoff_ms": base, "max_backoff_ms": max });
    vec![
        ("lease_ms", vec![json!(250), json!(43_200_000)], vec![json!(249), json!(43_200_001)]),
        (
            "max_in_flight",
            vec![json!(1), json!(10_000)],
            vec![json!(0), json!(100_001), json!(10_001)],
        ),
        ("max_open", vec![json!(1_000), json!(1_000_000)], vec![json!(999), json!(1_000_001)]),
        ("max_backlog_messages", vec![json!(1)], vec![json!(0), json!(-1)]),
        ("max_backlog_bytes", vec![json!(1)], vec![json!(0), json!(-1)]),
        ("retention_ms", vec![json!(0), json!(YEAR)], vec![json!(-1), json!(YEAR + 1)]),
        ("retention_bytes", vec![json!(0)], vec![json!(-1)]),
        (
            "dlq_retention_ms",
            vec![json!(null), json!(MINUTE), json!(10 * YEAR)],
            vec![json!(MINUTE - 1), json!(10 * YEAR + 3 * 86_400_000), json!(0)],
        ),
        (
            "dedupe_ttl_ms",
            vec![json!(604_800_000), json!(YEAR)],
            vec![json!(999), json!(604_799_999), json!(YEAR + 86_400_000)],
        ),
        (
            "effect_ttl_ms",
            vec![json!(MINUTE), json!(604_800_000)],
            vec![json!(MINUTE - 1), json!(604_800_001)],
        ),
        (
            "on_doubt",
            vec![json!(null), json!("retry"), json!("probe"), json!("park")],
            vec![json!("skip"), json!("")],
        ),
        ("unkeyed", vec![json!("first"), json!("spread")], vec![json!("random"), json!(0)]),
        ("require_token", vec![json!(true), json!(false)], vec![json!("true"), json!(1)]),
        ("auto_create_groups", vec![json!(true), json!(false)], vec![json!("closed")]),
        (
            "group_idle_ms",
            vec![json!(null), json!(MINUTE), json!(YEAR)],
            vec![json!(MINUTE - 1), json!(YEAR + 86_400_000)],
        ),
        (
            "retry_policy",
            vec![policy(1, 0, 0), policy(1_000, 1, 1), policy(-1, 1, 2)],
            vec![policy(0, 1, 1), policy(-2, 1, 1), policy(1_001, 1, 1), policy(1, 2, 1)],
        ),
    ]
}

#[tokio::test]
async fn every_setting_is_accepted_at_its_limit_and_rejected_past_it() {
    let broker = Broker::start().await;
    broker.topic("patched").await;
    let mut names = 0;
    for (setting, inside, outside) in edges() {
        for value in inside {
            names += 1;
            let name = format!("t{names}");
            let settings = json!({ setting: value });
            let body = json!({ "name": name, "settings": settings });
            let answer = broker.post("/v1/topics", body).await;
            assert_eq!(answer.status, 201, "{setting} = {value}: {answer:?}");
            assert_eq!(broker.show(&name).await["settings"][setting], value, "{setting}");
        }
        for value in outside {
            let settings = json!({ setting: value });
            let body = json!({ "name": "refused", "settings": settings });
            let answer = broker.post("/v1/topics", body).await;
            assert_eq!(answer.status, 400, "create {setting} = {value}: {answer:?}");
            answer.refused(400, "INVALID_ARGUMENT");
            let answer = broker.patch("/v1/topics/patched", json!({ "settings": settings })).await;
            assert_eq!(answer.status, 400, "patch {setting} = {value}: {answer:?}");
        }
    }
    assert_eq!(broker.show("patched").await["changed_settings"], json!([]), "nothing was stored");
}

#[tokio::test]
async fn a_rejected_setting_is_named() {
    let broker = Broker::start().await;
    for (setting, _, outside) in edges() {
        let body = json!({ "name": "t", "settings": { setting: outside[0] } });
        let body = broker.post("/v1/topics", body).await.refused(400, "INVALID_ARGUMENT");
        let field = body["field"].as_str().unwrap_or_default();
        assert!(field.contains(setting), "{setting}: {body}");
    }
}

#[tokio::test]
async fn a_patch_merges_and_null_restores_the_default() {
    let broker = Broker::start().await;
    broker.topic_with("t", 2, json!({ "lease_ms": 60000, "unkeyed": "spread" })).await;
    let patch = json!({ "settings": { "max_in_flight": 64, "lease_ms": null } });
    let topic = broker.patch("/v1/topics/t", patch).await.is(200);
    assert_eq!(topic["settings"]["max_in_flight"], 64);
    assert_eq!(topic["settings"]["lease_ms"], 30000);
    assert_eq!(topic["settings"]["unkeyed"], "spread");
    let mut changed: Vec<_> = topic["changed_settings"].as_array().expect("a list").clone();
    changed.sort_by_key(Value::to_string);
    assert_eq!(changed, [json!("max_in_flight"), json!("unkeyed")]);
    let topic = without_rates(topic);
    assert_eq!(without_rates(broker.show("t").await), topic);
    let unchanged = broker.patch("/v1/topics/t", json!({ "settings": {} })).await.is(200);
    assert_eq!(without_rates(unchanged), topic);
}

#[tokio::test]
async fn a_retry_policy_may_be_given_in_part() {
    let broker = Broker::start().await;
    let policy = |attempts: i64, base: u64, most: u64| json!({ "max_attempts": attempts, "backoff_ms": base, "max_backoff_ms": most });
    let settings = |policy: Value| json!({ "settings": { "retry_policy": policy } });
    let create = |policy: Value| json!({ "name": "t", "settings": { "retry_policy": policy } });
    broker.post("/v1/topics", create(json!({ "max_attempts": 3 }))).await.is(201);
    assert_eq!(broker.show("t").await["settings"]["retry_policy"], policy(3, 1_000, 600_000));
    // A repeated request is answered with `exists`, a different one is not.
    broker.post("/v1/topics", create(json!({ "max_attempts": 3 }))).await.is(200);
    let other = broker.post("/v1/topics", create(json!({ "max_attempts": 4 }))).await;
    other.refused(409, "ALREADY_EXISTS");
    for (change, expected) in [
        (json!({ "backoff_ms": 50 }), policy(3, 50, 600_000)),
        (json!({ "max_backoff_ms": 500 }), policy(3, 50, 500)),
        (json!({ "max_attempts": -1 }), policy(-1, 50, 500)),
        // The longest wait is at least the first one.
        (json!({ "backoff_ms": 900 }), policy(-1, 900, 900)),
        (json!({}), policy(-1, 900, 900)),
        (Value::Null, policy(20, 1_000, 600_000)),
    ] {
        let topic = broker.patch("/v1/topics/t", settings(change.clone())).await.is(200);
        assert_eq!(topic["settings"]["retry_policy"], expected, "{change}");
    }
    let under = broker.patch("/v1/topics/t", settings(json!({ "max_backoff_ms": 1 }))).await;
    under.invalid("settings.retry_policy");
    for (field, wrong) in [("max_attempts", json!(0)), ("backoff_ms", json!(null))] {
        let answer = broker.patch("/v1/topics/t", settings(json!({ field: wrong }))).await;
        answer.invalid(&format!("settings.retry_policy.{field}"));
    }
}

#[tokio::test]
async fn partitions_cannot_be_patched() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for patch in [
        json!({ "partitions": 2 }),
        json!({ "partitions": 1, "settings": {} }),
        json!({ "settings": { "partitions": 2 } }),
        json!({}),
    ] {
        broker.patch("/v1/topics/t", patch).await.refused(400, "INVALID_ARGUMENT");
    }
    assert_eq!(broker.show("t").await["partitions"], 1);
}

#[tokio::test]
async fn limits_between_related_settings_are_checked() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let both = json!({ "max_in_flight": 100_000, "max_open": 100_000 });
    broker.patch("/v1/topics/t", json!({ "settings": both })).await.is(200);
    // On its own, this would set max_open below max_in_flight.
    let answer = broker.patch("/v1/topics/t", json!({ "settings": { "max_open": null } })).await;
    answer.refused(400, "INVALID_ARGUMENT");
    let both = json!({ "dedupe_ttl_ms": 60_000, "effect_ttl_ms": 60_000 });
    broker.patch("/v1/topics/t", json!({ "settings": both })).await.is(200);
    let answer =
        broker.patch("/v1/topics/t", json!({ "settings": { "dedupe_ttl_ms": 1_000 } })).await;
    answer.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn a_patched_lease_ms_applies_to_the_next_delivery() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "a").await;
    broker.produce("t", "b").await;
    let long = broker.receive("t", "g", "o").await;
    broker.patch("/v1/topics/t", json!({ "settings": { "lease_ms": 250 } })).await.is(200);
    let short = broker.receive("t", "g", "o").await;
    let ends = |delivery: &Value| crate::verbs::time(&delivery["lease"]["expires_at"]);
    assert!(ends(&short) + 20_000 < ends(&long), "{short} {long}");
    broker.until_waiting("t", "g").await;
    broker.ack(crate::verbs::token(&long)).await.is(204);
}

#[tokio::test]
async fn a_misspelled_group_is_not_created() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "auto_create_groups": false })).await;
    broker.produce("t", "x").await;
    let unknown = "/v1/consume?topic=t&group=bilelr&owner=o";
    assert_eq!(broker.get(unknown).await.refused(404, "NOT_FOUND")["kind"], "group");
    let answer = broker.post("/v1/receive", crate::verbs::wanted("t", "bilelr", "o")).await;
    assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], "group");
    assert_eq!(broker.show("t").await["groups"], json!([]));
    broker.put("/v1/topics/t/groups/biller", json!({})).await.is(201);
    assert_eq!(broker.receive("t", "biller", "o").await["value"], "x");
}

#[tokio::test]
async fn each_request_has_its_unkeyed_messages_in_the_next_partition() {
    let broker = Broker::start().await;
    broker.topic_with("t", 3, json!({})).await;
    assert_eq!(broker.show("t").await["settings"]["unkeyed"], "spread");
    assert_eq!(broker.show("t").await["changed_settings"], json!(["unkeyed"]));
    let message = json!({ "topic": "t", "value": "x" });
    for expected in [0, 1, 2, 0] {
        let messages = json!({ "messages": vec![&message; 5] });
        let produced = broker.post("/v1/produce/batch", messages).await.is(200);
        for result in produced["results"].as_array().expect("a list") {
            assert_eq!(result["partition"], expected, "{produced}");
        }
    }
    assert_eq!(broker.produce("t", "x").await["partition"], 1);
    assert_eq!(broker.produce("t", "x").await["partition"], 2);
}

#[tokio::test]
async fn unkeyed_messages_of_v1_go_to_the_first_partition() {
    let broker = Broker::v1().await;
    broker.topic_with("t", 3, json!({})).await;
    assert_eq!(broker.show("t").await["settings"]["unkeyed"], "first");
    for _ in 0..2 {
        assert_eq!(broker.produce("t", "x").await["partition"], 0);
    }
}

#[tokio::test]
async fn a_topic_that_requires_tokens_rejects_settles_by_owner() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "require_token": true })).await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    for op in ["ack", "nack", "extend"] {
        let answer = broker.post(format!("/v1/{op}"), crate::verbs::place(&delivery, "o")).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
    broker.ack(crate::verbs::token(&delivery)).await.is(204);
}

#[tokio::test]
async fn a_lower_limit_revokes_nothing() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for value in ["a", "b", "c"] {
        broker.produce("t", value).await;
    }
    let first = broker.receive("t", "g", "o").await;
    let second = broker.receive("t", "g", "o").await;
    let patch = json!({ "settings": { "max_in_flight": 1 } });
    broker.patch("/v1/topics/t", patch).await.is(200);
    assert_eq!(broker.group("t", "g").await["leased"], 2);
    assert!(broker.receive_now("t", "g", "o").await.is_empty());
    broker.ack(crate::verbs::token(&first)).await.is(204);
    assert!(broker.receive_now("t", "g", "o").await.is_empty(), "one is still above the limit");
    broker.ack(crate::verbs::token(&second)).await.is(204);
    assert_eq!(broker.receive_now("t", "g", "o").await.len(), 1);
}

#[tokio::test]
async fn a_number_of_2_to_the_53_or_more_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let largest = (1_u64 << 53) - 1;
    for name in ["max_backlog_messages", "max_backlog_bytes", "retention_bytes"] {
        let kept = json!({ "settings": { name: largest } });
        assert_eq!(broker.patch("/v1/topics/t", kept).await.is(200)["settings"][name], largest);
        let settings = json!({ name: largest + 1 });
        let changed = json!({ "settings": settings });
        let field = format!("settings.{name}");
        broker.patch("/v1/topics/t", changed).await.invalid(&field);
        let made = json!({ "name": "u", "settings": settings });
        broker.post("/v1/topics", made).await.invalid(&field);
    }
}

#[tokio::test]
async fn dead_letter_topics_have_no_settings() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "w").await;
    let final_nack = json!({ "dead_letter": true });
    broker.nack(crate::verbs::token(&delivery), final_nack).await.is(204);
    let patch = json!({ "settings": { "lease_ms": 1000 } });
    broker.patch("/v1/topics/dlq.t", patch).await.refused(409, "FAILED_PRECONDITION");
}
