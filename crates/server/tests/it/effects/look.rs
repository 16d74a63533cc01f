//! Reading effects: one, optionally waiting for its outcome, or a list of those without an outcome.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::{ended, named, under};
use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::{fields, time, token, with};

#[tokio::test]
async fn a_record_has_all_fields() {
    let broker = Broker::start().await;
    let how = json!({ "on_doubt": "probe", "owner": "o", "tenant_id": "acme", "lease_ms": 60_000,
        "provider_window_ms": 86_400_000 });
    let began = broker.begin(named("k"), how).await.is(200);
    let path = "/v1/effects?scope=op/charge&key=k&tenant_id=acme";
    let record = broker.get(path).await.is(200);
    let names = "began_at downstream_key downstream_until expires_at fence key on_doubt owner scope state status tenant_id updated_at";
    assert_eq!(fields(&record).join(" "), names);
    for field in ["downstream_key", "downstream_until", "expires_at", "fence"] {
        assert_eq!(record[field], began[field], "{field}");
    }
    assert_eq!(time(&record["downstream_until"]), time(&record["began_at"]) + 86_400_000);
    assert_eq!(time(&record["expires_at"]), time(&record["began_at"]) + 60_000);
    assert_eq!((&record["tenant_id"], &record["owner"]), (&json!("acme"), &json!("o")));
    broker.finish(&began, json!({ "status": "SUCCEEDED", "result": 7 })).await.is(200);
    let record = broker.get(path).await.is(200);
    let names = "began_at code downstream_key downstream_until fence key on_doubt owner replay_until result scope state status tenant_id updated_at";
    assert_eq!(fields(&record).join(" "), names);
    assert_eq!(time(&record["replay_until"]), time(&record["updated_at"]) + 604_800_000);
}

#[tokio::test]
async fn an_unknown_effect_is_not_found() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.execute("k", json!({ "on_doubt": "park" })).await;
    for (query, kind) in [
        ("scope=op/charge&key=other", "effect"),
        ("scope=op/other&key=k", "effect"),
        ("scope=op/charge&key=k&tenant_id=acme", "effect"),
        ("scope=effect/t/g&key=k", "effect"),
        ("scope=produce/t&key=k", "effect"),
        ("scope=effect/u/g&key=k", "topic"),
        ("scope=produce/u&key=k", "topic"),
    ] {
        let body = broker.get(format!("/v1/effects?{query}")).await.refused(404, "NOT_FOUND");
        assert_eq!(body["kind"], kind, "{query}");
    }
    broker.get("/v1/effects?scope=op/charge&key=k&tenant_id=default").await.is(200);
}

/// Waits for an effect on its own connection.
fn waits(broker: &Client, key: &str, wait_ms: u64) -> tokio::task::JoinHandle<Value> {
    let path = format!("/v1/effects?scope=op/charge&key={key}&wait_ms={wait_ms}");
    let broker = broker.clone();
    tokio::spawn(async move { broker.get(path).await.is(200) })
}

#[tokio::test]
async fn a_wait_is_answered_when_the_effect_is_finished() {
    for (status, more) in [
        ("SUCCEEDED", json!({ "result": { "charge": "ch_1" } })),
        ("FAILED_FINAL", json!({ "error": "declined" })),
    ] {
        let broker = Broker::start().await;
        let began = broker.execute("k", json!({ "on_doubt": "park" })).await;
        let first = waits(&broker, "k", 60_000);
        let second = waits(&broker, "k", 60_000);
        // Doubt does not end the wait.
        broker.finish(&began, ended("UNKNOWN")).await.is(200);
        tokio::task::yield_now().await;
        assert!(!first.is_finished() && !second.is_finished());
        broker.finish(&began, with(ended(status), more)).await.is(200);
        let record = first.await.expect("an answer");
        assert_eq!(record["state"], status);
        assert_eq!(second.await.expect("an answer"), record);
        assert_eq!(waits(&broker, "k", 60_000).await.expect("at once"), record);
    }
}

#[tokio::test]
async fn a_wait_can_start_before_the_effect_is_begun() {
    let broker = Broker::start().await;
    let waiting = waits(&broker, "k", 60_000);
    let began = broker.execute("k", json!({ "on_doubt": "park" })).await;
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    assert_eq!(waiting.await.expect("an answer")["state"], "SUCCEEDED");
}

#[tokio::test]
async fn a_wait_is_answered_when_the_effect_is_resolved() {
    let broker = Broker::start().await;
    let began = broker.execute("k", json!({ "on_doubt": "park" })).await;
    broker.finish(&began, ended("UNKNOWN")).await.is(200);
    let waiting = waits(&broker, "k", 60_000);
    let how = json!({ "fence": 1, "as": "failed", "by": "ops", "reason": "r" });
    broker.post("/v1/effects/resolve", with(named("k"), how)).await.is(200);
    assert_eq!(waiting.await.expect("an answer")["state"], "FAILED_FINAL");
}

#[tokio::test]
async fn a_retryable_failure_does_not_end_a_wait() {
    let broker = Broker::start().await;
    let began = broker.execute("k", json!({ "on_doubt": "park" })).await;
    let waiting = waits(&broker, "k", 60_000);
    broker.finish(&began, ended("FAILED_RETRYABLE")).await.is(200);
    let again = broker.post("/v1/effects/reacquire", named("k")).await.is(200);
    broker.finish(&again, ended("SUCCEEDED")).await.is(200);
    let record = waiting.await.expect("an answer");
    assert_eq!((&record["state"], &record["fence"]), (&json!("SUCCEEDED"), &json!(2)));
}

#[tokio::test]
async fn a_wait_that_times_out_returns_the_current_state() {
    let broker = Broker::start().await;
    broker.execute("k", json!({ "on_doubt": "park" })).await;
    let since = tokio::time::Instant::now();
    let record = waits(&broker, "k", 300).await.expect("an answer");
    assert_eq!(record["state"], "IN_PROGRESS");
    assert!(since.elapsed() >= Duration::from_millis(300), "{:?}", since.elapsed());
    let nothing = "/v1/effects?scope=op/charge&key=nothing&wait_ms=300";
    let since = tokio::time::Instant::now();
    assert_eq!(broker.get(nothing).await.refused(404, "NOT_FOUND")["kind"], "effect");
    assert!(since.elapsed() >= Duration::from_millis(300), "it could have been begun meanwhile");
    let since = tokio::time::Instant::now();
    waits(&broker, "k", 0).await.expect("at once");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_wait_does_not_delay_the_stop_of_the_server() {
    let broker = Broker::start().await;
    broker.execute("k", json!({ "on_doubt": "park" })).await;
    let waiting = waits(&broker, "k", 60_000);
    // Once a later connection has been served, the waiting one is open.
    broker.get("/v1/healthz").await.is(200);
    let since = tokio::time::Instant::now();
    tokio::task::yield_now().await;
    broker.stop().await;
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    drop(waiting);
}

/// All pages of a list as (tenant, scope, key).
async fn listed(broker: &Client, query: &str) -> BTreeSet<(String, String, String)> {
    let mut all = BTreeSet::new();
    let mut path = format!("/v1/effects?{query}");
    loop {
        let page = broker.get(&path).await.is(200);
        for effect in page["effects"].as_array().expect("a list") {
            let word = |field: &str| effect[field].as_str().expect("text").to_owned();
            assert!(all.insert((word("tenant_id"), word("scope"), word("key"))), "twice: {effect}");
            assert_eq!((effect.get("result"), effect.get("code")), (None, None));
            assert!(query.contains(&word("state")), "{effect}");
        }
        let Some(cursor) = page["next_cursor"].as_str() else { return all };
        path = format!("/v1/effects?{query}&cursor={cursor}");
    }
}

#[tokio::test]
async fn effects_are_listed_by_state_scope_and_tenant() {
    let broker = Broker::start().await;
    let policies = [("IN_PROGRESS", "park"), ("IN_DOUBT", "probe"), ("PARKED", "park")];
    for (state, on_doubt) in policies {
        for tenant in ["default", "acme"] {
            for scope in ["op/charge", "op/mail"] {
                let key = format!("{state}-{tenant}");
                let named = json!({ "scope": scope, "key": key, "tenant_id": tenant });
                let began = broker.begin(named, json!({ "on_doubt": on_doubt })).await.is(200);
                if state != "IN_PROGRESS" {
                    broker.finish(&began, ended("UNKNOWN")).await.is(200);
                }
            }
        }
    }
    for status in ["SUCCEEDED", "FAILED_FINAL", "FAILED_RETRYABLE"] {
        let began = broker.execute(status, json!({ "on_doubt": "park" })).await;
        broker.finish(&began, ended(status)).await.is(200);
    }
    for (state, _) in policies {
        for limit in ["", "&limit=1", "&limit=3", "&limit=1000"] {
            for (narrow, count) in [
                ("", 4),
                ("&scope=op/charge", 2),
                ("&tenant_id=acme", 2),
                ("&tenant_id=default", 2),
                ("&tenant_id=", 2),
                ("&scope=op/mail&tenant_id=acme", 1),
                ("&scope=op/other", 0),
                ("&scope=effect/t/g", 0),
                ("&scope=produce/t", 0),
                ("&tenant_id=other", 0),
            ] {
                let query = format!("state={state}{narrow}{limit}");
                let all = listed(&broker, &query).await;
                assert_eq!(all.len(), count, "{query}: {all:?}");
                for (tenant, scope, key) in all {
                    assert_eq!(key, format!("{state}-{tenant}"));
                    assert!(
                        !narrow.contains("scope") || narrow.contains(&scope),
                        "{query}: {scope}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn a_page_has_limit_items_and_its_cursor_can_be_reused() {
    let broker = Broker::start().await;
    for number in 0..5 {
        broker.execute(&number.to_string(), json!({ "on_doubt": "park" })).await;
    }
    let page = async |more: &str| {
        broker.get(format!("/v1/effects?state=IN_PROGRESS&limit=2{more}")).await.is(200)
    };
    let first = page("").await;
    assert_eq!(first["effects"].as_array().map(Vec::len), Some(2));
    let cursor = first["next_cursor"].as_str().expect("more");
    let second = page(&format!("&cursor={cursor}")).await;
    assert_eq!(second["effects"].as_array().map(Vec::len), Some(2));
    assert_eq!(page(&format!("&cursor={cursor}")).await, second);
    let cursor = second["next_cursor"].as_str().expect("more");
    let third = page(&format!("&cursor={cursor}")).await;
    assert_eq!(third["effects"].as_array().map(Vec::len), Some(1));
    assert_eq!(third.get("next_cursor"), None);
}

/// Clients can forge cursors. More effects have ended than one step reads.
#[tokio::test]
async fn a_forged_cursor_before_the_first_effect_starts_at_the_first() {
    let broker = Broker::start().await;
    for number in 0..300 {
        let began = broker.execute(&format!("done {number}"), json!({ "on_doubt": "park" })).await;
        broker.finish(&began, json!({ "status": "SUCCEEDED" })).await.is(200);
    }
    broker.execute("open", json!({ "on_doubt": "park" })).await;
    let page = broker.get("/v1/effects?state=IN_PROGRESS&cursor=MDowOjA").await.is(200);
    assert_eq!(page["effects"][0]["key"], "open", "{page}");
}

#[tokio::test]
async fn an_expired_effect_is_listed_as_in_doubt_without_a_write() {
    let broker = Broker::start().await;
    broker.execute("k", json!({ "on_doubt": "probe", "lease_ms": 250 })).await;
    let record = broker.until_effect("op/charge", "k", "IN_DOUBT").await;
    assert_eq!(record["doubt"]["cause"], "lease_expired");
    assert_eq!(listed(&broker, "state=IN_PROGRESS").await.len(), 0);
    assert_eq!(listed(&broker, "state=IN_DOUBT").await.len(), 1);
    let page = broker.get("/v1/effects?state=IN_DOUBT").await.is(200);
    assert_eq!(page["effects"][0], record);
}

#[tokio::test]
async fn effects_of_deliveries_are_listed_with_their_message() {
    let broker = Broker::start().await;
    broker.topic_with("t", 3, json!({})).await;
    let keyed = json!({ "partition_override": 2, "tenant_id": "acme" });
    let receipt = broker.produce_with("t", "x", keyed).await;
    let delivery = broker.receive("t", "g", "o").await;
    broker.begin(under(&delivery), json!({ "on_doubt": "park", "key": "k" })).await.is(200);
    let page = broker.get("/v1/effects?state=IN_PROGRESS&scope=effect/t/g").await.is(200);
    let message =
        json!({ "id": receipt["id"], "topic": "t", "partition": 2, "offset": 0, "attempt": 1 });
    assert_eq!(page["effects"][0]["message"], message);
    assert_eq!(page["effects"][0]["tenant_id"], "acme");
    assert_eq!(page["effects"][0]["owner"], "o");
    broker.nack(token(&delivery), json!({ "delay_ms": 600_000 })).await.is(204);
    assert_eq!(listed(&broker, "state=PARKED&scope=effect/t/g").await.len(), 1);
}

#[tokio::test]
async fn a_stored_idempotency_key_is_returned_with_its_receipt() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.topic("u").await;
    let keyed = |key: &str, target: Value| json!({ "idempotency_key": key, "tenant_id": "acme", "target_topic": target });
    for (key, target) in [("here", Value::Null), ("there", json!("u"))] {
        let receipt = broker.produce_with("t", "x", keyed(key, target)).await;
        let path = format!("/v1/effects?scope=produce/t&key={key}&tenant_id=acme");
        let record = broker.get(&path).await.is(200);
        assert_eq!(record["result"], receipt, "{key}");
        assert_eq!(
            (&record["state"], &record["status"]),
            (&json!("SUCCEEDED"), &json!("COMMITTED"))
        );
        assert_eq!((&record["scope"], &record["key"]), (&json!("produce/t"), &json!(key)));
        assert_eq!(record["tenant_id"], "acme");
        assert_eq!(record["message"]["id"], receipt["id"]);
        time(&record["replay_until"]);
        // A final state is returned at once, even with a wait.
        assert_eq!(broker.get(format!("{path}&wait_ms=60000")).await.is(200), record);
        broker
            .get(format!("/v1/effects?scope=produce/t&key={key}"))
            .await
            .refused(404, "NOT_FOUND");
    }
    for verb in ["begin", "reacquire"] {
        let mut body = json!({ "scope": "produce/t", "key": "here", "on_doubt": "park" });
        if verb == "reacquire" {
            body.as_object_mut().expect("an object").remove("on_doubt");
        }
        broker.post(format!("/v1/effects/{verb}"), body).await.invalid("scope");
    }
}

#[tokio::test]
async fn parameters_of_get_and_list_cannot_be_mixed() {
    let broker = Broker::start().await;
    for (query, field) in [
        ("", "state"),
        ("scope=op/charge", "state"),
        ("key=k", "scope"),
        ("state=SUCCEEDED", "state"),
        ("state=FAILED_RETRYABLE", "state"),
        ("state=in_doubt", "state"),
        ("state=PARKED&wait_ms=0", "wait_ms"),
        ("scope=op/charge&key=k&state=PARKED", "key"),
        ("scope=op/charge&key=k&limit=1", "key"),
        ("scope=op/charge&key=k&cursor=MDA", "key"),
    ] {
        broker.get(format!("/v1/effects?{query}")).await.invalid(field);
    }
}

#[tokio::test]
async fn a_wait_for_a_message_to_be_produced_is_answered() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let caller = broker.clone();
    let path = "/v1/effects?scope=produce/t&key=k&wait_ms=60000";
    let waiting = tokio::spawn(async move { caller.get(path).await.is(200) });
    let receipt = broker.produce_with("t", "x", json!({ "idempotency_key": "k" })).await;
    assert_eq!(waiting.await.expect("an answer")["result"], receipt);
}
