//! Effects of a message share its lease, block its ack while their outcome is unknown, and are not
//! executed twice unless requested.

use serde_json::{Value, json};

use super::{ended, under};
use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::{place, time, token, wanted, with};

/// Creates a topic whose retries are due at once, and receives its only message.
async fn held(broker: &Client, envelope: Value) -> Value {
    let policy = json!({ "max_attempts": 9, "backoff_ms": 0, "max_backoff_ms": 0 });
    broker.topic_with("t", 1, json!({ "retry_policy": policy })).await;
    broker.produce_with("t", "x", envelope).await;
    broker.receive("t", "g", "worker-a").await
}

async fn begun(broker: &Client, delivery: &Value, key: &str, on_doubt: &str) -> Value {
    let how = json!({ "key": key, "on_doubt": on_doubt });
    let began = broker.begin(under(delivery), how).await.is(200);
    assert_eq!(began["decision"], "EXECUTE", "{began}");
    began
}

#[tokio::test]
async fn scope_tenant_key_owner_and_lease_come_from_the_delivery() {
    let broker = Broker::start().await;
    let envelope = json!({ "tenant_id": "acme", "idempotency_key": "order-77" });
    let delivery = held(&broker, envelope).await;
    let began = broker.begin(under(&delivery), json!({ "on_doubt": "park" })).await.is(200);
    assert_eq!(began["scope"], "effect/t/g");
    assert_eq!((&began["tenant_id"], &began["key"]), (&json!("acme"), &json!("order-77")));
    assert_eq!(began["expires_at"], delivery["lease"]["expires_at"]);
    let path = "/v1/effects?scope=effect/t/g&key=order-77&tenant_id=acme";
    let record = broker.get(path).await.is(200);
    assert_eq!(record["owner"], "worker-a");
    let message =
        json!({ "id": delivery["id"], "topic": "t", "partition": 0, "offset": 0, "attempt": 1 });
    assert_eq!(record["message"], message);
}

#[tokio::test]
async fn without_an_idempotency_key_the_effect_key_is_the_message_id() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({})).await;
    let began = broker.begin(under(&delivery), json!({ "on_doubt": "park" })).await.is(200);
    assert_eq!((&began["key"], &began["tenant_id"]), (&delivery["id"], &json!("default")));
}

#[tokio::test]
async fn an_explicit_owner_or_key_overrides_that_of_the_delivery() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({ "idempotency_key": "order-77" })).await;
    let how = json!({ "on_doubt": "park", "owner": "thread-3", "key": "mail" });
    let began = broker.begin(under(&delivery), how).await.is(200);
    assert_eq!(began["key"], "mail");
    assert_eq!(broker.effect("effect/t/g", "mail").await["owner"], "thread-3");
    let header = broker.ask("POST", "/v1/effects/begin").header("idempotency-key", "sms");
    let body = with(under(&delivery), json!({ "on_doubt": "park" }));
    assert_eq!(header.json(&body).send().await.is(200)["key"], "sms");
}

#[tokio::test]
async fn fields_taken_from_the_delivery_cannot_be_set() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({})).await;
    for (field, value) in
        [("lease_ms", json!(30_000)), ("tenant_id", json!("acme")), ("scope", json!("op/charge"))]
    {
        let how = json!({ "on_doubt": "park", field: value });
        broker.begin(under(&delivery), how).await.invalid(field);
    }
    let direct = json!({ "scope": "effect/t/g", "key": "k", "on_doubt": "park" });
    broker.post("/v1/effects/begin", direct).await.invalid("scope");
}

#[tokio::test]
async fn an_ack_is_rejected_until_every_effect_is_finished() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({})).await;
    let mut open = Vec::new();
    for key in ["a", "b", "c"] {
        open.push((key, begun(&broker, &delivery, key, "park").await));
    }
    let outcomes = ["SUCCEEDED", "FAILED_FINAL", "FAILED_RETRYABLE"];
    for (left, status) in outcomes.into_iter().enumerate() {
        let names: Vec<&str> = open[left..].iter().map(|(key, _)| *key).collect();
        for named in [token(&delivery), place(&delivery, "worker-a")] {
            let body = broker.ack(named).await.refused(409, "FAILED_PRECONDITION");
            let mut told: Vec<&str> = body["effects"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|key| key.as_str().expect("a key"))
                .collect();
            told.sort_unstable();
            assert_eq!(told, names, "{body}");
        }
        assert_eq!(broker.group("t", "g").await["leased"], 1, "the message stays leased");
        broker.finish(&open[left].1, ended(status)).await.is(200);
    }
    broker.ack(token(&delivery)).await.is(204);
    assert_eq!(broker.group("t", "g").await["backlog"], 0);
}

#[tokio::test]
async fn an_ack_in_a_settle_batch_is_rejected_until_effects_are_finished() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({})).await;
    begun(&broker, &delivery, "a", "park").await;
    let items = json!({ "items": [{ "op": "ack", "token": delivery["lease"]["token"] }] });
    let answer = broker.post("/v1/settle", items).await.is(200);
    assert_eq!(answer["refused"], 1);
    assert_eq!(answer["results"][0]["error"], "FAILED_PRECONDITION");
    assert_eq!(answer["results"][0]["effects"], json!(["a"]));
}

#[tokio::test]
async fn an_effect_in_doubt_blocks_the_ack_until_it_is_resolved() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({})).await;
    let began = begun(&broker, &delivery, "a", "park").await;
    broker.finish(&began, ended("UNKNOWN")).await.is(200);
    let body = broker.ack(token(&delivery)).await.refused(409, "FAILED_PRECONDITION");
    assert_eq!(body["effects"], json!(["a"]));
    let resolve = json!({ "scope": "effect/t/g", "key": "a", "fence": 1, "as": "succeeded",
        "by": "ops", "reason": "r" });
    broker.post("/v1/effects/resolve", resolve).await.is(200);
    broker.ack(token(&delivery)).await.is(204);
}

#[tokio::test]
async fn a_nack_or_release_puts_its_effects_in_doubt_at_once() {
    for how in [
        json!({ "delay_ms": 600_000 }),
        json!({ "release": true, "delay_ms": 600_000 }),
        json!({ "dead_letter": true }),
    ] {
        for (on_doubt, state) in [("retry", "IN_DOUBT"), ("probe", "IN_DOUBT"), ("park", "PARKED")]
        {
            let broker = Broker::start().await;
            let delivery = held(&broker, json!({})).await;
            begun(&broker, &delivery, "open", on_doubt).await;
            let done = begun(&broker, &delivery, "done", on_doubt).await;
            broker.finish(&done, ended("SUCCEEDED")).await.is(200);
            broker.nack(token(&delivery), how.clone()).await.is(204);
            let record = broker.effect("effect/t/g", "open").await;
            assert_eq!(record["state"], state, "{how}");
            assert_eq!(record["doubt"]["cause"], "abandoned", "{how}");
            assert_eq!(record["doubt"]["owner"], "worker-a");
            assert_eq!(record.get("expires_at"), None);
            assert_eq!(broker.effect("effect/t/g", "done").await["state"], "SUCCEEDED");
        }
    }
}

#[tokio::test]
async fn an_expired_lease_leaves_its_effects_in_doubt() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let short = with(wanted("t", "g", "o"), json!({ "lease_ms": 250 }));
    let delivery = broker.receive_with(short).await;
    begun(&broker, &delivery, "a", "probe").await;
    let record = broker.until_effect("effect/t/g", "a", "IN_DOUBT").await;
    assert_eq!(record["doubt"]["cause"], "lease_expired");
}

#[tokio::test]
async fn the_next_attempt_follows_the_doubt_policy() {
    for (on_doubt, decision) in [("retry", "EXECUTE"), ("probe", "IN_DOUBT")] {
        let broker = Broker::start().await;
        let delivery = held(&broker, json!({})).await;
        let first = begun(&broker, &delivery, "a", on_doubt).await;
        broker.nack(token(&delivery), json!({ "delay_ms": 0 })).await.is(204);
        let again = broker.receive("t", "g", "worker-b").await;
        let how = json!({ "key": "a", "on_doubt": on_doubt });
        let began = broker.begin(under(&again), how).await.is(200);
        assert_eq!((&began["decision"], &began["fence"]), (&json!(decision), &json!(2)));
        assert_eq!(began["downstream_key"], first["downstream_key"]);
        assert_eq!(began["doubt"]["cause"], "abandoned");
        assert_eq!(began["doubt"]["owner"], "worker-a");
        let body = broker.finish(&first, ended("SUCCEEDED")).await.refused(409, "STALE_FENCE");
        assert_eq!(body["current_fence"], 2);
        broker.finish(&began, ended("SUCCEEDED")).await.is(200);
        broker.ack(token(&again)).await.is(204);
    }
}

#[tokio::test]
async fn a_parked_effect_is_replayed_once_it_is_resolved() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({})).await;
    begun(&broker, &delivery, "a", "park").await;
    broker.nack(token(&delivery), json!({ "delay_ms": 0 })).await.is(204);
    let again = broker.receive("t", "g", "o").await;
    let how = json!({ "key": "a", "on_doubt": "park" });
    let body = broker.begin(under(&again), how.clone()).await.refused(409, "IN_DOUBT");
    assert_eq!(body["doubt"]["cause"], "abandoned");
    let release = json!({ "release": true, "delay_ms": 0 });
    broker.nack(token(&again), release).await.is(204);
    let resolve = json!({ "scope": "effect/t/g", "key": "a", "fence": 1, "as": "succeeded",
        "result": "ch_1", "by": "ops", "reason": "r" });
    broker.post("/v1/effects/resolve", resolve).await.is(200);
    let third = broker.receive("t", "g", "o").await;
    assert_eq!(third["attempts"], 2, "a release does not count");
    let replay = broker.begin(under(&third), how).await.is(200);
    assert_eq!((&replay["decision"], &replay["result"]), (&json!("REPLAY"), &json!("ch_1")));
    broker.ack(token(&third)).await.is(204);
}

#[tokio::test]
async fn a_redelivery_replays_finished_effects() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({ "idempotency_key": "order-77" })).await;
    let how = json!({ "on_doubt": "park", "request": "r" });
    let began = broker.begin(under(&delivery), how.clone()).await.is(200);
    broker.finish(&began, json!({ "status": "SUCCEEDED", "result": { "a": 1 } })).await.is(200);
    // The worker dies between finish and ack.
    broker.nack(token(&delivery), json!({ "delay_ms": 0 })).await.is(204);
    let again = broker.receive("t", "g", "o").await;
    let replay = broker.begin(under(&again), how).await.is(200);
    assert_eq!((&replay["decision"], &replay["fence"]), (&json!("REPLAY"), &json!(1)));
    assert_eq!(replay["result"], json!({ "a": 1 }));
    assert_eq!(replay.get("replay_until"), None, "not forgotten while the message is open");
    broker.ack(token(&again)).await.is(204);
    let record = broker.effect("effect/t/g", "order-77").await;
    assert!(time(&record["replay_until"]) > time(&record["updated_at"]), "its time to live starts");
}

#[tokio::test]
async fn a_late_finish_with_the_latest_fence_is_accepted() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({})).await;
    let began = begun(&broker, &delivery, "a", "retry").await;
    broker.nack(token(&delivery), json!({ "delay_ms": 0 })).await.is(204);
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    let again = broker.receive("t", "g", "o").await;
    let how = json!({ "key": "a", "on_doubt": "retry" });
    assert_eq!(broker.begin(under(&again), how).await.is(200)["decision"], "REPLAY");
    broker.ack(token(&again)).await.is(204);
}

#[tokio::test]
async fn another_message_with_the_same_key_gets_in_progress() {
    let broker = Broker::start().await;
    let first = held(&broker, json!({})).await;
    broker.produce("t", "y").await;
    let second = broker.receive("t", "g", "worker-b").await;
    let began = begun(&broker, &first, "same", "park").await;
    let how = json!({ "key": "same", "on_doubt": "park" });
    let body = broker.begin(under(&second), how.clone()).await.refused(409, "IN_PROGRESS");
    assert_eq!((&body["owner"], &body["fence"]), (&json!("worker-a"), &json!(1)));
    let left = body["retry_after_ms"].as_u64().expect("a time");
    assert!((20_000..=30_000).contains(&left), "{left}");
    // A delivery without unfinished effects can be settled.
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    assert_eq!(broker.begin(under(&second), how).await.is(200)["decision"], "REPLAY");
    broker.ack(token(&first)).await.is(204);
    broker.ack(token(&second)).await.is(204);
}

#[tokio::test]
async fn each_group_has_its_own_effect() {
    let broker = Broker::start().await;
    let first = held(&broker, json!({ "idempotency_key": "k" })).await;
    let second = broker.receive("t", "h", "o").await;
    for delivery in [&first, &second] {
        let began = broker.begin(under(delivery), json!({ "on_doubt": "park" })).await.is(200);
        assert_eq!(began["decision"], "EXECUTE");
    }
}

#[tokio::test]
async fn message_and_effect_share_one_lease_whichever_token_extends_it() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({})).await;
    let began = begun(&broker, &delivery, "a", "park").await;
    let other = begun(&broker, &delivery, "b", "park").await;
    let leased = async || broker.group("t", "g").await;
    let body = json!({ "token": began["token"], "lease_ms": 600_000 });
    let answer = broker.post("/v1/effects/extend", body).await.is(200);
    assert!(time(&answer["expires_at"]) >= time(&delivery["produced_at"]) + 600_000);
    for key in ["a", "b"] {
        assert_eq!(broker.effect("effect/t/g", key).await["expires_at"], answer["expires_at"]);
    }
    assert_eq!(leased().await["leased"], 1);
    let answer = broker.extend(token(&delivery), json!({ "lease_ms": 900_000 })).await.is(200);
    for key in ["a", "b"] {
        assert_eq!(broker.effect("effect/t/g", key).await["expires_at"], answer["expires_at"]);
    }
    // A finished effect cannot extend the lease.
    broker.finish(&other, ended("SUCCEEDED")).await.is(200);
    let body = json!({ "token": other["token"] });
    let body = broker.post("/v1/effects/extend", body).await.refused(409, "STALE_FENCE");
    assert_eq!(body["state"], "SUCCEEDED");
}

#[tokio::test]
async fn extending_an_effect_delays_the_redelivery_of_its_message() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let short = with(wanted("t", "g", "o"), json!({ "lease_ms": 1_000 }));
    let delivery = broker.receive_with(short).await;
    let began = begun(&broker, &delivery, "a", "park").await;
    let body = json!({ "token": began["token"], "lease_ms": 60_000 });
    broker.post("/v1/effects/extend", body).await.is(200);
    // No redelivery happens within twice the granted lease.
    let wait = with(wanted("t", "g", "p"), json!({ "wait_ms": 2_000 }));
    let got = broker.post("/v1/receive", wait).await.is(200);
    assert_eq!(got, json!({ "messages": [] }));
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    broker.ack(token(&delivery)).await.is(204);
}

#[tokio::test]
async fn a_succeeded_effect_does_not_settle_its_message() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({})).await;
    let began = begun(&broker, &delivery, "a", "park").await;
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    let group = broker.group("t", "g").await;
    assert_eq!((&group["leased"], &group["backlog"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn a_seek_abandons_effects_in_progress() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({})).await;
    begun(&broker, &delivery, "a", "probe").await;
    broker.post("/v1/topics/t/groups/g/seek", json!({ "to": "earliest" })).await.is(200);
    let record = broker.effect("effect/t/g", "a").await;
    assert_eq!(
        (&record["state"], &record["doubt"]["cause"]),
        (&json!("IN_DOUBT"), &json!("abandoned"))
    );
    let again = broker.receive("t", "g", "o").await;
    let how = json!({ "key": "a", "on_doubt": "probe" });
    let began = broker.begin(under(&again), how).await.is(200);
    assert_eq!((&began["action"], &began["fence"]), (&json!("probe"), &json!(2)));
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    broker.ack(token(&again)).await.is(204);
}

#[tokio::test]
async fn a_late_ack_is_rejected_while_an_effect_is_in_doubt() {
    let broker = Broker::start().await;
    let policy = json!({ "max_attempts": 9, "backoff_ms": 600_000, "max_backoff_ms": 600_000 });
    broker.topic_with("t", 1, json!({ "retry_policy": policy })).await;
    broker.produce("t", "x").await;
    let short = with(wanted("t", "g", "o"), json!({ "lease_ms": 250 }));
    let delivery = broker.receive_with(short).await;
    let began = begun(&broker, &delivery, "a", "retry").await;
    broker.until_waiting("t", "g").await;
    let extend = json!({ "token": began["token"] });
    let body = broker.post("/v1/effects/extend", extend).await.refused(409, "STALE_FENCE");
    assert_eq!((&body["state"], &body["fence"]), (&json!("IN_DOUBT"), &json!(1)));
    let body = broker.ack(token(&delivery)).await.refused(409, "FAILED_PRECONDITION");
    assert_eq!(body["effects"], json!(["a"]));
    // The message was not delivered again, so both the late finish and the late ack are accepted.
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    broker.ack(token(&delivery)).await.is(204);
    assert_eq!(broker.group("t", "g").await["backlog"], 0);
}

#[tokio::test]
async fn dead_letters_have_their_own_effects() {
    let broker = Broker::start().await;
    let delivery = held(&broker, json!({ "idempotency_key": "k" })).await;
    let began = broker.begin(under(&delivery), json!({ "on_doubt": "park" })).await.is(200);
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    let dead = broker.receive("dlq.t", "ops", "o").await;
    let began = broker.begin(under(&dead), json!({ "on_doubt": "park" })).await.is(200);
    assert_eq!(
        (&began["decision"], &began["scope"]),
        (&json!("EXECUTE"), &json!("effect/dlq.t/ops"))
    );
    broker.ack(token(&dead)).await.refused(409, "FAILED_PRECONDITION");
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    broker.ack(token(&dead)).await.is(204);
    assert_eq!(broker.effect("effect/dlq.t/ops", "k").await["state"], "SUCCEEDED");
}

#[tokio::test]
async fn a_wait_for_the_outcome_of_a_message_is_answered() {
    let broker = Broker::start().await;
    let envelope = json!({ "tenant_id": "acme", "idempotency_key": "order-77" });
    let delivery = held(&broker, envelope).await;
    let path = "/v1/effects?scope=effect/t/g&key=order-77&tenant_id=acme&wait_ms=60000";
    let caller = Client::clone(&broker);
    let waiting = tokio::spawn(async move { caller.get(path).await.is(200) });
    let began = broker.begin(under(&delivery), json!({ "on_doubt": "park" })).await.is(200);
    broker.finish(&began, json!({ "status": "SUCCEEDED", "result": 7 })).await.is(200);
    let record = waiting.await.expect("an answer");
    assert_eq!((&record["state"], &record["result"]), (&json!("SUCCEEDED"), &json!(7)));
}
