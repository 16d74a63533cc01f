//! Nothing acknowledged is missing: every group gets what it had not settled, each message once, and nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use driftq_e2e::api::Api;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Checks;
use crate::answers::{Answers, Waiting};
use crate::requests::{Poll, SHORT_LEASE_MS, ack};

/// Leases that were granted in an answer which never arrived end in the seconds after the recovery.
const ARRIVE_WITHIN: Duration = Duration::from_secs(25);
/// Nothing more comes within this.
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
        let delivered = drain(api, topic, group, waiting.len(), began).await?;
        compare(topic, group, &waiting, &delivered, checks);
        contents(answers, &delivered, checks);
    }
    Ok(())
}

/// Acks what is delivered until there is as much as expected and nothing more.
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

/// What was produced is what is delivered.
fn contents(answers: &Answers, delivered: &[Value], checks: &mut Checks) {
    for found in delivered {
        let mut produced = answers.produced.iter();
        let Some(produced) = produced.find(|one| found["id"] == json!(one.receipt.id)) else {
            continue;
        };
        let message = &produced.message;
        let mut envelope = message.envelope.clone();
        // A time comes back in the form of the server.
        envelope.remove("deadline");
        let wanted = json!({ "key": message.key, "value": message.value, "envelope": envelope });
        checks.reads("content of a delivery", found, &wanted);
    }
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
        checks.that(is_known, || format!("{topic}/{group} delivers what it had settled: {one}"));
    }
    let count = delivered.len();
    checks.that(count == waiting.len(), || {
        format!("{topic}/{group} delivers {count} messages, {} were not settled", waiting.len())
    });
}
