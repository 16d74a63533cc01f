//! Ack, nack, extend and settle: their forms and fields.

use std::time::Duration;

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::{fields, place, time, token, wanted, with};

/// One message, leased to `o` of `g`.
async fn held(broker: &Client) -> Value {
    broker.topic("t").await;
    broker.produce("t", "x").await;
    broker.receive("t", "g", "o").await
}

#[tokio::test]
async fn a_delivery_is_named_by_token_or_by_position_and_owner() {
    for op in ["ack", "nack"] {
        let broker = Broker::start().await;
        let delivery = held(&broker).await;
        let answer = broker.post(format!("/v1/{op}"), token(&delivery)).await;
        answer.is(204);
        assert!(answer.body.is_empty());
        let broker = Broker::start().await;
        let delivery = held(&broker).await;
        broker.post(format!("/v1/{op}"), place(&delivery, "o")).await.is(204);
        let broker = Broker::start().await;
        held(&broker).await;
        let query = "topic=t&group=g&partition=0&offset=0&owner=o";
        broker.post_query(format!("/v1/{op}?{query}")).await.is(204);
        let broker = Broker::start().await;
        let delivery = held(&broker).await;
        let token = delivery["lease"]["token"].as_str().expect("a token");
        broker.post_query(format!("/v1/{op}?token={token}")).await.is(204);
    }
}

#[tokio::test]
async fn an_incomplete_position_is_rejected() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    for missing in ["topic", "group", "partition", "offset", "owner"] {
        let mut named = place(&delivery, "o");
        named.as_object_mut().expect("an object").remove(missing);
        for op in ["ack", "nack", "extend"] {
            broker.post(format!("/v1/{op}"), named.clone()).await.refused(400, "INVALID_ARGUMENT");
        }
    }
    broker.ack(token(&delivery)).await.is(204);
}

#[tokio::test]
async fn token_and_position_must_match() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    for (field, other) in [("partition", json!(1)), ("offset", json!(1))] {
        let both = with(with(token(&delivery), place(&delivery, "o")), json!({ field: other }));
        broker.ack(both).await.refused(400, "INVALID_ARGUMENT");
    }
    broker.ack(with(token(&delivery), place(&delivery, "o"))).await.is(204);
}

#[tokio::test]
async fn token_and_topic_or_group_must_match() {
    for (field, other) in [("topic", "u"), ("group", "h")] {
        let broker = Broker::start().await;
        let delivery = held(&broker).await;
        broker.topic("u").await;
        broker.put("/v1/topics/t/groups/h", json!({})).await.is(201);
        let both = with(with(token(&delivery), place(&delivery, "o")), json!({ field: other }));
        broker.ack(both).await.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn token_and_owner_must_match() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    let both = with(token(&delivery), place(&delivery, "another worker"));
    broker.ack(both).await.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn an_invalid_token_is_rejected() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    let good = delivery["lease"]["token"].as_str().expect("a token");
    let mut changed = good.to_owned();
    let last = if changed.ends_with('A') { 'B' } else { 'A' };
    changed.replace_range(changed.len() - 1.., &last.to_string());
    let long = "lt_".to_owned() + &"A".repeat(600);
    let other = Broker::start().await;
    let foreign = held(&other).await;
    let foreign = foreign["lease"]["token"].as_str().expect("a token");
    for bad in ["", "lt_", "x", &good[..good.len() - 4], &changed, &long, foreign] {
        for op in ["ack", "nack", "extend"] {
            let answer = broker.post(format!("/v1/{op}"), json!({ "token": bad })).await;
            answer.invalid("token");
        }
    }
    broker.ack(json!({ "token": good })).await.is(204);
}

#[tokio::test]
async fn another_owner_is_rejected() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    for op in ["ack", "nack", "extend"] {
        let answer = broker.post(format!("/v1/{op}"), place(&delivery, "thief")).await;
        let body = answer.refused(409, "FAILED_PRECONDITION");
        assert!(
            body["message"].as_str().is_some_and(|message| message.contains("not owner")),
            "{body}"
        );
    }
    broker.ack(place(&delivery, "o")).await.is(204);
}

#[tokio::test]
async fn an_unknown_partition_is_rejected() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    let named = with(place(&delivery, "o"), json!({ "partition": 1 }));
    let answer = broker.ack(named).await;
    assert!([400, 409].contains(&answer.status), "{answer:?}");
}

#[tokio::test]
async fn fields_of_another_verb_are_rejected() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    let wrong = [
        ("ack", json!({ "reason": "r" })),
        ("ack", json!({ "lease_ms": 1000 })),
        ("ack", json!({ "dead_letter": true })),
        ("ack", json!({ "op": "ack" })),
        ("nack", json!({ "lease_ms": 1000 })),
        ("extend", json!({ "delay_ms": 1 })),
        ("extend", json!({ "release": true })),
    ];
    for (op, more) in wrong {
        let answer = broker.post(format!("/v1/{op}"), with(token(&delivery), more)).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
    broker.ack(token(&delivery)).await.is(204);
}

#[tokio::test]
async fn a_nack_accepts_a_reason_and_a_delay() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    broker.nack(token(&delivery), json!({ "reason": "timeout", "delay_ms": 0 })).await.is(204);
    let again = broker.receive("t", "g", "p").await;
    assert_eq!(again["attempts"], 2);
    assert_eq!(again["lease"]["attempt"], 2);
    assert_eq!(again["last_error"], "timeout");
    assert_eq!(again["id"], delivery["id"]);
    broker.nack(token(&again), json!({ "delay_ms": 0 })).await.is(204);
    let again = broker.receive("t", "g", "p").await;
    assert_eq!(again["last_error"], "nack", "the default reason");
    let path = "/v1/nack?topic=t&group=g&partition=0&offset=0&owner=p&error=by%20alias&delay_ms=0";
    broker.post_query(path).await.is(204);
    assert_eq!(broker.receive("t", "g", "p").await["last_error"], "by alias");
    let both = "/v1/nack?topic=t&group=g&partition=0&offset=0&owner=p&error=a&reason=b";
    broker.post_query(both).await.refused(400, "INVALID_ARGUMENT");
    let alias = with(token(&again), json!({ "error": "only in a query" }));
    broker.post("/v1/nack", alias).await.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn a_long_reason_is_truncated_at_a_character_boundary() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    let reason = format!("{}ü and more", "x".repeat(1023));
    broker.nack(token(&delivery), json!({ "reason": reason, "delay_ms": 0 })).await.is(204);
    let again = broker.receive("t", "g", "o").await;
    assert_eq!(again["last_error"], "x".repeat(1023));
}

#[tokio::test]
async fn a_delay_is_0_to_7_days() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    for delay in [604_800_001i64, -1] {
        let answer = broker.nack(token(&delivery), json!({ "delay_ms": delay })).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
    broker.nack(token(&delivery), json!({ "delay_ms": 604_800_000 })).await.is(204);
    let group = broker.group("t", "g").await;
    let due = time(&group["partitions"][0]["next_retry_at"]) - time(&delivery["produced_at"]);
    assert!((604_800_000..604_860_000).contains(&due), "{due}");
}

#[tokio::test]
async fn a_nack_without_a_delay_waits_for_the_backoff() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let policy = json!({ "max_attempts": 5, "backoff_ms": 100_000, "max_backoff_ms": 100_000 });
    broker.produce_with("t", "x", json!({ "retry_policy": policy })).await;
    let delivery = broker.receive("t", "g", "o").await;
    broker.nack(token(&delivery), json!({})).await.is(204);
    let group = broker.group("t", "g").await;
    let due = time(&group["partitions"][0]["next_retry_at"]) - time(&delivery["produced_at"]);
    assert!((10_000..103_000).contains(&due), "a tenth of it to all of it: {due}");
}

#[tokio::test]
async fn a_final_nack_dead_letters_the_message_at_once() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    let wrong = [
        json!({ "dead_letter": true, "delay_ms": 0 }),
        json!({ "dead_letter": true, "release": true }),
        json!({ "dead_letter": "yes" }),
    ];
    for how in wrong {
        broker.nack(token(&delivery), how).await.refused(400, "INVALID_ARGUMENT");
    }
    broker
        .nack(token(&delivery), json!({ "dead_letter": true, "reason": "bad card" }))
        .await
        .is(204);
    assert_eq!(broker.show("t").await["dead_letters"], 1);
    assert_eq!(broker.group("t", "g").await["backlog"], 0);
    let dead = broker.receive("dlq.t", "ops", "o").await;
    let dlq = &dead["dlq"];
    let names = "attempts dead_at first_delivered_at group last_error last_owner origin produced_at reason tenant_id";
    assert_eq!(fields(dlq).join(" "), names);
    let origin = json!({ "topic": "t", "partition": 0, "offset": 0, "id": delivery["id"] });
    assert_eq!(dlq["origin"], origin);
    assert_eq!(dlq["group"], "g");
    assert_eq!(dlq["reason"], "rejected");
    assert_eq!(dlq["attempts"], 1);
    assert_eq!(dlq["last_error"], "bad card");
    assert_eq!(dlq["last_owner"], "o");
    assert_eq!(dlq["tenant_id"], "default");
    assert_eq!(dlq["produced_at"], delivery["produced_at"]);
    assert!(time(&dlq["dead_at"]) >= time(&dlq["first_delivered_at"]));
    assert_eq!(dead["value"], "x");
    assert_eq!(dead["topic"], "dlq.t");
}

#[tokio::test]
async fn a_failure_of_the_last_attempt_dead_letters_the_message() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let envelope = json!({ "tenant_id": "acme", "idempotency_key": "order-77",
        "retry_policy": { "max_attempts": 2, "backoff_ms": 0, "max_backoff_ms": 0 } });
    broker.produce_with("t", "x", envelope).await;
    for attempt in [1, 2] {
        let delivery = broker.receive("t", "g", "o").await;
        assert_eq!(delivery["attempts"], attempt);
        broker.nack(token(&delivery), json!({ "reason": format!("r{attempt}") })).await.is(204);
    }
    let dead = broker.receive("dlq.t", "ops", "o").await;
    assert_eq!(dead["dlq"]["reason"], "exhausted");
    assert_eq!(dead["dlq"]["attempts"], 2);
    assert_eq!(dead["dlq"]["last_error"], "r2");
    assert_eq!(dead["dlq"]["tenant_id"], "acme");
    assert_eq!(dead["dlq"]["idempotency_key"], "order-77");
}

#[tokio::test]
async fn a_release_is_not_counted() {
    let broker = Broker::start().await;
    let policy = json!({ "max_attempts": 1, "backoff_ms": 60_000, "max_backoff_ms": 60_000 });
    broker.topic_with("t", 1, json!({ "retry_policy": policy })).await;
    broker.produce("t", "x").await;
    for round in 1..=3 {
        let delivery = broker.receive("t", "g", "o").await;
        assert_eq!(delivery["attempts"], 1);
        assert_eq!(delivery["lease"]["attempt"], round);
        assert_eq!(delivery["last_error"], "");
        let release = json!({ "release": true, "reason": "going home" });
        broker.nack(token(&delivery), release).await.is(204);
    }
    let fourth = broker.receive("t", "g", "o").await;
    assert_eq!(fourth["lease"]["attempt"], 4);
    broker.nack(token(&fourth), json!({ "release": true })).await.is(204);
    // The fourth release in a row waits at least for the backoff.
    let group = broker.group("t", "g").await;
    assert_eq!(group["waiting"], 1);
    let due = time(&group["partitions"][0]["next_retry_at"]) - time(&fourth["produced_at"]);
    assert!(due >= 60_000, "{due}");
    assert_eq!(broker.show("t").await["dead_letters"], 0);
}

#[tokio::test]
async fn a_release_may_name_a_delay() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    broker.nack(token(&delivery), json!({ "release": true, "delay_ms": 60_000 })).await.is(204);
    let group = broker.group("t", "g").await;
    let due = time(&group["partitions"][0]["next_retry_at"]) - time(&delivery["produced_at"]);
    assert!((60_000..63_000).contains(&due), "{due}");
}

#[tokio::test]
async fn extend_sets_the_lease_from_the_current_time() {
    let broker = Broker::in_memory().await;
    let delivery = held(&broker).await;
    let answer = broker.extend(token(&delivery), json!({ "lease_ms": 60_000 })).await.is(200);
    assert_eq!(fields(&answer), ["expires_at", "status"]);
    assert_eq!(answer["status"], "extended");
    let produced = time(&delivery["produced_at"]);
    let lease = time(&answer["expires_at"]) - produced;
    assert!((60_000..63_000).contains(&lease), "{lease}");
    // Defaults to the granted length.
    let answer = broker.extend(place(&delivery, "o"), json!({})).await.is(200);
    let lease = time(&answer["expires_at"]) - produced;
    assert!((30_000..33_000).contains(&lease), "{lease}");
    // A lease can be shortened, but not below the grace period of ten seconds after a start.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    let answer = broker.extend(token(&delivery), json!({ "lease_ms": 250 })).await.is(200);
    let lease = time(&answer["expires_at"]) - produced;
    assert!((11_250..14_000).contains(&lease), "{lease}");
}

#[tokio::test]
async fn a_shortened_lease_ends_at_the_returned_time() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    let answer = broker.extend(token(&delivery), json!({ "lease_ms": 250 })).await.is(200);
    let group = broker.until_waiting("t", "g").await;
    // The backoff starts at the end of the lease and lasts a second at most.
    let retry = time(&group["partitions"][0]["next_retry_at"]);
    assert!(retry < time(&answer["expires_at"]) + 3_000, "{group}");
}

#[tokio::test]
async fn extend_accepts_lease_ms_within_its_limits() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    for lease in [249i64, 43_200_001, 0, -1] {
        let answer = broker.extend(token(&delivery), json!({ "lease_ms": lease })).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
    broker.extend(token(&delivery), json!({ "lease_ms": 43_200_000 })).await.is(200);
    let query = "topic=t&group=g&partition=0&offset=0&owner=o&lease_ms=250";
    broker.post_query(format!("/v1/extend?{query}")).await.is(200);
}

#[tokio::test]
async fn each_item_of_a_settle_batch_has_its_own_result() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for value in ["a", "b", "c", "d", "e"] {
        broker.produce("t", value).await;
    }
    let held = broker.receive_now("t", "g", "o").await;
    let lease = |at: usize| held[at]["lease"]["token"].clone();
    let items = json!({ "items": [
        { "op": "ack", "token": lease(0) },
        { "op": "nack", "token": lease(1), "reason": "r", "delay_ms": 500 },
        { "op": "extend", "token": lease(2), "lease_ms": 60_000 },
        { "op": "nack", "token": lease(0) },
        { "op": "ack", "token": "nonsense" },
        { "op": "ack", "topic": "t", "group": "g", "partition": 0, "offset": 3, "owner": "o" },
        { "token": lease(4) },
        { "op": "ack", "token": lease(4), "lease_ms": 60_000 },
        { "op": "nack", "token": lease(4), "dead_letter": true },
    ] });
    let answer = broker.post("/v1/settle", items).await.is(200);
    assert_eq!(fields(&answer), ["done", "refused", "results"]);
    assert_eq!(answer["done"], 5);
    assert_eq!(answer["refused"], 4);
    let results = answer["results"].as_array().expect("a list");
    assert_eq!(results[0], json!({ "status": "acked" }));
    assert_eq!(results[1], json!({ "status": "nacked" }));
    assert_eq!(results[2]["status"], "extended");
    time(&results[2]["expires_at"]);
    assert_eq!(results[3]["error"], "STALE_LEASE");
    assert_eq!(results[3]["retryable"], false);
    assert_eq!(results[4]["error"], "INVALID_ARGUMENT");
    assert_eq!(results[5], json!({ "status": "acked" }));
    assert_eq!(results[6]["error"], "INVALID_ARGUMENT", "no op");
    assert_eq!(results[7]["error"], "INVALID_ARGUMENT", "a field of another verb");
    assert_eq!(results[8], json!({ "status": "nacked" }));
    assert_eq!(broker.show("t").await["dead_letters"], 1);
}

#[tokio::test]
async fn a_settle_batch_has_1_to_1000_items() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let messages: Vec<_> = (0..1000).map(|_| json!({ "topic": "t", "value": "x" })).collect();
    broker.post("/v1/produce/batch", json!({ "messages": messages })).await.is(200);
    let all = with(wanted("t", "g", "o"), json!({ "max": 1000 }));
    let mut items = Vec::new();
    while items.len() < 1000 {
        let got = broker.post("/v1/receive", all.clone()).await.is(200);
        let got = got["messages"].as_array().expect("a list");
        items.extend(
            got.iter().map(|delivery| json!({ "op": "ack", "token": delivery["lease"]["token"] })),
        );
    }
    let answer = broker.post("/v1/settle", json!({ "items": items })).await.is(200);
    assert_eq!((&answer["done"], &answer["refused"]), (&json!(1000), &json!(0)));
    items.push(items[0].clone());
    broker.post("/v1/settle", json!({ "items": items })).await.invalid("items");
    broker.post("/v1/settle", json!({ "items": [] })).await.invalid("items");
    assert_eq!(broker.group("t", "g").await["backlog"], 0);
}

#[tokio::test]
async fn a_negative_offset_is_rejected() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    for (field, value) in [("offset", -1), ("partition", -1)] {
        let named = with(place(&delivery, "o"), json!({ field: value }));
        broker.ack(named).await.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn one_malformed_item_rejects_the_settle_batch() {
    let broker = Broker::start().await;
    let delivery = held(&broker).await;
    let good = json!({ "op": "ack", "token": delivery["lease"]["token"] });
    for bad in [json!({ "op": "lose", "token": "x" }), json!({ "op": "ack", "bogus": 1 }), json!(7)]
    {
        let answer = broker.post("/v1/settle", json!({ "items": [good, bad] })).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
    assert_eq!(broker.group("t", "g").await["leased"], 1);
}
