//! Dead letters for every reason, some of them redriven.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use driftq_e2e::api::Api;
use driftq_e2e::clock::now_ms;
use serde_json::{Value, json};

use super::topics::{create_with, group};
use crate::answers::{Answers, DeadLetter, DeadThen, Waiting};
use crate::requests::{Poll, ack, message, nack, object, produce};

/// Long enough for the message to be stored, and short to wait for.
const DEADLINE_MS: u64 = 400;
const LOOKS_MAX: u32 = 200;

pub(super) async fn make(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    create_with(api, "dead", 1, json!({})).await?;
    group(api, "dead", "workers").await?;
    for value in ["redrive", "already", "already acked", "purge", "leave"] {
        produce(api, &message("dead", value, value)).await?;
        die(api, value, json!({ "final": true, "reason": format!("cannot {value}") })).await?;
    }
    let mut exhausted = message("dead", "exhausted", "exhausted");
    let policy = json!({ "max_attempts": 1, "backoff_ms": 0, "max_backoff_ms": 0 });
    exhausted.envelope.insert("retry_policy".to_owned(), policy);
    produce(api, &exhausted).await?;
    die(api, "exhausted", json!({ "reason": "card_declined" })).await?;
    deadline(api).await?;
    redriven(api).await?;

    let mut list = api.get("dlq/dead?state=all").await?.ok()?;
    for view in list["dead_letters"].as_array_mut().context("a list")? {
        let value = view["value"].as_str().context("a value")?.to_owned();
        let then = match value.as_str() {
            "redrive" | "exhausted" => DeadThen::Redrive,
            "already" | "already acked" => DeadThen::Already,
            "purge" => DeadThen::Purge,
            _ => DeadThen::Leave,
        };
        if then == DeadThen::Redrive || value == "already" {
            let (topic, group) = ("dead".to_owned(), "workers".to_owned());
            answers.waiting.push(Waiting { topic, group, value, receipt: None });
        }
        let view = object(view.take())?;
        answers.dead_letters.push(DeadLetter { topic: "dead".to_owned(), then, view });
    }
    ensure!(answers.dead_letters.len() == 7, "expected seven: {:?}", answers.dead_letters);
    Ok(())
}

async fn die(api: &Api, value: &str, how: Value) -> anyhow::Result<()> {
    let delivery = Poll::long("dead", "workers", 1).all(api).await?.remove(0);
    ensure!(delivery["value"] == value, "another message: {delivery}");
    let token = delivery["lease"]["token"].as_str().context("a token")?;
    nack(api, token, how).await?.ok()?;
    Ok(())
}

/// Produces a message that is not received before its deadline.
async fn deadline(api: &Api) -> anyhow::Result<()> {
    let query =
        format!("produce?topic=dead&value=deadline&deadline_ms={}", now_ms()? + DEADLINE_MS);
    api.send(reqwest::Method::POST, &query, None).await?.ok()?;
    tokio::time::sleep(Duration::from_millis(2 * DEADLINE_MS)).await;
    for _ in 0..LOOKS_MAX {
        let poll = Poll { wait_ms: 0, ..Poll::long("dead", "workers", 1) };
        let delivered = poll.send(api).await?;
        ensure!(delivered.is_empty(), "delivered past its deadline: {delivered:?}");
        if api.get("dlq/dead?reason=deadline").await?.ok()?["dead_letters"][0].is_object() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    anyhow::bail!("the message was not dead-lettered after its deadline")
}

/// Redrives two dead letters and acks one of them.
async fn redriven(api: &Api) -> anyhow::Result<()> {
    let list = api.get("dlq/dead").await?.ok()?;
    let list = list["dead_letters"].as_array().context("a list")?;
    for value in ["already acked", "already"] {
        let dead = list.iter().find(|dead| dead["value"] == value).context("a dead letter")?;
        let redrive = json!({ "ids": [dead["id"]], "by": "ops", "reason": "fixed in 41f3" });
        let reply = api.post("dlq/dead/redrive", &redrive).await?.ok()?;
        ensure!(reply["redriven"] == 1, "not redriven: {reply}");
    }
    let delivery = Poll::long("dead", "workers", 1).all(api).await?.remove(0);
    ensure!(delivery["value"] == "already acked", "another message: {delivery}");
    ack(api, delivery["lease"]["token"].as_str().context("a token")?).await?.ok()?;
    Ok(())
}
