//! Deduplication by idempotency key.

use std::time::Duration;

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::verbs::{token, with};

fn keyed(value: &str, key: &str) -> Value {
    json!({ "topic": "t", "value": value, "envelope": { "idempotency_key": key } })
}

#[tokio::test]
async fn a_repeat_gets_the_original_receipt() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let first = broker.post("/v1/produce", keyed("x", "k")).await.is(200);
    assert_eq!(first["deduplicated"], false);
    let again = broker.post("/v1/produce", keyed("x", "k")).await.is(200);
    assert_eq!(again, with(first, json!({ "deduplicated": true })));
    assert_eq!(broker.show("t").await["messages"], 1);
}

#[tokio::test]
async fn a_repeat_is_deduplicated_after_the_message_was_settled() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.post("/v1/produce", keyed("x", "k")).await.is(200);
    let delivery = broker.receive("t", "g", "o").await;
    broker.ack(token(&delivery)).await.is(204);
    assert_eq!(broker.post("/v1/produce", keyed("x", "k")).await.is(200)["deduplicated"], true);
    assert!(broker.receive_now("t", "g", "o").await.is_empty());
}

#[tokio::test]
async fn the_same_key_with_other_content_is_a_conflict() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let first = keyed("x", "k");
    broker.post("/v1/produce", first.clone()).await.is(200);
    let others = [
        ("value", keyed("y", "k")),
        ("key", with(first.clone(), json!({ "key": "other" }))),
        (
            "envelope.partition_override",
            with(
                first.clone(),
                json!({ "envelope": { "idempotency_key": "k", "partition_override": 0 } }),
            ),
        ),
        (
            "envelope.target_topic",
            with(
                first.clone(),
                json!({ "envelope": { "idempotency_key": "k", "target_topic": "u" } }),
            ),
        ),
    ];
    for (field, other) in others {
        let body = broker.post("/v1/produce", other).await.refused(422, "CONFLICT");
        assert_eq!(body["field"], field);
    }
    // A retry may come from another run, and with another policy.
    let again = with(
        first,
        json!({ "envelope": { "idempotency_key": "k", "run_id": "r", "step_id": "s", "tenant_id": "default",
                              "retry_policy": { "max_attempts": 2 } } }),
    );
    assert_eq!(broker.post("/v1/produce", again).await.is(200)["deduplicated"], true);
}

#[tokio::test]
async fn a_topic_may_compare_keys_alone() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "dedupe_compare": "key" })).await;
    assert_eq!(broker.show("t").await["settings"]["dedupe_compare"], "key");
    broker.post("/v1/produce", keyed("x", "k")).await.is(200);
    let other = broker.post("/v1/produce", keyed("y", "k")).await.is(200);
    assert_eq!((&other["deduplicated"], &other["offset"]), (&json!(true), &json!(0)));
}

#[tokio::test]
async fn content_is_compared_by_bytes_not_by_encoding() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.post("/v1/produce", keyed("x", "k")).await.is(200);
    let base64 =
        json!({ "topic": "t", "value_base64": "eA==", "envelope": { "idempotency_key": "k" } });
    assert_eq!(broker.post("/v1/produce", base64).await.is(200)["deduplicated"], true);
    let query = broker.post_query("/v1/produce?topic=t&value=x&idem_key=k").await.is(200);
    assert_eq!(query["deduplicated"], true);
}

#[tokio::test]
async fn a_repeat_with_another_deadline_is_not_a_conflict() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.post("/v1/produce", keyed("x", "k")).await.is(200);
    for deadline in ["2999-12-21T12:00:00Z", "2025-12-21T12:00:00Z"] {
        let envelope = json!({ "idempotency_key": "k", "deadline": deadline });
        let again = broker.produce_with("t", "x", envelope).await;
        assert_eq!(again["deduplicated"], true, "also if it has passed: {deadline}");
    }
}

#[tokio::test]
async fn a_repeat_is_answered_when_the_backlog_is_full() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_messages": 1 })).await;
    broker.post("/v1/produce", keyed("x", "k")).await.is(200);
    broker.post("/v1/produce", keyed("y", "l")).await.refused(429, "RESOURCE_EXHAUSTED");
    assert_eq!(broker.post("/v1/produce", keyed("x", "k")).await.is(200)["deduplicated"], true);
}

#[tokio::test]
async fn a_rejected_message_does_not_store_its_key() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_messages": 1 })).await;
    broker.produce("t", "full").await;
    broker.post("/v1/produce", keyed("x", "k")).await.refused(429, "RESOURCE_EXHAUSTED");
    let delivery = broker.receive("t", "g", "o").await;
    broker.ack(token(&delivery)).await.is(204);
    assert_eq!(broker.post("/v1/produce", keyed("y", "k")).await.is(200)["deduplicated"], false);
}

#[tokio::test]
async fn a_key_belongs_to_a_tenant_and_to_the_requested_topic() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.topic("u").await;
    let envelopes = [
        ("t", json!({ "idempotency_key": "k" })),
        ("t", json!({ "idempotency_key": "k", "tenant_id": "acme" })),
        ("t", json!({ "idempotency_key": "k", "tenant_id": "other" })),
        ("u", json!({ "idempotency_key": "k" })),
    ];
    for (topic, envelope) in envelopes {
        let receipt = broker.produce_with(topic, "x", envelope).await;
        assert_eq!(receipt["deduplicated"], false, "{topic}");
    }
    // Requested for t and routed to u: not the same key as one of u.
    let routed = json!({ "idempotency_key": "r", "target_topic": "u" });
    assert_eq!(broker.produce_with("t", "x", routed.clone()).await["deduplicated"], false);
    let plain = json!({ "idempotency_key": "r" });
    assert_eq!(broker.produce_with("u", "x", plain).await["deduplicated"], false);
    let again = broker.produce_with("t", "x", routed).await;
    assert_eq!(again["deduplicated"], true);
    assert_eq!(again["final_topic"], "u");
}

#[tokio::test]
async fn an_empty_tenant_is_the_default_tenant() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let silent = json!({ "idempotency_key": "k" });
    broker.produce_with("t", "x", silent).await;
    let empty = json!({ "idempotency_key": "k", "tenant_id": "" });
    assert_eq!(broker.produce_with("t", "x", empty).await["deduplicated"], true);
}

#[tokio::test]
async fn the_header_holds_the_same_key_bare_or_quoted() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.post("/v1/produce", keyed("x", "k-1")).await.is(200);
    let plain = json!({ "topic": "t", "value": "x" });
    for header in ["k-1", "\"k-1\""] {
        let ask = broker.ask("POST", "/v1/produce").json(&plain).header("idempotency-key", header);
        assert_eq!(ask.send().await.is(200)["deduplicated"], true, "{header}");
        let both = keyed("x", "k-1");
        let ask = broker.ask("POST", "/v1/produce").json(&both).header("idempotency-key", header);
        assert_eq!(ask.send().await.is(200)["deduplicated"], true, "{header}");
        let path = "/v1/produce?topic=t&value=x";
        let ask = broker.ask("POST", path).header("idempotency-key", header);
        assert_eq!(ask.send().await.is(200)["deduplicated"], true, "{header}");
    }
    let delivery = broker.receive("t", "g", "o").await;
    assert_eq!(delivery["envelope"]["idempotency_key"], "k-1");
}

#[tokio::test]
async fn the_header_and_the_envelope_must_agree() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let body = keyed("x", "k");
    for header in ["other", "\"other\""] {
        let ask = broker.ask("POST", "/v1/produce").json(&body).header("idempotency-key", header);
        ask.send().await.refused(400, "INVALID_ARGUMENT");
    }
    let long = "k".repeat(256);
    let plain = json!({ "topic": "t", "value": "x" });
    for header in [long.as_bytes(), b"\xff"] {
        let ask = broker.ask("POST", "/v1/produce").json(&plain).header("idempotency-key", header);
        ask.send().await.refused(400, "INVALID_ARGUMENT");
    }
    assert_eq!(broker.show("t").await["messages"], 0);
}

#[tokio::test]
async fn the_header_applies_if_the_envelope_has_an_empty_key() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    // An empty string counts as absent, so there is no difference.
    let body = keyed("x", "");
    for deduplicated in [false, true] {
        let ask = broker.ask("POST", "/v1/produce").json(&body).header("idempotency-key", "k");
        assert_eq!(ask.send().await.is(200)["deduplicated"], deduplicated);
    }
}

#[tokio::test]
async fn an_expired_key_can_be_used_again() {
    let broker = Broker::in_memory().await;
    let minute = json!({ "dedupe_ttl_ms": 60_000, "effect_ttl_ms": 60_000 });
    broker.topic_with("t", 1, minute).await;
    broker.post("/v1/produce", keyed("x", "k")).await.is(200);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(50)).await;
    assert_eq!(broker.post("/v1/produce", keyed("x", "k")).await.is(200)["deduplicated"], true);
    tokio::time::advance(Duration::from_secs(120)).await;
    let later = broker.post("/v1/produce", keyed("y", "k")).await.is(200);
    assert_eq!(later["deduplicated"], false, "a new message is stored");
    assert_eq!(later["offset"], 1);
}
