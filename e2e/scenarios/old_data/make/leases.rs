//! Tokens of deliveries whose leases outlast the kill, and of deliveries that ended before it.

use anyhow::{Context as _, ensure};
use driftq_e2e::api::Api;
use serde_json::{Value, json};

use super::topics::{create_with, group};
use crate::answers::{Answers, Fate, Waiting};
use crate::requests::{HOUR_MS, Poll, SHORT_LEASE_MS, ack, lease, message, nack, produce};

/// One message for each, in this order.
const OPEN: [Fate; 8] = [
    Fate::Ack,
    Fate::AckByOwner,
    Fate::Nack,
    Fate::Release,
    Fate::FinalNack,
    Fate::ExtendThenAck,
    Fate::Commit,
    Fate::Ack,
];

pub(super) async fn make(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    create_with(api, "leases", 2, json!({})).await?;
    group(api, "leases", "workers").await?;
    for fate in OPEN {
        let delivery = deliver(api, "leases", fate).await?;
        answers.leases.push(lease(fate, &delivery)?);
        if matches!(fate, Fate::Nack | Fate::Release) {
            let value = delivery["value"].as_str().context("a value")?.to_owned();
            let (topic, group) = ("leases".to_owned(), "workers".to_owned());
            answers.waiting.push(Waiting { topic, group, value, receipt: None });
        }
    }
    ended(api, answers).await?;
    sought(api, answers).await?;
    in_grace(api, answers).await
}

/// Produces a message and receives it with a long lease.
async fn deliver(api: &Api, topic: &str, fate: Fate) -> anyhow::Result<Value> {
    let value = format!("{topic} {fate:?} {}", fastrand::u32(..));
    produce(api, &message(topic, value.clone(), &value)).await?;
    let delivery = Poll::long(topic, "workers", 1).all(api).await?.remove(0);
    ensure!(delivery["value"] == json!(value), "another message: {delivery}");
    Ok(delivery)
}

async fn again(api: &Api, before: &Value) -> anyhow::Result<Value> {
    nack(api, token(before)?, json!({ "delay_ms": 0 })).await?.ok()?;
    let delivery = Poll::long("leases", "workers", 1).all(api).await?.remove(0);
    ensure!(delivery["id"] == before["id"], "another message: {delivery}");
    Ok(delivery)
}

fn token(delivery: &Value) -> anyhow::Result<&str> {
    delivery["lease"]["token"].as_str().context("a token")
}

/// Deliveries that were settled or superseded before the kill.
async fn ended(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    let acked = deliver(api, "leases", Fate::WasAcked).await?;
    ack(api, token(&acked)?).await?.ok()?;
    answers.leases.push(lease(Fate::WasAcked, &acked)?);

    let late = deliver(api, "leases", Fate::WasAckedLate).await?;
    let late = again(api, &late).await?;
    ack(api, token(&late)?).await?.ok()?;
    answers.leases.push(lease(Fate::WasAckedLate, &late)?);

    let nacked = deliver(api, "leases", Fate::WasNacked).await?;
    nack(api, token(&nacked)?, json!({ "delay_ms": HOUR_MS, "reason": "later" })).await?.ok()?;
    answers.leases.push(lease(Fate::WasNacked, &nacked)?);

    let first = deliver(api, "leases", Fate::WasRedelivered).await?;
    let second = again(api, &first).await?;
    answers.leases.push(lease(Fate::WasRedelivered, &first)?);
    answers.leases.push(lease(Fate::Ack, &second)?);

    let rejected = deliver(api, "leases", Fate::WasFinal).await?;
    nack(api, token(&rejected)?, json!({ "final": true, "reason": "never" })).await?.ok()?;
    answers.leases.push(lease(Fate::WasFinal, &rejected)?);
    Ok(())
}

/// A delivery whose group was moved back by a seek while it was open.
async fn sought(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    create_with(api, "moved", 1, json!({})).await?;
    group(api, "moved", "workers").await?;
    let open = deliver(api, "moved", Fate::WasSought).await?;
    let to = json!({ "to": { "partition": 0, "offset": 0 } });
    api.post("topics/moved/groups/workers/seek", &to).await?.ok()?;
    answers.leases.push(lease(Fate::WasSought, &open)?);
    let (topic, group) = ("moved".to_owned(), "workers".to_owned());
    let value = open["value"].as_str().context("a value")?.to_owned();
    answers.waiting.push(Waiting { topic, group, value, receipt: None });
    Ok(())
}

/// Leases that expire by the clock before the check, and are extended in the seconds after the
/// recovery.
async fn in_grace(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    for number in 0..3 {
        produce(api, &message("leases", format!("grace {number}"), "")).await?;
    }
    let poll = Poll { lease_ms: SHORT_LEASE_MS, ..Poll::long("leases", "workers", 3) };
    for delivery in poll.all(api).await? {
        answers.leases.push(lease(Fate::ExtendInGrace, &delivery)?);
    }
    Ok(())
}
