//! What ack, nack and extend answer, by what the broker knows of the message: the table of the API, a
//! row at a time. Each cell has a message of its own.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::{Answer, Client};
use crate::verbs::{place, time, token, wanted, with};

const OPS: [&str; 3] = ["ack", "nack", "extend"];

/// What a cell of the table says.
#[derive(Clone, Copy)]
enum Expected {
    /// 204, or 200 for an extend.
    Done,
    /// 409 STALE_LEASE with this state.
    Stale(&'static str),
    /// 409 FAILED_PRECONDITION with these words.
    Refused(&'static str),
}

use Expected::{Done, Refused, Stale};

#[track_caller]
fn check(op: &str, answer: &Answer, expected: Expected) {
    match expected {
        Done => {
            let status = if op.starts_with("extend") { 200 } else { 204 };
            assert_eq!(answer.status, status, "{op}: {answer:?}");
        }
        Stale(state) => {
            assert_eq!(answer.status, 409, "{op}: {answer:?}");
            let body = answer.refused(409, "STALE_LEASE");
            assert_eq!(body["state"], state, "{op}: {body}");
            assert!(body["attempt"].is_u64(), "{op}: {body}");
        }
        Refused(words) => {
            assert_eq!(answer.status, 409, "{op}: {answer:?}");
            let body = answer.refused(409, "FAILED_PRECONDITION");
            assert!(
                body["message"].as_str().is_some_and(|expected| expected.contains(words)),
                "{op}: {body}"
            );
        }
    }
}

/// One row of the table: `state` brings a message to it and names the delivery that is asked about.
async fn row(name: &str, state: impl AsyncFn(&Client) -> Value, expected: [Expected; 3]) {
    for (op, expected) in OPS.into_iter().zip(expected) {
        let broker = fresh().await;
        let named = state(&broker).await;
        let answer = broker.post(format!("/v1/{op}"), named).await;
        check(&format!("{op} ({name})"), &answer, expected);
    }
}

async fn fresh() -> Broker {
    let broker = Broker::start().await;
    // Nothing comes back by itself while a test looks.
    let policy = json!({ "max_attempts": 5, "backoff_ms": 600_000, "max_backoff_ms": 600_000 });
    broker.topic_with("t", 1, json!({ "retry_policy": policy })).await;
    broker
}

async fn first(broker: &Client) -> Value {
    broker.produce("t", "x").await;
    broker.receive("t", "g", "a").await
}

async fn expired(broker: &Client) -> Value {
    broker.produce("t", "x").await;
    let short = with(wanted("t", "g", "a"), json!({ "lease_ms": 250 }));
    let delivery = broker.receive_with(short).await;
    broker.until_waiting("t", "g").await;
    delivery
}

async fn nacked(broker: &Client) -> Value {
    let delivery = first(broker).await;
    broker.nack(token(&delivery), json!({ "delay_ms": 600_000 })).await.is(204);
    delivery
}

/// The first delivery, and the second by `owner`.
async fn later(broker: &Client, owner: &str) -> (Value, Value) {
    let delivery = first(broker).await;
    broker.nack(token(&delivery), json!({ "delay_ms": 0 })).await.is(204);
    let again = broker.receive("t", "g", owner).await;
    (delivery, again)
}

async fn later_and_acked(broker: &Client) -> (Value, Value) {
    let (delivery, again) = later(broker, "b").await;
    broker.ack(token(&again)).await.is(204);
    (delivery, again)
}

#[tokio::test]
async fn leased_to_this_attempt() {
    row("token", async |broker| token(&first(broker).await), [Done; 3]).await;
    row("owner", async |broker| place(&first(broker).await, "a"), [Done; 3]).await;
    row("second attempt", async |broker| token(&later(broker, "a").await.1), [Done; 3]).await;
}

#[tokio::test]
async fn expired_waiting_and_not_delivered_again() {
    let expected = [Done, Done, Stale("waiting")];
    row("token", async |broker| token(&expired(broker).await), expected).await;
}

#[tokio::test]
async fn a_late_but_current_ack_settles() {
    let broker = fresh().await;
    let delivery = expired(&broker).await;
    broker.ack(token(&delivery)).await.is(204);
    let group = broker.group("t", "g").await;
    assert_eq!((&group["backlog"], &group["waiting"]), (&json!(0), &json!(0)));
    assert_eq!(group["partitions"][0]["settled_through"], 0);
}

#[tokio::test]
async fn a_late_nack_changes_nothing_but_the_reason() {
    let broker = fresh().await;
    let delivery = expired(&broker).await;
    let before = broker.group("t", "g").await;
    broker.nack(token(&delivery), json!({ "reason": "too slow", "delay_ms": 0 })).await.is(204);
    assert_eq!(broker.group("t", "g").await, before, "the retry is due as before");
}

#[tokio::test]
async fn nacked_by_this_attempt() {
    let expected = [Stale("waiting"), Done, Stale("waiting")];
    row("token", async |broker| token(&nacked(broker).await), expected).await;
}

#[tokio::test]
async fn released_by_this_attempt() {
    let released = async |broker: &Client| {
        let delivery = first(broker).await;
        let release = json!({ "release": true, "delay_ms": 600_000 });
        broker.nack(token(&delivery), release).await.is(204);
        token(&delivery)
    };
    row("token", released, [Stale("waiting"), Done, Stale("waiting")]).await;
}

#[tokio::test]
async fn leased_to_a_later_attempt() {
    row("token", async |broker| token(&later(broker, "b").await.0), [Stale("leased"); 3]).await;
    row(
        "same owner, token",
        async |broker| token(&later(broker, "a").await.0),
        [Stale("leased"); 3],
    )
    .await;
    row("same owner, place", async |broker| place(&later(broker, "a").await.0, "a"), [Done; 3])
        .await;
    row(
        "other owner",
        async |broker| place(&later(broker, "b").await.0, "a"),
        [Refused("not owner"); 3],
    )
    .await;
}

#[tokio::test]
async fn a_stale_token_is_told_which_attempt_goes_on() {
    let broker = fresh().await;
    let (delivery, _) = later(&broker, "b").await;
    let body = broker.ack(token(&delivery)).await.refused(409, "STALE_LEASE");
    assert_eq!(body["state"], "leased");
    assert_eq!(body["attempt"], 1);
    assert_eq!(body["current_attempt"], 2);
}

#[tokio::test]
async fn acked_by_this_attempt() {
    row(
        "the second",
        async |broker| token(&later_and_acked(broker).await.1),
        [Done, Stale("settled"), Stale("settled")],
    )
    .await;
}

#[tokio::test]
async fn acked_by_the_first_attempt() {
    for (op, status) in [("ack", 204), ("nack", 409), ("extend", 409)] {
        let broker = fresh().await;
        let delivery = first(&broker).await;
        broker.ack(token(&delivery)).await.is(204);
        let answer = broker.post(format!("/v1/{op}"), token(&delivery)).await;
        assert_eq!(answer.status, status, "{op}: {answer:?}");
        if status == 409 {
            // A plain ack of the first attempt leaves no trace: settled and gone are one.
            let state = answer.refused(409, "STALE_LEASE")["state"].clone();
            assert!(["settled", "gone"].contains(&state.as_str().unwrap_or_default()), "{state}");
        }
    }
}

#[tokio::test]
async fn acked_by_a_later_attempt() {
    row("token", async |broker| token(&later_and_acked(broker).await.0), [Stale("settled"); 3])
        .await;
}

#[tokio::test]
async fn an_owner_acks_what_a_later_attempt_acked() {
    let broker = fresh().await;
    let (delivery, _) = later_and_acked(&broker).await;
    broker.ack(place(&delivery, "a")).await.is(204);
    for op in ["nack", "extend"] {
        let answer = broker.post(format!("/v1/{op}"), place(&delivery, "a")).await;
        assert_eq!(answer.status, 409, "{op}: {answer:?}");
    }
}

async fn finally_nacked(broker: &Client) -> Value {
    let delivery = first(broker).await;
    broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    delivery
}

#[tokio::test]
async fn dead_by_this_attempts_final_nack() {
    row(
        "token",
        async |broker| token(&finally_nacked(broker).await),
        [Stale("dead"), Done, Stale("dead")],
    )
    .await;
    let broker = fresh().await;
    let delivery = finally_nacked(&broker).await;
    broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    assert_eq!(broker.show("t").await["dead_letters"], 1, "once");
}

#[tokio::test]
async fn dead_by_a_later_attempt() {
    let state = async |broker: &Client| {
        let (delivery, again) = later(broker, "b").await;
        broker.nack(token(&again), json!({ "dead_letter": true })).await.is(204);
        token(&delivery)
    };
    row("token", state, [Stale("dead"); 3]).await;
}

#[tokio::test]
async fn dead_because_the_last_lease_ran_out() {
    let state = async |broker: &Client| {
        broker.produce_with("t", "x", json!({ "retry_policy": { "max_attempts": 1 } })).await;
        let short = with(wanted("t", "g", "a"), json!({ "lease_ms": 250 }));
        let delivery = broker.receive_with(short).await;
        broker.until_group("t", "g", "the end", |group| group["open"] == 0).await;
        token(&delivery)
    };
    row("token", state, [Stale("dead"); 3]).await;
}

#[tokio::test]
async fn an_owner_is_never_told_that_a_dead_letter_is_done() {
    let broker = fresh().await;
    let delivery = finally_nacked(&broker).await;
    for op in ["ack", "extend"] {
        let answer = broker.post(format!("/v1/{op}"), place(&delivery, "a")).await;
        check(op, &answer, Stale("dead"));
    }
}

/// Held while its deadline passed.
async fn overdue(broker: &Client) -> Value {
    let now = time(&first(broker).await["produced_at"]);
    let deadline = json!({ "deadline": driftq_api::Time(now + 2_500).to_string() });
    broker.produce_with("t", "x", deadline.clone()).await;
    let delivery = broker.receive("t", "g", "a").await;
    broker.topic("clock").await;
    let body = json!({ "topic": "clock", "value": "x", "envelope": deadline });
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(20));
    while broker.post("/v1/produce", body.clone()).await.status == 200 {
        looks.tick().await;
    }
    delivery
}

#[tokio::test]
async fn overdue_while_leased_to_this_attempt() {
    row("token", async |broker| token(&overdue(broker).await), [Done; 3]).await;
}

#[tokio::test]
async fn a_nack_of_what_is_overdue_is_a_dead_letter() {
    let broker = fresh().await;
    let delivery = overdue(&broker).await;
    broker.nack(token(&delivery), json!({ "delay_ms": 0 })).await.is(204);
    let dead = broker.receive("dlq.t", "ops", "o").await;
    assert_eq!(dead["dlq"]["reason"], "deadline");
}

#[tokio::test]
async fn not_delivered_yet_or_beyond_the_end() {
    let undelivered = async |broker: &Client| {
        let delivery = first(broker).await;
        broker.produce("t", "y").await;
        with(place(&delivery, "a"), json!({ "offset": 1 }))
    };
    row("not yet", undelivered, [Refused("not delivered"); 3]).await;
    let beyond =
        async |broker: &Client| with(place(&first(broker).await, "a"), json!({ "offset": 900 }));
    row("beyond", beyond, [Refused("not delivered"); 3]).await;
}

#[tokio::test]
async fn an_owner_who_finds_nothing_is_told_done() {
    let broker = fresh().await;
    let delivery = first(&broker).await;
    broker.ack(token(&delivery)).await.is(204);
    broker.ack(place(&delivery, "a")).await.is(204);
    broker.ack(place(&delivery, "anybody")).await.is(204);
}

#[tokio::test]
async fn the_group_is_gone() {
    for op in OPS {
        let broker = fresh().await;
        let delivery = first(&broker).await;
        broker.delete("/v1/topics/t/groups/g?confirm=g").await.is(200);
        let answer = broker.post(format!("/v1/{op}"), token(&delivery)).await;
        assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], "group", "{op}");
    }
}

#[tokio::test]
async fn the_cursor_has_another_generation() {
    let sought = async |broker: &Client| {
        let delivery = first(broker).await;
        broker.post("/v1/topics/t/groups/g/seek", json!({ "to": "earliest" })).await.is(200);
        token(&delivery)
    };
    row("sought", sought, [Stale("generation"); 3]).await;
}

#[tokio::test]
async fn the_group_was_made_again() {
    for op in OPS {
        let broker = fresh().await;
        let delivery = first(&broker).await;
        broker.delete("/v1/topics/t/groups/g?confirm=g").await.is(200);
        broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
        broker.receive("t", "g", "a").await;
        // Of a group that is gone, or of an older generation: both are true, and neither is done.
        let answer = broker.post(format!("/v1/{op}"), token(&delivery)).await;
        match answer.status {
            404 => assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], "group"),
            _ => check(op, &answer, Stale("generation")),
        }
    }
}

#[tokio::test]
async fn a_trimmed_message_still_knows_its_first_ack() {
    let broker = Broker::in_memory().await;
    broker.topic_with("t", 1, json!({ "retention_ms": 0 })).await;
    let delivery = first(&broker).await;
    broker.ack(token(&delivery)).await.is(204);
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(3_600)).await;
    broker.ack(token(&delivery)).await.is(204);
    broker.nack(token(&delivery), json!({})).await.refused(409, "STALE_LEASE");
    // A day and more later nobody knows.
    tokio::time::advance(std::time::Duration::from_secs(8 * 86_400)).await;
    let body = broker.ack(token(&delivery)).await.refused(409, "STALE_LEASE");
    assert_eq!(body["state"], "gone");
}
