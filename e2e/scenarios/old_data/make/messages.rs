//! Keyed messages, messages routed to other shards, recorded commits, pointers, and a history.

use anyhow::{Context as _, ensure};
use driftq_e2e::api::Api;
use serde_json::{Value, json};

use super::topics::{create, create_with, group};
use crate::answers::{Answers, Commit, History, Message, Produced, Waiting};
use crate::requests::{
    Poll, SHORT_LEASE_MS, ack, begin_under, commit_body, message, nack, produce,
};

const KEYED: usize = 45;
/// How many of them are delivered to the group that acks every other one.
const DELIVERED: usize = 30;
const TARGETS: usize = 6;

pub(super) async fn make(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    keyed(api, answers).await?;
    routed(api, answers).await?;
    commits(api, answers).await?;
    history(api, answers).await
}

/// One group has settled every other message of those delivered, another none.
async fn keyed(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    create(api, "keyed", json!({})).await?;
    group(api, "keyed", "reader").await?;
    group(api, "keyed", "idle").await?;
    for number in 0..KEYED {
        let mut keyed = message("keyed", format!("keyed {number}"), &format!("key-{number}"));
        keyed.key = format!("customer-{}", number % 7);
        let more = match number % 5 {
            1 => json!({ "tenant_id": "acme", "run_id": format!("run-{number}") }),
            2 => json!({ "step_id": "charge", "parent_step_id": "order", "partition_override": 2 }),
            3 => {
                json!({ "retry_policy": { "max_attempts": 3, "backoff_ms": 10, "max_backoff_ms": 20 } })
            }
            4 => json!({ "deadline": "2099-01-01T00:00:00Z" }),
            _ => {
                json!({ "labels": { "model": "large" }, "headers": { "number": number.to_string() } })
            }
        };
        keyed.envelope.extend(crate::requests::object(more)?);
        accepted(api, answers, keyed, &["idle"]).await?;
    }
    let poll = Poll { lease_ms: SHORT_LEASE_MS, ..Poll::long("keyed", "reader", DELIVERED) };
    let delivered = poll.all(api).await?;
    for delivery in delivered.iter().step_by(2) {
        ack(api, delivery["lease"]["token"].as_str().context("a token")?).await?.ok()?;
    }
    let acked: Vec<&Value> = delivered.iter().step_by(2).map(|one| &one["value"]).collect();
    let produced = answers.produced.iter().filter(|one| one.message.topic == "keyed");
    let open = produced.filter(|one| !acked.iter().any(|acked| **acked == one.message.value));
    let open: Vec<Waiting> = open.map(|one| waiting(one, "reader")).collect();
    answers.waiting.extend(open);
    Ok(())
}

/// Produces a message that these groups have yet to settle.
async fn accepted(
    api: &Api,
    answers: &mut Answers,
    message: Message,
    groups: &[&str],
) -> anyhow::Result<()> {
    let receipt = produce(api, &message).await?;
    let produced = Produced { message, receipt };
    answers.waiting.extend(groups.iter().map(|group| waiting(&produced, group)));
    answers.produced.push(produced);
    Ok(())
}

fn waiting(produced: &Produced, group: &str) -> Waiting {
    Waiting {
        topic: produced.receipt.topic.clone(),
        group: group.to_owned(),
        value: produced.message.value.clone(),
        receipt: Some(produced.receipt.clone()),
    }
}

fn target(number: usize) -> String {
    format!("target.{number}")
}

/// Routes messages from one topic to others, most of them on other shards.
async fn routed(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    create_with(api, "orders", 1, json!({ "on_doubt": "park" })).await?;
    group(api, "orders", "biller").await?;
    for number in 0..TARGETS {
        create_with(api, &target(number), 2, json!({})).await?;
        group(api, &target(number), "reader").await?;
        for copy in 0..3 {
            let value = format!("routed {number} {copy}");
            let mut routed = message("orders", value, &format!("routed-{number}-{copy}"));
            routed.envelope.insert("target_topic".to_owned(), json!(target(number)));
            accepted(api, answers, routed, &["reader"]).await?;
        }
    }
    Ok(())
}

/// Commits that ack an order, end its effect, set a pointer, and send a message to every target.
async fn commits(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    let (mut near, mut far) = (0, 0);
    for number in 0..4 {
        let order = message("orders", format!("order {number}"), &format!("order-{number}"));
        accepted(api, answers, order, &[]).await?;
        let delivery = Poll::long("orders", "biller", 1).all(api).await?.remove(0);
        let token = delivery["lease"]["token"].as_str().context("a token")?.to_owned();
        let begun = begin_under(api, &token, json!({})).await?.ok()?;
        let effect = begun["token"].as_str().context("a token")?.to_owned();
        let produce = (0..TARGETS).map(|to| {
            let value = format!("step {number} {to}");
            message(&target(to), value, if to % 2 == 0 { "" } else { "step" })
        });
        let mut produce: Vec<Message> = produce.collect();
        for (to, message) in produce.iter_mut().enumerate().filter(|(to, _)| to % 2 == 1) {
            let key = json!(format!("step-{number}-{to}"));
            message.envelope.insert("idempotency_key".to_owned(), key);
        }
        let pointer = json!({ "dataset": "ledger", "version": "7", "partition_key": format!("dt={number}"),
            "location": format!("s3://bucket/{number}"), "checksum": "sha256:1" });
        let result = json!({ "charge": format!("ch_{number}"), "amount": 1_200 });
        let effects = vec![(effect, result)];
        let mut commit =
            Commit { token, effects, produce, pointers: vec![pointer], produced: None };
        let mut reply = api.post("commit", &commit_body(&commit)).await?.ok()?;
        let produced = reply["produced"].take();
        let items = produced.as_array().context("a list")?;
        far += items.iter().filter(|item| item["status"] == "queued").count();
        near += items.iter().filter(|item| item["status"] == "produced").count();
        commit.produced = Some(produced);
        answers.waiting.extend(commit.produce.iter().map(|message| Waiting {
            topic: message.topic.clone(),
            group: "reader".to_owned(),
            value: message.value.clone(),
            receipt: None,
        }));
        answers.commits.push(commit);
        let query =
            format!("pointers?topic=orders&dataset=ledger&version=7&partition_key=dt={number}");
        answers.pointers.push(api.get(&query).await?.ok()?);
    }
    ensure!(far > 0, "no target is on another shard");
    println!("messages of commits: {near} to the same shard, {far} to others");
    Ok(())
}

/// A message that failed twice and waits for its next attempt.
async fn history(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    create_with(api, "told", 1, json!({ "history": true })).await?;
    group(api, "told", "reader").await?;
    accepted(api, answers, message("told", "a history", "told-1"), &[]).await?;
    for (attempt, delay_ms) in [(1, 0), (2, 3_600_000)] {
        let delivery = Poll::long("told", "reader", 1).all(api).await?.remove(0);
        ensure!(delivery["attempts"] == attempt, "not attempt {attempt}: {delivery}");
        let token = delivery["lease"]["token"].as_str().context("a token")?;
        nack(api, token, json!({ "reason": "timeout", "delay_ms": delay_ms })).await?.ok()?;
    }
    let view = api.get("explain?topic=told&partition=0&offset=0").await?.ok()?;
    let events = view["history"].clone();
    ensure!(events.as_array().is_some_and(|events| events.len() == 4), "four events: {events}");
    answers.histories.push(History { topic: "told".to_owned(), partition: 0, offset: 0, events });
    Ok(())
}
