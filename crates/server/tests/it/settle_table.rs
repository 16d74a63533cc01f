//! The states of `docs/reference/settle-table.md` that a client can reach. Each cell has a message of
//! its own.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::{Answer, Client};
use crate::verbs::{place, time, token, wanted, with, without_rates};

const PAGE: &str = include_str!("../../../../docs/reference/settle-table.md");
const OPS: [&str; 3] = ["ack", "nack", "extend"];

/// The cells of a row of the page: replies to ack, nack and extend.
fn cells(state: &str, named_by: &str) -> [&'static str; 3] {
    for line in PAGE.lines() {
        let row: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let [of, forms, ack, nack, extend] = row[..]
            && of == state
            && forms.split(", ").any(|form| form == named_by)
        {
            return [ack, nack, extend];
        }
    }
    panic!("the page lacks {state} by {named_by}");
}

/// Fails unless the answer is that of a cell.
#[track_caller]
fn check(op: &str, answer: &Answer, cell: &str) {
    let body = match cell {
        "done" => {
            let status = if op.starts_with("extend") { 200 } else { 204 };
            return assert_eq!(answer.status, status, "{op}: {answer:?}");
        }
        "no such topic" | "no such group" => answer.refused(404, "NOT_FOUND"),
        stale if stale.starts_with("stale: ") => answer.refused(409, "STALE_LEASE"),
        _ => answer.refused(409, "FAILED_PRECONDITION"),
    };
    match cell.strip_prefix("stale: ") {
        Some(state) => {
            assert_eq!(body["state"], state, "{op}: {body}");
            assert!(body["attempt"].is_u64(), "{op}: {body}");
        }
        None => match cell.strip_prefix("no such ") {
            Some(kind) => assert_eq!(body["kind"], kind, "{op}: {body}"),
            None => assert!(
                body["message"].as_str().is_some_and(|message| message.contains(cell)),
                "{op}: {body}"
            ),
        },
    }
}

/// Checks one row: `reach` brings a message to the state and names the delivery.
async fn row(state: &str, named_by: &str, reach: impl AsyncFn(&Client) -> Value) {
    for (op, cell) in OPS.into_iter().zip(cells(state, named_by)) {
        let broker = fresh().await;
        let named = reach(&broker).await;
        let answer = broker.post(format!("/v1/{op}"), named).await;
        check(&format!("{op} ({state}, by {named_by})"), &answer, cell);
    }
}

async fn fresh() -> Broker {
    let broker = Broker::start().await;
    // No message becomes due while a test runs.
    let policy = json!({ "max_attempts": 5, "backoff_ms": 600_000, "max_backoff_ms": 600_000 });
    broker.topic_with("t", 1, json!({ "retry_policy": policy })).await;
    broker
}

async fn first(broker: &Client) -> Value {
    broker.produce("t", "x").await;
    broker.receive("t", "g", "a").await
}

async fn expire(broker: &Client) -> Value {
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

/// The first delivery, and the second one by `owner`.
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

async fn rejected(broker: &Client) -> Value {
    let delivery = first(broker).await;
    broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    delivery
}

/// A delivery whose deadline has passed.
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

async fn released(broker: &Client) -> Value {
    let delivery = first(broker).await;
    let release = json!({ "release": true, "delay_ms": 600_000 });
    broker.nack(token(&delivery), release).await.is(204);
    delivery
}

/// The first delivery of a message that the second one rejected.
async fn rejected_later(broker: &Client) -> Value {
    let (delivery, again) = later(broker, "b").await;
    broker.nack(token(&again), json!({ "dead_letter": true })).await.is(204);
    delivery
}

async fn last_lease_expired(broker: &Client) -> Value {
    broker.produce_with("t", "x", json!({ "retry_policy": { "max_attempts": 1 } })).await;
    let short = with(wanted("t", "g", "a"), json!({ "lease_ms": 250 }));
    let delivery = broker.receive_with(short).await;
    broker.until_group("t", "g", "the dead letter", |group| group["open"] == 0).await;
    delivery
}

async fn acked(broker: &Client) -> Value {
    let delivery = first(broker).await;
    broker.ack(token(&delivery)).await.is(204);
    delivery
}

async fn group_deleted(broker: &Client) -> Value {
    let delivery = first(broker).await;
    broker.delete("/v1/topics/t/groups/g?confirm=g").await.is(200);
    delivery
}

async fn topic_deleted(broker: &Client) -> Value {
    let delivery = first(broker).await;
    broker.delete("/v1/topics/t?confirm=t").await.is(200);
    delivery
}

async fn moved(broker: &Client) -> Value {
    let delivery = first(broker).await;
    broker.post("/v1/topics/t/groups/g/seek", json!({ "to": "earliest" })).await.is(200);
    delivery
}

macro_rules! rows {
    ($($test:ident: $state:literal, $reach:expr, $($form:ident),+;)*) => {$(
        #[tokio::test]
        async fn $test() {
            $(rows!(@ $form $state, $reach);)+
        }
    )*};
    (@ token $state:literal, $reach:expr) => {
        row($state, "token", async |broker| token(&$reach(broker).await)).await;
    };
    (@ owner $state:literal, $reach:expr) => {
        row($state, "owner", async |broker| place(&$reach(broker).await, "a")).await;
    };
}

rows! {
    leased_to_this_attempt: "leased to this attempt", first, token, owner;
    leased_to_a_second_attempt: "leased to this attempt", async |broker| later(broker, "a").await.1, token;
    past_its_deadline: "leased to this attempt, and past its deadline", overdue, token;
    expired: "expired and waiting for its retry", expire, token, owner;
    nacked_by_this_attempt: "nacked by this attempt and waiting", nacked, token, owner;
    released_by_this_attempt: "released by this attempt and waiting", released, token, owner;
    leased_again_to_the_same_owner: "leased to a later attempt of the same owner",
        async |broker| later(broker, "a").await.0, token, owner;
    leased_again_to_another_owner: "leased to a later attempt of another owner",
        async |broker| later(broker, "b").await.0, token, owner;
    acked_by_this_attempt: "acked by this attempt, which is attempt 1", acked, token, owner;
    acked_by_the_second_attempt: "acked by this attempt, which is attempt 2",
        async |broker| later_and_acked(broker).await.1, token;
    acked_by_a_later_attempt: "acked by a later attempt",
        async |broker| later_and_acked(broker).await.0, token, owner;
    dead_because_the_last_lease_expired: "dead-lettered because the lease of the last attempt expired",
        last_lease_expired, token, owner;
    dead_by_a_nack: "dead-lettered by this attempt's nack with `dead_letter`", rejected, token, owner;
    dead_by_a_later_nack: "dead-lettered by a later attempt's nack with `dead_letter`", rejected_later, token;
    not_delivered_yet: "not delivered yet", undelivered, owner;
    beyond_the_end: "beyond the end of the partition", beyond, owner;
    in_a_deleted_group: "in a deleted group", group_deleted, token, owner;
    in_a_deleted_topic: "in a deleted topic", topic_deleted, token, owner;
    delivered_before_a_seek: "delivered before a seek", moved, token;
}

async fn undelivered(broker: &Client) -> Value {
    let delivery = first(broker).await;
    broker.produce("t", "y").await;
    with(delivery, json!({ "offset": 1 }))
}

async fn beyond(broker: &Client) -> Value {
    with(first(broker).await, json!({ "offset": 900 }))
}

#[tokio::test]
async fn a_repeated_nack_with_dead_letter_makes_one_dead_letter() {
    let broker = fresh().await;
    let delivery = rejected(&broker).await;
    broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    assert_eq!(broker.show("t").await["dead_letters"], 1);
}

#[tokio::test]
async fn a_late_ack_of_the_current_attempt_settles() {
    let broker = fresh().await;
    let delivery = expire(&broker).await;
    broker.ack(token(&delivery)).await.is(204);
    let group = broker.group("t", "g").await;
    assert_eq!((&group["backlog"], &group["waiting"]), (&json!(0), &json!(0)));
    assert_eq!(group["partitions"][0]["settled_through"], 0);
}

#[tokio::test]
async fn a_late_nack_changes_only_the_reason() {
    let broker = fresh().await;
    let delivery = expire(&broker).await;
    let before = without_rates(broker.group("t", "g").await);
    broker.nack(token(&delivery), json!({ "reason": "too slow", "delay_ms": 0 })).await.is(204);
    assert_eq!(without_rates(broker.group("t", "g").await), before, "the retry is due as before");
}

#[tokio::test]
async fn a_stale_token_is_rejected_with_the_current_attempt() {
    let broker = fresh().await;
    let (delivery, _) = later(&broker, "b").await;
    let body = broker.ack(token(&delivery)).await.refused(409, "STALE_LEASE");
    assert_eq!(body["state"], "leased");
    assert_eq!(body["attempt"], 1);
    assert_eq!(body["current_attempt"], 2);
}

#[tokio::test]
async fn a_nack_after_the_deadline_dead_letters_the_message() {
    let broker = fresh().await;
    let delivery = overdue(&broker).await;
    broker.nack(token(&delivery), json!({ "delay_ms": 0 })).await.is(204);
    let dead = broker.receive("dlq.t", "ops", "o").await;
    assert_eq!(dead["dlq"]["reason"], "deadline");
}

#[tokio::test]
async fn an_ack_by_owner_of_a_settled_message_succeeds() {
    let broker = fresh().await;
    let delivery = first(&broker).await;
    broker.ack(token(&delivery)).await.is(204);
    broker.ack(place(&delivery, "a")).await.is(204);
    broker.ack(place(&delivery, "anybody")).await.is(204);
}

#[tokio::test]
async fn the_group_was_recreated() {
    for op in OPS {
        let broker = fresh().await;
        let delivery = first(&broker).await;
        broker.delete("/v1/topics/t/groups/g?confirm=g").await.is(200);
        broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
        broker.receive("t", "g", "a").await;
        // The token belongs to a deleted group or to an older generation. Both replies are right,
        // and neither is success.
        let answer = broker.post(format!("/v1/{op}"), token(&delivery)).await;
        match answer.status {
            404 => assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], "group"),
            _ => check(op, &answer, "stale: generation"),
        }
    }
}

#[tokio::test]
async fn a_repeated_ack_of_a_trimmed_message_succeeds() {
    let broker = Broker::in_memory().await;
    broker.topic_with("t", 1, json!({ "retention_ms": 0 })).await;
    let delivery = first(&broker).await;
    broker.ack(token(&delivery)).await.is(204);
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(3_600)).await;
    broker.ack(token(&delivery)).await.is(204);
    broker.nack(token(&delivery), json!({})).await.refused(409, "STALE_LEASE");
    // More than a day later, the outcome is no longer known.
    tokio::time::advance(std::time::Duration::from_secs(8 * 86_400)).await;
    let body = broker.ack(token(&delivery)).await.refused(409, "STALE_LEASE");
    assert_eq!(body["state"], "gone");
}
