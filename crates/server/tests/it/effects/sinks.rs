//! Workers that lost their leases race at a sink. One sink keeps the highest fence; the other is in
//! the same transaction as finish.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{ended, under};
use crate::broker::Broker;
use crate::client::{Answer, Client};
use crate::verbs::{token, wanted, with};

const FENCES: u64 = 6;
const SHORT_MS: u64 = 250;

/// An external sink that keeps the highest fence and rejects lower ones.
#[derive(Default)]
struct Sink {
    highest: u64,
    accepted: Vec<(u64, usize)>,
}

impl Sink {
    fn write(&mut self, fence: u64, worker: usize) {
        if fence >= self.highest {
            self.highest = fence;
            self.accepted.push((fence, worker));
        }
    }
}

#[tokio::test]
async fn a_sink_that_keeps_the_highest_fence_agrees_with_the_ledger() {
    let broker = Broker::start().await;
    let mut rights = Vec::new();
    for fence in 1..=FENCES {
        let how = json!({ "on_doubt": "retry", "lease_ms": SHORT_MS });
        rights.push(broker.execute("k", how).await);
        if fence < FENCES {
            broker.until_held_no_longer("op/charge", "k").await;
        }
    }
    // All workers wake up at once, and each believes that it holds the effect.
    let sink = Arc::new(Mutex::new(Sink::default()));
    let racing = rights.into_iter().enumerate().map(|(worker, right)| {
        let (broker, sink) = (Client::clone(&broker), Arc::clone(&sink));
        tokio::spawn(async move {
            let fence = right["fence"].as_u64().expect("a fence");
            sink.lock().expect("no writer panicked").write(fence, worker);
            let how = json!({ "status": "SUCCEEDED", "result": worker });
            let finished = broker.finish(&right, how).await;
            // A second write, like that of a client that ignores a rejection.
            sink.lock().expect("no writer panicked").write(fence, worker);
            (worker, finished)
        })
    });
    let mut finished = Vec::new();
    for one in racing.collect::<Vec<_>>() {
        let (worker, answer) = one.await.expect("an answer");
        match answer.status {
            200 => finished.push(worker),
            _ => drop(answer.refused(409, "STALE_FENCE")),
        }
    }
    let recorded = broker.effect("op/charge", "k").await;
    let sink = sink.lock().expect("no writer panicked");
    assert!(sink.accepted.is_sorted(), "{:?}", sink.accepted);
    let writers: BTreeMap<u64, usize> = sink.accepted.iter().copied().collect();
    assert!(
        sink.accepted.iter().all(|(fence, worker)| writers[fence] == *worker),
        "a fence has one holder"
    );
    let (fence, last) = *sink.accepted.last().expect("a write");
    assert_eq!((fence, finished), (FENCES, vec![last]));
    assert_eq!(recorded["result"], json!(last));
}

/// Topics on more than one shard.
const SINKS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const ORDERS: usize = 3;
const ATTEMPTS: usize = 4;

#[tokio::test]
async fn a_sink_in_the_transaction_of_finish_stores_each_key_once() {
    for shards in [1, 5] {
        let broker = Broker::with(|config| config.shards = Some(shards)).await;
        let retry = json!({ "max_attempts": 20, "backoff_ms": 1, "max_backoff_ms": 1 });
        broker.topic_with("orders", 1, json!({ "retry_policy": retry })).await;
        for sink in SINKS {
            broker.topic(sink).await;
        }
        for order in 0..ORDERS {
            let key = json!({ "idempotency_key": format!("order-{order}") });
            broker.produce_with("orders", "pay", key).await;
        }
        let mut commits = Vec::new();
        for _ in 0..ATTEMPTS {
            commits.extend(attempt_each(&broker).await);
        }
        assert_eq!(commits.len(), ATTEMPTS * ORDERS);
        // Each commit twice, all at once.
        let racing = commits.iter().chain(&commits).cloned().map(|commit| {
            let broker = Client::clone(&broker);
            tokio::spawn(async move { broker.post("/v1/commit", commit).await })
        });
        let mut done = 0;
        for answer in racing.collect::<Vec<_>>() {
            done += usize::from(is_first(&answer.await.expect("an answer")));
        }
        assert_eq!(done, ORDERS);
        // The last message arrives after all others in flight.
        broker.produce("orders", "last").await;
        let last = broker.receive("orders", "g", "o").await;
        broker.post("/v1/commit", with(token(&last), to_every_sink("last"))).await.is(200);
        for sink in SINKS {
            let mut keys = keys_of(&broker, sink).await;
            keys.sort_unstable();
            assert_eq!(
                keys,
                ["last", "order-0", "order-1", "order-2"],
                "{sink} of {shards} shards"
            );
        }
    }
}

fn is_first(answer: &Answer) -> bool {
    match answer.status {
        200 => answer.json()["repeated"] == false,
        _ => answer.refused(409, "STALE_LEASE").is_null(),
    }
}

/// Delivers every order to a worker that begins its effect and then sleeps. Returns the commits the
/// workers will send.
async fn attempt_each(broker: &Client) -> Vec<Value> {
    let mut commits = Vec::new();
    for _ in 0..ORDERS {
        let short = with(wanted("orders", "g", "o"), json!({ "lease_ms": SHORT_MS }));
        let delivery = broker.receive_with(short).await;
        let began = broker.begin(under(&delivery), json!({ "on_doubt": "retry" })).await.is(200);
        let finish = with(json!({ "token": began["token"] }), ended("SUCCEEDED"));
        let key = began["key"].as_str().expect("a key");
        let commit = with(token(&delivery), json!({ "effects": [finish] }));
        commits.push(with(commit, to_every_sink(key)));
    }
    commits
}

fn to_every_sink(key: &str) -> Value {
    let produce: Vec<Value> =
        SINKS.iter().map(|sink| json!({ "topic": sink, "key": key, "value": "paid" })).collect();
    json!({ "produce": produce })
}

/// Waits for the last message of a sink and returns the keys of all its messages.
async fn keys_of(broker: &Client, sink: &str) -> Vec<String> {
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(20));
    for _ in 0..500 {
        looks.tick().await;
        let page = broker.get(format!("/v1/topics/{sink}/messages")).await.is(200);
        let messages = page["messages"].as_array().expect("messages").clone();
        let keys = messages.iter().filter_map(|one| Some(one["key"].as_str()?.to_owned()));
        let keys: Vec<String> = keys.collect();
        if keys.iter().any(|key| key == "last") {
            return keys;
        }
    }
    panic!("the last did not arrive at {sink}");
}
