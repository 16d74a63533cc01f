//! The atomic commit over HTTP: its fields, its replies, and that a rejection changes nothing.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::with;

/// Leases a message of `t` to `o` of `g` and begins an effect under it. Returns both tokens.
async fn begun(broker: &Client) -> (String, String) {
    broker.topic("t").await;
    broker.topic("next").await;
    let message = json!({ "topic": "t", "value": "x", "envelope": { "run_id": "r1", "idempotency_key": "k" } });
    broker.post("/v1/produce", message).await.is(200);
    let delivery = broker.receive("t", "g", "o").await;
    let lease = delivery["lease"]["token"].as_str().expect("a token").to_owned();
    let begin = json!({ "lease_token": lease, "on_doubt": "park" });
    let began = broker.post("/v1/effects/begin", begin).await.is(200);
    (lease, began["token"].as_str().expect("a token").to_owned())
}

fn commit(lease: &str, effect: &str) -> Value {
    json!({ "token": lease, "effects": [{ "token": effect, "status": "SUCCEEDED", "result": [1, 2] }],
            "produce": [{ "topic": "next", "value": "y" }, { "topic": "next", "value": "z" }] })
}

async fn count(broker: &Client, topic: &str) -> usize {
    let page = broker.get(format!("/v1/topics/{topic}/messages")).await.is(200);
    page["messages"].as_array().expect("messages").len()
}

#[tokio::test]
async fn a_commit_settles_finishes_and_produces_and_can_be_repeated() {
    let broker = Broker::start().await;
    let (lease, effect) = begun(&broker).await;
    let answer = broker.post("/v1/commit", commit(&lease, &effect)).await.is(200);
    assert_eq!((&answer["status"], &answer["repeated"]), (&json!("committed"), &json!(false)));
    let offsets: Vec<&Value> =
        answer["produced"].as_array().expect("receipts").iter().map(|of| &of["offset"]).collect();
    assert_eq!(offsets, [&json!(0), &json!(1)]);
    let again = broker.post("/v1/commit", commit(&lease, &effect)).await.is(200);
    assert_eq!((&again["repeated"], &again["produced"]), (&json!(true), &answer["produced"]));
    let other = json!({ "token": lease });
    let refused = broker.post("/v1/commit", other).await.refused(422, "CONFLICT");
    assert_eq!(refused["field"], "commit");
    assert_eq!(count(&broker, "next").await, 2);
    let next = broker.get("/v1/topics/next/messages?run_id=r1").await.is(200);
    assert_eq!(next["messages"].as_array().expect("messages").len(), 2, "the run id is kept");
    let record = broker.get("/v1/effects?scope=effect/t/g&key=k").await.is(200);
    assert_eq!((&record["state"], &record["result"]), (&json!("SUCCEEDED"), &json!([1, 2])));
    let group = broker.get("/v1/topics/t/groups/g").await.is(200);
    assert_eq!(group["partitions"][0]["leased"], 0);
}

#[tokio::test]
async fn a_rejection_names_its_item_and_changes_nothing() {
    let broker = Broker::start().await;
    let (lease, effect) = begun(&broker).await;
    let alone = json!({ "scope": "op/x", "key": "k", "on_doubt": "park" });
    let alone = broker.post("/v1/effects/begin", alone).await.is(200);
    let good = commit(&lease, &effect);
    let (ok, no) =
        (json!({ "topic": "next", "value": "y" }), json!({ "topic": "none", "value": "y" }));
    let big = json!({ "topic": "next", "value": "y", "key": "k".repeat(1025) });
    let cases = [
        (json!({ "produce": [ok, no] }), 404, "NOT_FOUND", json!("produce"), json!(1)),
        (json!({ "produce": [ok, big] }), 413, "TOO_LARGE", json!("produce"), json!(1)),
        (
            json!({ "produce": [{ "topic": "next" }] }),
            400,
            "INVALID_ARGUMENT",
            json!("produce"),
            json!(0),
        ),
        (
            json!({ "effects": [{ "token": alone["token"], "status": "SUCCEEDED" }] }),
            400,
            "INVALID_ARGUMENT",
            json!("effects"),
            json!(0),
        ),
        (
            json!({ "effects": [{ "token": effect, "status": "UNKNOWN", "result": 1 }] }),
            400,
            "INVALID_ARGUMENT",
            json!("effects"),
            json!(0),
        ),
        (json!({ "effects": [] }), 409, "FAILED_PRECONDITION", Value::Null, Value::Null),
        (json!({ "settle": "nack" }), 400, "INVALID_ARGUMENT", Value::Null, Value::Null),
        (json!({ "settle": "no" }), 400, "INVALID_ARGUMENT", Value::Null, Value::Null),
        (json!({ "reason": "of a nack" }), 400, "INVALID_ARGUMENT", Value::Null, Value::Null),
        (json!({ "pointer": [] }), 400, "INVALID_ARGUMENT", Value::Null, Value::Null),
        (
            json!({ "pointers": [{ "dataset": "d", "version": 7 }] }),
            400,
            "INVALID_ARGUMENT",
            json!("pointers"),
            json!(0),
        ),
        (
            json!({ "produce": [ok, { "value": "x" }] }),
            400,
            "INVALID_ARGUMENT",
            json!("produce"),
            json!(1),
        ),
        (
            json!({ "produce": vec![ok.clone(); 101] }),
            400,
            "INVALID_ARGUMENT",
            Value::Null,
            Value::Null,
        ),
        (json!({ "token": "lt_no" }), 400, "INVALID_ARGUMENT", Value::Null, Value::Null),
    ];
    for (change, status, code, part, index) in cases {
        let refused = broker.post("/v1/commit", with(good.clone(), change.clone())).await;
        let refused = refused.refused(status, code);
        assert_eq!((&refused["part"], &refused["index"]), (&part, &index), "{change}");
        let message = refused["message"].as_str().expect("text");
        assert!(!message.contains("use commit"), "this is a commit: {message}");
        if [404, 413].contains(&status) {
            assert!(message.contains("record the outcomes of its effects with POST"), "{message}");
        }
    }
    assert_eq!(count(&broker, "next").await, 0);
    let record = broker.get("/v1/effects?scope=effect/t/g&key=k").await.is(200);
    assert_eq!(record["state"], "IN_PROGRESS");
    broker.post("/v1/commit", good).await.is(200);
}

#[tokio::test]
async fn a_nack_commit_finishes_effects_and_a_final_one_may_produce() {
    let broker = Broker::start().await;
    let (lease, effect) = begun(&broker).await;
    let finish = json!([{ "token": effect, "status": "FAILED_FINAL", "error": "declined" }]);
    let nack = json!({ "token": lease, "settle": "nack", "reason": "no", "delay_ms": 0, "effects": finish });
    broker.post("/v1/commit", nack.clone()).await.is(200);
    assert_eq!(broker.post("/v1/commit", nack).await.is(200)["repeated"], true);
    let delivery = broker.receive("t", "g", "o").await;
    let token = &delivery["lease"]["token"];
    let last = json!({ "token": token, "settle": "nack", "dead_letter": true, "produce": [{ "topic": "next", "value": "refund" }] });
    broker.post("/v1/commit", last).await.is(200);
    assert_eq!(count(&broker, "next").await, 1);
    let dead = broker.get("/v1/dlq/t").await.is(200);
    assert_eq!(dead["dead_letters"][0]["dlq"]["reason"], "rejected");
}

#[tokio::test]
async fn a_commit_after_a_plain_ack_or_by_a_stale_attempt_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    let token = json!({ "token": delivery["lease"]["token"] });
    broker.post("/v1/nack", with(token.clone(), json!({ "delay_ms": 0 }))).await.is(204);
    let second = broker.receive("t", "g", "o").await;
    let refused = broker.post("/v1/commit", token).await.refused(409, "STALE_LEASE");
    assert_eq!(refused["state"], "leased");
    let second = json!({ "token": second["lease"]["token"] });
    broker.ack(second.clone()).await.is(204);
    let refused = broker.post("/v1/commit", second).await.refused(409, "STALE_LEASE");
    assert_eq!(refused["state"], "settled");
}

#[tokio::test]
async fn a_producer_can_wait_for_the_result_of_its_message() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let message =
        json!({ "topic": "t", "value": "x", "envelope": { "idempotency_key": "order-77" } });
    broker.post("/v1/produce", message).await.is(200);
    let waiting = broker.get("/v1/effects?scope=effect/t/g&key=order-77&wait_ms=20000");
    let working = async {
        let delivery = broker.receive("t", "g", "o").await;
        let done = json!({ "token": delivery["lease"]["token"], "result": { "ok": true } });
        broker.post("/v1/commit", done).await.is(200);
    };
    let (answer, ()) = tokio::join!(waiting, working);
    assert_eq!(answer.is(200)["result"], json!({ "ok": true }));
}

#[tokio::test]
async fn a_repeated_commit_is_answered_after_a_restart() {
    let broker = Broker::durable().await;
    let (lease, effect) = begun(&broker).await;
    let answer = broker.post("/v1/commit", commit(&lease, &effect)).await.is(200);
    let broker = broker.restart().await;
    let again = broker.post("/v1/commit", commit(&lease, &effect)).await.is(200);
    assert_eq!((&again["repeated"], &again["produced"]), (&json!(true), &answer["produced"]));
    assert_eq!(count(&broker, "next").await, 2);
}

#[tokio::test]
async fn the_messages_of_a_commit_continue_its_trace() {
    let broker = Broker::start().await;
    let (lease, effect) = begun(&broker).await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let ask = broker.ask("POST", "/v1/commit").header("traceparent", parent);
    ask.json(&commit(&lease, &effect)).send().await.is(200);
    let next = broker.receive("next", "g", "o").await;
    assert_eq!(next["trace"], json!({ "traceparent": parent }));
}
