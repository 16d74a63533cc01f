//! Cases in which DriftQ-Core v1 loses, duplicates or blocks messages: one test for each that
//! clients can observe. The list is in the requirements. For routing, the envelope acts as the
//! router.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::verbs::{place, time, token, wanted, with, without_rates};

#[tokio::test]
async fn v1_acks_out_of_order_survive_a_restart() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    for value in ["a", "b", "c"] {
        broker.produce("t", value).await;
    }
    let held = broker.receive_now("t", "g", "o").await;
    broker.ack(token(&held[2])).await.is(204);
    broker.ack(token(&held[1])).await.is(204);
    let broker = broker.restart().await;
    let group = broker.group("t", "g").await;
    assert_eq!(group["backlog"], 1, "the lowest is still open");
    assert_eq!(group["partitions"][0]["settled_through"], -1);
    broker.ack(token(&held[0])).await.is(204);
    assert_eq!(broker.group("t", "g").await["partitions"][0]["settled_through"], 2);
}

#[tokio::test]
async fn v1_the_key_of_a_message_does_not_skip_its_effect() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "on_doubt": "park" })).await;
    let key = json!({ "idempotency_key": "order-77" });
    broker.produce_with("t", "x", key.clone()).await;
    assert_eq!(
        broker.effect("produce/t", "order-77").await["state"],
        "SUCCEEDED",
        "the key is stored"
    );
    for group in ["biller", "mailer"] {
        let delivery = broker.receive("t", group, "o").await;
        let begin = json!({ "lease_token": delivery["lease"]["token"] });
        let began = broker.begin(begin.clone(), json!({})).await.is(200);
        assert_eq!(began["decision"], "EXECUTE", "{group}: {began}");
        broker.ack(token(&delivery)).await.refused(409, "FAILED_PRECONDITION");
        broker.finish(&began, json!({ "status": "SUCCEEDED" })).await.is(200);
        assert_eq!(broker.begin(begin, json!({})).await.is(200)["decision"], "REPLAY", "and once");
        broker.ack(token(&delivery)).await.is(204);
    }
    // Producing it again is a repeat, and no worker receives it.
    assert_eq!(broker.produce_with("t", "x", key).await["deduplicated"], true);
    assert!(broker.receive_now("t", "biller", "o").await.is_empty());
}

#[tokio::test]
async fn v1_an_expired_key_used_again_is_a_new_message() {
    let broker = Broker::in_memory().await;
    let minutes = json!({ "dedupe_ttl_ms": 600_000, "effect_ttl_ms": 600_000 });
    broker.topic_with("t", 1, minutes).await;
    let key = json!({ "idempotency_key": "k" });
    broker.produce_with("t", "monday", key.clone()).await;
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(9 * 60)).await;
    let early = json!({ "topic": "t", "value": "tuesday", "envelope": key });
    broker.post("/v1/produce", early.clone()).await.refused(422, "CONFLICT");
    tokio::time::advance(std::time::Duration::from_secs(10 * 60)).await;
    let receipt = broker.post("/v1/produce", early).await.is(200);
    assert_eq!(receipt["deduplicated"], false);
    assert_eq!(receipt["offset"], 1, "stored, not dropped");
}

#[tokio::test]
async fn v1_the_same_key_with_another_payload_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let key = json!({ "idempotency_key": "k" });
    broker.produce_with("t", "a", key.clone()).await;
    let other = json!({ "topic": "t", "value": "b", "envelope": key });
    let body = broker.post("/v1/produce", other).await.refused(422, "CONFLICT");
    assert_eq!(body["field"], "value");
}

#[tokio::test]
async fn v1_a_restarted_server_has_everything_it_acknowledged() {
    let mut broker = Broker::durable().await;
    broker.topic("t").await;
    for round in 0..3 {
        broker.produce("t", &format!("{round}")).await;
        broker = broker.restart().await;
        assert_eq!(broker.get("/v1/readyz").await.is(200), json!({ "status": "ready" }));
        assert_eq!(broker.show("t").await["messages"], round + 1);
    }
    for value in ["0", "1", "2"] {
        assert_eq!(broker.receive("t", "g", "o").await["value"], value);
    }
}

#[tokio::test]
async fn v1_a_slow_handler_extends_its_lease_and_succeeds_once() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let short = with(wanted("t", "g", "slow"), json!({ "lease_ms": 1_000 }));
    let delivery = broker.receive_with(short).await;
    let granted = time(&delivery["lease"]["expires_at"]);
    let mut until = granted;
    // Three extensions keep the lease longer than it was granted for.
    while until < granted + 2_000 {
        let answer = broker.extend(token(&delivery), json!({ "lease_ms": 1_500 })).await.is(200);
        until = time(&answer["expires_at"]);
        assert!(broker.receive_now("t", "g", "other").await.is_empty(), "it is not redelivered");
        let some_time = with(wanted("t", "g", "other"), json!({ "wait_ms": 500 }));
        assert_eq!(broker.post("/v1/receive", some_time).await.is(200), json!({ "messages": [] }));
    }
    broker.ack(token(&delivery)).await.is(204);
    assert_eq!(broker.show("t").await["dead_letters"], 0);
}

#[tokio::test]
async fn v1_a_late_ack_counts_until_the_message_is_redelivered() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let short = with(wanted("t", "g", "slow"), json!({ "lease_ms": 250 }));
    let policy = json!({ "retry_policy": { "max_attempts": 3, "backoff_ms": 60_000, "max_backoff_ms": 60_000 } });
    broker.patch("/v1/topics/t", json!({ "settings": policy })).await.is(200);
    let delivery = broker.receive_with(short).await;
    broker.until_waiting("t", "g").await;
    broker.ack(token(&delivery)).await.is(204);
    assert_eq!(broker.group("t", "g").await["backlog"], 0);
}

#[tokio::test]
async fn v1_after_a_restart_leases_continue_and_older_tokens_settle() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    for value in ["a", "b", "c", "d"] {
        broker.produce("t", value).await;
    }
    let first = with(wanted("t", "g", "o"), json!({ "max": 3 }));
    let held = broker.post("/v1/receive", first).await.is(200)["messages"].clone();
    let broker = broker.restart().await;
    assert_eq!(broker.receive("t", "g", "o").await["value"], "d", "delivery continues");
    assert!(
        broker.receive_now("t", "g", "o").await.is_empty(),
        "leased messages are not redelivered"
    );
    broker.ack(token(&held[0])).await.is(204);
    broker.ack(place(&held[1], "o")).await.is(204);
    broker.extend(token(&held[2]), json!({ "lease_ms": 60_000 })).await.is(200);
    broker.nack(token(&held[2]), json!({ "reason": "r", "delay_ms": 0 })).await.is(204);
    let again = broker.receive("t", "g", "o").await;
    assert_eq!((&again["value"], &again["attempts"]), (&json!("c"), &json!(2)));
    assert_eq!(again["last_error"], "r");
}

#[tokio::test]
async fn v1_the_token_of_attempt_1_does_not_settle_attempt_2_of_the_same_owner() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let first = broker.receive("t", "g", "worker").await;
    broker.nack(token(&first), json!({ "delay_ms": 0 })).await.is(204);
    let second = broker.receive("t", "g", "worker").await;
    for op in ["ack", "nack", "extend"] {
        let body =
            broker.post(format!("/v1/{op}"), token(&first)).await.refused(409, "STALE_LEASE");
        assert_eq!(body["state"], "leased");
    }
    broker.ack(token(&second)).await.is(204);
}

#[tokio::test]
async fn v1_a_key_routed_elsewhere_on_retry_is_stored_once() {
    let broker = Broker::start().await;
    for topic in ["t", "eu", "us"] {
        broker.topic(topic).await;
    }
    let routed = |to: &str| json!({ "idempotency_key": "order-77", "target_topic": to });
    let first = broker.produce_with("t", "x", routed("eu")).await;
    assert_eq!(first["final_topic"], "eu");
    let again = broker.produce_with("t", "x", routed("eu")).await;
    assert_eq!((&again["id"], &again["deduplicated"]), (&first["id"], &json!(true)));
    let elsewhere = json!({ "topic": "t", "value": "x", "envelope": routed("us") });
    broker.post("/v1/produce", elsewhere).await.refused(422, "CONFLICT");
    for (topic, messages) in [("t", 0), ("eu", 1), ("us", 0)] {
        assert_eq!(broker.show(topic).await["messages"], messages, "{topic}");
    }
    assert_eq!(broker.effect("produce/t", "order-77").await["result"], first);
}

#[tokio::test]
async fn v1_a_dead_letter_is_stored_with_the_end_of_its_delivery() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    let broker = broker.restart().await;
    assert_eq!(broker.group("t", "g").await["backlog"], 0);
    assert_eq!(broker.show("t").await["dead_letters"], 1);
    assert_eq!(broker.show("dlq.t").await["messages"], 1);
}

#[tokio::test]
async fn v1_a_message_that_can_never_fit_is_not_retryable() {
    let message = json!({ "topic": "t", "value": "more than twenty bytes of value" });
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_bytes": 20 })).await;
    let refused = broker.post("/v1/produce", message.clone()).await.refused(413, "TOO_LARGE");
    assert_eq!((&refused["retryable"], &refused["field"]), (&json!(false), &json!("message")));
    // DriftQ-Core v1 does not tell the two apart, and neither does its profile.
    let broker = Broker::v1().await;
    broker.topic("t").await;
    let refused = broker.post("/v1/produce", message).await.refused(429, "RESOURCE_EXHAUSTED");
    let reasons = ["reason", "limit_reason"].map(|field| &refused[field]);
    assert_eq!(reasons, ["overloaded", "partition_buffer_bytes_full"]);
}

#[tokio::test]
async fn v1_a_topic_without_consumers_accepts_many_messages() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let messages: Vec<_> = (0..1000).map(|_| json!({ "topic": "t", "value": "x" })).collect();
    let answer = broker.post("/v1/produce/batch", json!({ "messages": messages })).await.is(200);
    assert_eq!(answer["accepted"], 1000);
}

#[tokio::test]
async fn v1_the_group_that_blocks_a_topic_is_named_and_can_be_deleted() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_messages": 1 })).await;
    broker.put("/v1/topics/t/groups/abandoned", json!({})).await.is(201);
    broker.produce("t", "a").await;
    let delivery = broker.receive("t", "alive", "o").await;
    broker.ack(token(&delivery)).await.is(204);
    let more = json!({ "topic": "t", "value": "b" });
    let body = broker.post("/v1/produce", more.clone()).await.refused(429, "RESOURCE_EXHAUSTED");
    assert_eq!(body["group"], "abandoned");
    broker.delete("/v1/topics/t/groups/abandoned?confirm=abandoned").await.is(200);
    broker.post("/v1/produce", more).await.is(200);
}

#[tokio::test]
async fn v1_an_idle_group_expires_if_configured() {
    let broker = Broker::in_memory().await;
    broker.topic_with("t", 1, json!({ "group_idle_ms": 60_000 })).await;
    broker.put("/v1/topics/t/groups/idle", json!({})).await.is(201);
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(59)).await;
    broker.group("t", "idle").await;
    tokio::time::advance(std::time::Duration::from_secs(120)).await;
    broker.topic("another").await;
    broker.get("/v1/topics/t/groups/idle").await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn v1_dead_letters_never_fill_up() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_messages": 2, "max_backlog_bytes": 2 })).await;
    for dead in 1..=10 {
        broker.produce("t", "x").await;
        let delivery = broker.receive("t", "g", "o").await;
        broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
        assert_eq!(broker.show("t").await["dead_letters"], dead);
    }
}

#[tokio::test]
async fn v1_one_consumer_with_an_odd_lease_does_not_stall_the_others() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for value in ["a", "b", "c"] {
        broker.produce("t", value).await;
    }
    let odd = with(wanted("t", "g", "odd"), json!({ "lease_ms": 43_200_000 }));
    let held = broker.receive_with(odd).await;
    let mut others = Vec::new();
    for lease_ms in [250, 60_000] {
        let wanted = with(wanted("t", "g", "other"), json!({ "lease_ms": lease_ms }));
        let delivery = broker.receive_with(wanted).await;
        let lease = time(&delivery["lease"]["expires_at"]) - time(&delivery["produced_at"]);
        assert!((lease_ms..lease_ms + 5_000).contains(&lease), "its own lease: {lease}");
        others.push(delivery["value"].clone());
    }
    assert_eq!(others, [json!("b"), json!("c")]);
    let again = broker.receive("t", "g", "other").await;
    assert_eq!(
        (&again["value"], &again["attempts"]),
        (&json!("b"), &json!(2)),
        "the short lease expired"
    );
    broker.ack(token(&held)).await.is(204);
}

#[tokio::test]
async fn v1_an_effect_in_progress_during_a_crash_ends_in_doubt() {
    let broker = Broker::durable().await;
    for (on_doubt, _) in DOUBTS {
        let named = json!({ "scope": "op/charge", "key": on_doubt, "lease_ms": 250 });
        broker.begin(named, json!({ "on_doubt": on_doubt })).await.is(200);
    }
    // The worker is dead, and the server restarts.
    let broker = broker.restart().await;
    for (on_doubt, state) in DOUBTS {
        broker.until_effect("op/charge", on_doubt, state).await;
        let named = json!({ "scope": "op/charge", "key": on_doubt });
        let again = broker.begin(named.clone(), json!({ "on_doubt": on_doubt })).await;
        match on_doubt {
            "park" => {
                again.refused(409, "IN_DOUBT");
                let how = json!({ "fence": 1, "as": "retry", "by": "ops", "reason": "no charge" });
                broker.post("/v1/effects/resolve", with(named.clone(), how)).await.is(200);
                let taken = broker.post("/v1/effects/reacquire", named).await.is(200);
                assert_eq!((&taken["decision"], &taken["fence"]), (&json!("EXECUTE"), &json!(2)));
            }
            _ => assert_eq!(again.is(200)["fence"], 2, "{on_doubt}: another worker continues"),
        }
    }
}

/// The state after a worker died, for each policy.
const DOUBTS: [(&str, &str); 3] =
    [("retry", "IN_DOUBT"), ("probe", "IN_DOUBT"), ("park", "PARKED")];

#[tokio::test]
async fn v1_the_next_attempt_gets_the_effect_of_a_dead_worker() {
    let broker = Broker::start().await;
    let policy = json!({ "max_attempts": 5, "backoff_ms": 0, "max_backoff_ms": 0 });
    broker.topic_with("t", 1, json!({ "retry_policy": policy, "on_doubt": "probe" })).await;
    broker.produce("t", "x").await;
    let short = with(wanted("t", "g", "dies"), json!({ "lease_ms": 250 }));
    let delivery = broker.receive_with(short).await;
    let begin = |delivery: &Value| json!({ "lease_token": delivery["lease"]["token"] });
    broker.begin(begin(&delivery), json!({})).await.is(200);
    let again = broker.receive("t", "g", "lives").await;
    let began = broker.begin(begin(&again), json!({})).await.is(200);
    assert_eq!((&began["action"], &began["fence"]), (&json!("probe"), &json!(2)), "{began}");
    assert_eq!(began["doubt"]["owner"], "dies");
    broker.finish(&began, json!({ "status": "SUCCEEDED" })).await.is(200);
    broker.ack(token(&again)).await.is(204);
}

#[tokio::test]
async fn v1_empty_partitions_and_topics_survive_a_restart() {
    let broker = Broker::durable().await;
    broker.topic_with("four", 4, json!({ "lease_ms": 60_000 })).await;
    broker.topic("empty").await;
    let produce = json!({ "topic": "four", "key": "user:2", "value": "x" });
    let before = broker.post("/v1/produce", produce.clone()).await.is(200);
    let topic = without_rates(broker.show("four").await);
    let broker = broker.restart().await;
    assert_eq!(broker.get("/v1/topics").await.is(200), json!({ "topics": ["empty", "four"] }));
    assert_eq!(without_rates(broker.show("four").await), topic);
    let after = broker.post("/v1/produce", produce).await.is(200);
    assert_eq!(after["partition"], before["partition"], "keys keep their partition");
    assert_eq!(after["offset"], 1);
}

#[tokio::test]
async fn v1_a_nack_without_a_delay_waits_for_the_backoff() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let policy = json!({ "max_attempts": 3, "backoff_ms": 60_000, "max_backoff_ms": 60_000 });
    broker.produce_with("t", "x", json!({ "retry_policy": policy })).await;
    let delivery = broker.receive("t", "g", "o").await;
    for _ in 0..20 {
        broker.nack(token(&delivery), json!({ "reason": "storm" })).await.is(204);
        assert!(broker.receive_now("t", "g", "o").await.is_empty());
    }
    let group = broker.group("t", "g").await;
    assert_eq!(group["waiting"], 1);
    let due = time(&group["partitions"][0]["next_retry_at"]) - time(&delivery["produced_at"]);
    assert!(due >= 6_000, "at least a tenth of the backoff: {due}");
    assert_eq!(broker.show("t").await["dead_letters"], 0);
}

#[tokio::test]
async fn v1_after_a_restart_a_short_lease_has_its_full_length() {
    let broker = Broker::durable().await;
    let policy = json!({ "max_attempts": 1, "backoff_ms": 0, "max_backoff_ms": 0 });
    broker.topic_with("t", 1, json!({ "retry_policy": policy })).await;
    broker.produce("t", "x").await;
    let short = with(wanted("t", "g", "o"), json!({ "lease_ms": 2_000 }));
    let delivery = broker.receive_with(short).await;
    // The worker cannot reach a stopped server, so the downtime does not shorten its lease.
    let broker = broker.restart().await;
    broker.ack(token(&delivery)).await.is(204);
    assert_eq!(broker.show("t").await["dead_letters"], 0);
}

#[tokio::test]
async fn v1_a_token_issued_before_a_seek_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let old = broker.receive("t", "g", "o").await;
    broker.post("/v1/topics/t/groups/g/seek", json!({ "to": "earliest" })).await.is(200);
    let new = broker.receive("t", "g", "o").await;
    assert_eq!(new["lease"]["attempt"], old["lease"]["attempt"], "attempts start again");
    let body = broker.ack(token(&old)).await.refused(409, "STALE_LEASE");
    assert_eq!(body["state"], "generation");
    broker.ack(token(&new)).await.is(204);
}

#[tokio::test]
async fn v1_a_token_of_a_deleted_group_is_rejected_by_the_recreated_one() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let old = broker.receive("t", "g", "o").await;
    broker.delete("/v1/topics/t/groups/g?confirm=g").await.is(200);
    let new = broker.receive("t", "g", "o").await;
    let answer = broker.ack(token(&old)).await;
    assert!([404, 409].contains(&answer.status), "{answer:?}");
    assert_eq!(broker.group("t", "g").await["leased"], 1);
    broker.ack(token(&new)).await.is(204);
}

#[tokio::test]
async fn v1_a_late_ack_of_a_message_dead_lettered_at_attempt_1_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce_with("t", "x", json!({ "retry_policy": { "max_attempts": 1 } })).await;
    let short = with(wanted("t", "g", "o"), json!({ "lease_ms": 250 }));
    let delivery = broker.receive_with(short).await;
    broker.until_group("t", "g", "the end", |group| group["open"] == 0).await;
    let dead = broker.receive("dlq.t", "ops", "o").await;
    assert_eq!(dead["dlq"]["reason"], "exhausted");
    assert_eq!(dead["dlq"]["last_error"], "ack_timeout");
    let body = broker.ack(token(&delivery)).await.refused(409, "STALE_LEASE");
    assert_eq!(body["state"], "dead");
}

#[tokio::test]
async fn v1_a_key_used_twice_in_one_batch_is_stored_once() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let message = json!({ "topic": "t", "value": "x", "envelope": { "idempotency_key": "k" } });
    let batch = json!({ "messages": [message, message] });
    let answer = broker.post("/v1/produce/batch", batch).await.is(200);
    let deduplicated: Vec<&Value> = answer["results"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["deduplicated"])
        .collect();
    assert_eq!(deduplicated, [&json!(false), &json!(true)]);
    assert_eq!(broker.receive_now("t", "g", "o").await.len(), 1);
}

#[tokio::test]
async fn v1_a_redriven_message_is_delivered_to_its_group_only() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let other = broker.receive("t", "other", "o").await;
    broker.ack(token(&other)).await.is(204);
    let delivery = broker.receive("t", "g", "o").await;
    broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    let filter = json!({ "filter": { "group": "g" }, "by": "ops", "reason": "fixed" });
    assert_eq!(broker.post("/v1/dlq/t/redrive", filter).await.is(200)["redriven"], 1);
    let again = broker.receive("t", "g", "o").await;
    assert_eq!(again["attempts"], 1);
    assert_eq!(again["redriven"], json!({ "origin_id": delivery["id"], "times": 1 }));
    assert!(broker.receive_now("t", "other", "o").await.is_empty());
}

/// The profile reads only requests of v1 as v1 did.
#[tokio::test]
async fn v1_a_misspelled_parameter_never_executes_what_it_should_show() {
    let broker = Broker::v1().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
    let group = "/v1/topics/t/groups/g";
    for query in ["seek?to=latest&dry_run=", "seek?to=latest&dryrun=true", "pause?til=1"] {
        broker.post_query(format!("{group}/{query}")).await.refused(400, "INVALID_ARGUMENT");
    }
    broker.post_query("/v1/topics/t/repair?dry-run=true").await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(broker.group("t", "g").await["backlog"], 1);
    // Requests of v1 ignore what v1 ignored.
    broker.post_query("/v1/produce?topic=t&value=y&partition_override=&colour=red").await.is(200);
    // JSON stays strict there too.
    for body in [
        json!({ "topic": "t", "value": "a", "lease_ms": 0 }),
        json!({ "topic": "t", "value": "a", "colour": "red" }),
    ] {
        broker.post("/v1/produce", body).await.refused(400, "INVALID_ARGUMENT");
    }
}
