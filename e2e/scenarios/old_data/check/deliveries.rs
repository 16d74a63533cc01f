//! No acknowledged message is missing: every group receives each message it had not settled exactly
//! once, and no others.

use std::collections::BTreeMap;
use std::time::Duration;

use driftq_e2e::api::Api;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Checks;
use crate::answers::{Answers, Then, Waiting};
use crate::requests::{Poll, SHORT_LEASE_MS, ack};

/// Leases whose grant never reached the client expire in the seconds after the recovery.
const ARRIVE_WITHIN: Duration = Duration::from_secs(25);
/// A group is drained if a poll returns nothing within this time.
const QUIET_MS: u64 = 100;

pub(super) async fn run(api: &Api, answers: &Answers, checks: &mut Checks) -> anyhow::Result<()> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Waiting>> = BTreeMap::new();
    for waiting in &answers.waiting {
        groups.entry((&waiting.topic, &waiting.group)).or_default().push(waiting);
    }
    // Groups whose messages are all settled get nothing.
    for group in &answers.groups {
        if group.paused.is_null() && !group.topic.starts_with("leak.") {
            groups.entry((&group.topic, &group.group)).or_default();
        }
    }
    let began = Instant::now();
    for ((topic, group), waiting) in groups {
        let mut delivered = drain(api, topic, group, waiting.len(), began).await?;
        delivered.retain(|one| !is_resolved(answers, topic, group, one));
        compare(topic, group, &waiting, &delivered, checks);
        contents(answers, &delivered, checks);
    }
    Ok(())
}

/// Acks deliveries until the expected number has arrived and no more follow.
async fn drain(
    api: &Api,
    topic: &str,
    group: &str,
    wanted: usize,
    began: Instant,
) -> anyhow::Result<Vec<Value>> {
    let mut all: Vec<Value> = Vec::new();
    loop {
        let is_waited_for = all.len() < wanted && began.elapsed() < ARRIVE_WITHIN;
        let wait_ms = if is_waited_for { 2_000 } else { QUIET_MS };
        let poll = Poll { topic, group, max: 1_000, lease_ms: SHORT_LEASE_MS, wait_ms };
        let more = poll.send(api).await?;
        if more.is_empty() && !is_waited_for {
            return Ok(all);
        }
        for delivery in &more {
            ack(api, delivery["lease"]["token"].as_str().unwrap_or_default()).await?.ok()?;
        }
        all.extend(more);
    }
}

/// Checks that deliveries have the content that was produced.
fn contents(answers: &Answers, delivered: &[Value], checks: &mut Checks) {
    for found in delivered {
        let mut produced = answers.produced.iter();
        let Some(produced) = produced.find(|one| found["id"] == json!(one.receipt.id)) else {
            continue;
        };
        let message = &produced.message;
        let mut envelope = message.envelope.clone();
        // The server returns times in its own format.
        envelope.remove("deadline");
        let wanted = json!({ "key": message.key, "value": message.value, "envelope": envelope });
        checks.reads("content of a delivery", found, &wanted);
    }
}

/// Whether the message was due again because a check before resolved its effect.
fn is_resolved(answers: &Answers, topic: &str, group: &str, delivered: &Value) -> bool {
    let scope = format!("effect/{topic}/{group}");
    let mut resolved = answers.effects.iter().filter(|effect| effect.then == Then::Resolve);
    let key = &delivered["envelope"]["idempotency_key"];
    resolved.any(|effect| effect.scope == scope && *key == json!(effect.key))
}

fn compare(
    topic: &str,
    group: &str,
    waiting: &[&Waiting],
    delivered: &[Value],
    checks: &mut Checks,
) {
    for waiting in waiting {
        let found: Vec<_> =
            delivered.iter().filter(|one| one["value"] == json!(waiting.value)).collect();
        let (value, count) = (&waiting.value, found.len());
        checks.that(count == 1, || format!("{topic}/{group} delivers {value:?} {count} times"));
        if let (Some(receipt), Some(found)) = (&waiting.receipt, found.first()) {
            let wanted = json!({ "topic": receipt.topic, "partition": receipt.partition,
                "offset": receipt.offset, "id": receipt.id });
            checks.reads(&format!("delivery of {value}"), found, &wanted);
        }
    }
    for one in delivered {
        let is_known = waiting.iter().any(|waiting| one["value"] == json!(waiting.value));
        checks.that(is_known, || format!("{topic}/{group} delivers a settled message: {one}"));
    }
    let count = delivered.len();
    checks.that(count == waiting.len(), || {
        format!("{topic}/{group} delivers {count} messages, expected {}", waiting.len())
    });
}
