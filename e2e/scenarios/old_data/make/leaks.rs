//! Outcomes whose message ended in every possible manner, each with a key that lives for a minute.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use driftq_e2e::api::Api;
use driftq_e2e::clock::now_ms;
use serde_json::{Value, json};

use super::topics::{create_with, group};
use crate::answers::{Answers, Leaked};
use crate::requests::{Poll, ack, begin_under, finish, message, nack, produce};

const GROUP: &str = "weekly";
const KEY: &str = "pay";
/// The shortest lifetime of an outcome.
const TTL_MS: u64 = 60_000;
const DEADLINE_MS: u64 = 1_000;
const LOOKS_MAX: u32 = 200;

pub(super) async fn make(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    for ended_by in ["ack", "seek", "delete", "purge", "deadline"] {
        let topic = format!("leak.{ended_by}");
        let settings =
            json!({ "dedupe_ttl_ms": TTL_MS, "effect_ttl_ms": TTL_MS, "on_doubt": "park" });
        create_with(api, &topic, 1, settings).await?;
        group(api, &topic, GROUP).await?;
        let mut pay = message(&topic, "pay", KEY);
        if ended_by == "deadline" {
            pay.envelope.insert("retry_policy".to_owned(), json!({ "max_attempts": 20 }));
            produce_until(api, &topic).await?;
        } else {
            produce(api, &pay).await?;
        }
        let delivery = Poll::long(&topic, GROUP, 1).all(api).await?.remove(0);
        let token = delivery["lease"]["token"].as_str().context("a token")?;
        let begun = begin_under(api, token, json!({})).await?.ok()?;
        let outcome = json!({ "status": "SUCCEEDED", "result": "week 1" });
        finish(api, begun["token"].as_str().context("a token")?, outcome).await?.ok()?;
        end(api, &topic, ended_by, token).await?;
        let (group, key) = (GROUP.to_owned(), KEY.to_owned());
        answers.leaked.push(Leaked { ended_by: ended_by.to_owned(), topic, group, key });
    }
    Ok(())
}

/// Ends the delivery. If the message is then delivered again, settles it.
async fn end(api: &Api, topic: &str, ended_by: &str, token: &str) -> anyhow::Result<()> {
    match ended_by {
        "seek" => {
            let to = json!({ "to": { "partition": 0, "offset": 0 } });
            api.post(&format!("topics/{topic}/groups/{GROUP}/seek"), &to).await?.ok()?;
            replayed(api, topic).await
        }
        "delete" => {
            let path = format!("topics/{topic}/groups/{GROUP}?confirm={GROUP}");
            api.delete(&path).await?.ok()?;
            group(api, topic, GROUP).await?;
            replayed(api, topic).await
        }
        "purge" => {
            nack(api, token, json!({ "final": true })).await?.ok()?;
            let list = api.get(&format!("dlq/{topic}")).await?.ok()?;
            let purge = json!({ "ids": [list["dead_letters"][0]["id"]], "confirm": 1 });
            api.post(&format!("dlq/{topic}/purge"), &purge).await?.ok()?;
            Ok(())
        }
        "deadline" => {
            nack(api, token, json!({ "delay_ms": 2 * DEADLINE_MS })).await?.ok()?;
            dead(api, topic).await
        }
        _ => {
            ack(api, token).await?.ok()?;
            Ok(())
        }
    }
}

/// Receives the message again, checks that its effect is replayed, and acks it.
async fn replayed(api: &Api, topic: &str) -> anyhow::Result<()> {
    let delivery = Poll::long(topic, GROUP, 1).all(api).await?.remove(0);
    let token = delivery["lease"]["token"].as_str().context("a token")?;
    let begun: Value = begin_under(api, token, json!({})).await?.ok()?;
    ensure!(begun["decision"] == "REPLAY", "not replayed: {begun}");
    ack(api, token).await?.ok()?;
    Ok(())
}

async fn produce_until(api: &Api, topic: &str) -> anyhow::Result<()> {
    let deadline = now_ms()? + DEADLINE_MS;
    let query =
        format!("produce?topic={topic}&value=pay&idempotency_key={KEY}&deadline_ms={deadline}");
    api.send(reqwest::Method::POST, &query, None).await?.ok()?;
    Ok(())
}

/// Waits until the message is a dead letter.
async fn dead(api: &Api, topic: &str) -> anyhow::Result<()> {
    for _ in 0..LOOKS_MAX {
        let poll = Poll { wait_ms: 0, ..Poll::long(topic, GROUP, 1) };
        let delivered = poll.send(api).await?;
        let list = api.get(&format!("dlq/{topic}")).await?.ok()?;
        if list["dead_letters"][0].is_object() {
            return Ok(());
        }
        // A retry may be delivered after the deadline. Its nack then ends it.
        for delivery in delivered {
            let token = delivery["lease"]["token"].as_str().context("a token")?;
            nack(api, token, json!({})).await?.ok()?;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("the message was not dead-lettered after its deadline")
}
