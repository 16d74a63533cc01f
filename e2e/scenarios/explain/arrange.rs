//! The states, each on a topic of its own.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures_util::FutureExt as _;
use serde_json::json;
use tokio::time::Instant;

use crate::cause::{Cause, Truth};
use crate::client::{Client, GROUP};
use crate::state::State;

/// How long the healthy group is observed, and how long its workers work on a message.
const HEALTHY_FOR: Duration = Duration::from_secs(2);
const WORK: Duration = Duration::from_millis(3);
/// How long the slow worker works on a message.
const SLOW_WORK: Duration = Duration::from_millis(1_200);
/// A lease that expires soon.
const SHORT_LEASE_MS: u64 = 250;

pub(crate) async fn all(client: &Client) -> anyhow::Result<Vec<State>> {
    let arranged = [
        ("healthy", healthy(client).boxed_local()),
        ("no_consumers", no_consumers(client).boxed_local()),
        ("dead_workers", dead_workers(client).boxed_local()),
        ("expired_leases", expired_leases(client).boxed_local()),
        ("backoff", backoff(client).boxed_local()),
        ("failing_message", failing_message(client).boxed_local()),
        ("paused", paused(client).boxed_local()),
        ("poison_message", poison_message(client).boxed_local()),
        ("poison_group", poison_group(client).boxed_local()),
        ("full_window", full_window(client).boxed_local()),
        ("slow_consumer", slow_consumer(client).boxed_local()),
        ("stalled_stream", stalled_stream(client).boxed_local()),
        ("full_partition", full_partition(client).boxed_local()),
        ("effect_in_doubt", effect_in_doubt(client).boxed_local()),
    ];
    let mut states = Vec::new();
    for (name, state) in arranged {
        states.push(state.await.context(name)?);
    }
    Ok(states)
}

fn state(name: &'static str, truth: Truth, explanation: String) -> State {
    State { name, truth, explanations: vec![explanation] }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

async fn healthy(client: &Client) -> anyhow::Result<State> {
    let topic = "healthy";
    client.topic(topic, json!({}), 0).await?;
    let until = Instant::now() + HEALTHY_FOR;
    let worker = async |owner: &str| -> anyhow::Result<()> {
        while Instant::now() < until {
            for delivery in client.receive(topic, owner, 1).await? {
                tokio::time::sleep(WORK).await;
                client.settle("ack", &delivery, json!({})).await?;
            }
        }
        Ok(())
    };
    // A poll that waits at the end receives one more message.
    let producer = async || -> anyhow::Result<()> {
        let mut number = 0;
        while Instant::now() < until + WORK * 20 {
            client.produce(topic, number).await?;
            number += 1;
        }
        Ok(())
    };
    let observer = async || -> anyhow::Result<Vec<String>> {
        let mut explanations = Vec::new();
        client.until(topic, "a delivery", |group| group["consumers"] != json!([])).await?;
        while Instant::now() < until {
            explanations.push(client.explain_group(topic).await?);
            tokio::time::sleep(WORK).await;
        }
        Ok(explanations)
    };
    let (one, two) = (worker("w-1"), worker("w-2"));
    let (_, _, (), explanations) = tokio::try_join!(one, two, producer(), observer())?;
    ensure!(explanations.len() > 50, "the healthy group was explained too seldom");
    let any_of = &[
        Cause::Delivering,
        Cause::Settled,
        Cause::AllDelivered,
        Cause::StreamsFull,
        Cause::BusyOrGone,
    ];
    Ok(State { name: "healthy group", truth: Truth { any_of, ..Truth::default() }, explanations })
}

async fn no_consumers(client: &Client) -> anyhow::Result<State> {
    let topic = "no-consumers";
    client.topic(topic, json!({}), 3).await?;
    let truth = Truth { all_of: &[Cause::NoConsumers], ..Truth::default() };
    Ok(state("no consumers", truth, client.explain_group(topic).await?))
}

async fn dead_workers(client: &Client) -> anyhow::Result<State> {
    let topic = "dead-workers";
    client.topic(topic, json!({ "lease_ms": 60_000 }), 5).await?;
    let worker = client.worker(topic, "w-dead", 2)?;
    client.until(topic, "two leases", |group| group["leased"] == 2).await?;
    drop(worker);
    // The server notices the end of the connection.
    let began = Instant::now();
    let mut explanation = client.explain_group(topic).await?;
    while !explanation.contains("gone") && began.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        explanation = client.explain_group(topic).await?;
    }
    let names = names(&["w-dead: 2 leased", "its first lease expires in 5"]);
    let truth = Truth { all_of: &[Cause::BusyOrGone], names, ..Truth::default() };
    Ok(state("all workers dead, leases held", truth, explanation))
}

async fn expired_leases(client: &Client) -> anyhow::Result<State> {
    let topic = "expired-leases";
    let retry = json!({ "max_attempts": 5, "backoff_ms": 0, "max_backoff_ms": 0 });
    let settings = json!({ "lease_ms": SHORT_LEASE_MS, "retry_policy": retry });
    client.topic(topic, settings, 3).await?;
    let worker = client.worker(topic, "w-dead", 3)?;
    client.until(topic, "three leases", |group| group["leased"] == 3).await?;
    drop(worker);
    client.until(topic, "expired leases", |group| group["leased"] == 0).await?;
    let names = names(&["w-dead was seen last"]);
    let truth = Truth { all_of: &[Cause::NoConsumers], names, ..Truth::default() };
    Ok(state("all workers dead, leases expired", truth, client.explain_group(topic).await?))
}

async fn backoff(client: &Client) -> anyhow::Result<State> {
    let topic = "backoff";
    client.topic(topic, json!({}), 1).await?;
    let delivery = client.receive_one(topic, "w-1").await?;
    client.settle("nack", &delivery, json!({ "reason": "boom", "delay_ms": 60_000 })).await?;
    // With a worker that waits for a message.
    let _worker = client.worker(topic, "w-1", 2)?;
    client
        .until(topic, "a stream", |group| group["partitions"][0]["blocked"] == "nothing_new")
        .await?;
    let truth = Truth { all_of: &[Cause::AllDelivered, Cause::Retry], ..Truth::default() };
    Ok(state("waiting for a retry", truth, client.explain_group(topic).await?))
}

async fn failing_message(client: &Client) -> anyhow::Result<State> {
    let topic = "failing-message";
    client.topic(topic, json!({}), 1).await?;
    let delivery = client.receive_one(topic, "w-1").await?;
    client.settle("nack", &delivery, json!({ "reason": "boom", "delay_ms": 60_000 })).await?;
    let names = names(&["attempt 1 failed (boom)", "attempt 2 of 20"]);
    let truth = Truth { all_of: &[Cause::Retry], names, ..Truth::default() };
    Ok(state("message waiting for a retry", truth, client.explain_message(topic, 0).await?))
}

async fn paused(client: &Client) -> anyhow::Result<State> {
    let topic = "paused";
    client.topic(topic, json!({}), 1).await?;
    let pause = json!({ "by": "eva", "reason": "bad deploy 41f2" });
    client.api.post(&format!("topics/{topic}/groups/{GROUP}/pause"), &pause).await?.ok()?;
    let truth = Truth {
        all_of: &[Cause::Paused],
        names: names(&["eva", "bad deploy 41f2"]),
        ..Truth::default()
    };
    Ok(state("paused group", truth, client.explain_group(topic).await?))
}

/// Fails a message until it is a dead letter.
async fn poison(client: &Client, topic: &str) -> anyhow::Result<()> {
    let retry = json!({ "max_attempts": 2, "backoff_ms": 0, "max_backoff_ms": 0 });
    client.topic(topic, json!({ "retry_policy": retry }), 1).await?;
    for _ in 0..2 {
        let delivery = client.receive_one(topic, "w-1").await?;
        client.settle("nack", &delivery, json!({ "reason": "cannot parse" })).await?;
    }
    Ok(())
}

async fn poison_message(client: &Client) -> anyhow::Result<State> {
    let topic = "poison-message";
    poison(client, topic).await?;
    let names = names(&["exhausted: cannot parse"]);
    let truth = Truth { all_of: &[Cause::DeadLetter], names, ..Truth::default() };
    Ok(state("poison message", truth, client.explain_message(topic, 0).await?))
}

async fn poison_group(client: &Client) -> anyhow::Result<State> {
    let topic = "poison-group";
    poison(client, topic).await?;
    let _worker = client.worker(topic, "w-1", 2)?;
    client
        .until(topic, "a stream", |group| group["partitions"][0]["blocked"] == "nothing_new")
        .await?;
    let truth = Truth { all_of: &[Cause::Settled], ..Truth::default() };
    Ok(state("group of a dead letter", truth, client.explain_group(topic).await?))
}

async fn full_window(client: &Client) -> anyhow::Result<State> {
    let topic = "full-window";
    client.topic(topic, json!({ "max_in_flight": 2 }), 4).await?;
    let _worker = client.worker(topic, "w-window", 10)?;
    client.until(topic, "two leases", |group| group["leased"] == 2).await?;
    let names = names(&["w-window: 2 leased"]);
    let truth = Truth { all_of: &[Cause::MaxInFlight], names, ..Truth::default() };
    Ok(state("max_in_flight reached", truth, client.explain_group(topic).await?))
}

/// Of two workers, one is slow.
async fn slow_consumer(client: &Client) -> anyhow::Result<State> {
    let topic = "slow-consumer";
    client.topic(topic, json!({}), 6).await?;
    let slow = client.receive_one(topic, "w-slow").await?;
    for _ in 0..3 {
        let fast = client.receive_one(topic, "w-fast").await?;
        client.settle("ack", &fast, json!({})).await?;
    }
    tokio::time::sleep(SLOW_WORK).await;
    client.settle("ack", &slow, json!({})).await?;
    let _slow = client.receive_one(topic, "w-slow").await?;
    let _fast = client.receive_one(topic, "w-fast").await?;
    client.produce(topic, 6).await?;
    let names = names(&["the slowest is w-slow: 1 leased, usually holds a message for 1."]);
    let truth = Truth { all_of: &[Cause::BusyOrGone], names, ..Truth::default() };
    Ok(state("slow consumer", truth, client.explain_group(topic).await?))
}

async fn stalled_stream(client: &Client) -> anyhow::Result<State> {
    let topic = "stalled-stream";
    client.topic(topic, json!({}), 3).await?;
    let _worker = client.worker(topic, "w-stalled", 2)?;
    client.until(topic, "two leases", |group| group["leased"] == 2).await?;
    let names = names(&["w-stalled: 2 leased"]);
    let truth = Truth { all_of: &[Cause::StreamsFull], names, ..Truth::default() };
    Ok(state("stream that settles nothing", truth, client.explain_group(topic).await?))
}

async fn full_partition(client: &Client) -> anyhow::Result<State> {
    let topic = "full-partition";
    client.topic(topic, json!({ "max_backlog_messages": 2 }), 2).await?;
    let message = json!({ "topic": topic, "value": "pay" });
    ensure!(client.api.post("produce", &message).await?.status == 429, "the partition is not full");
    let names = names(&["partition 0"]);
    let all_of = &[Cause::NoConsumers, Cause::PartitionFull];
    let truth = Truth { all_of, names, ..Truth::default() };
    Ok(state("full partition", truth, client.explain_group(topic).await?))
}

async fn effect_in_doubt(client: &Client) -> anyhow::Result<State> {
    let topic = "effect-in-doubt";
    client.topic(topic, json!({ "lease_ms": SHORT_LEASE_MS }), 1).await?;
    let delivery = client.receive_one(topic, "w-1").await?;
    let begin = json!({ "lease_token": delivery["lease"]["token"], "on_doubt": "park" });
    client.api.post("effects/begin", &begin).await?.ok()?;
    client.until(topic, "an expired lease", |group| group["leased"] == 0).await?;
    let names =
        names(&["effect effect/effect-in-doubt/biller order-0 is parked", "effect resolve"]);
    let truth = Truth {
        all_of: &[Cause::EffectUnknown],
        // When the retry is due depends on the backoff, and the worker has polled a moment ago.
        also: &[Cause::Retry, Cause::BusyOrGone, Cause::NoConsumers],
        names,
        ..Truth::default()
    };
    Ok(state("effect in doubt", truth, client.explain_message(topic, 0).await?))
}
