//! Builds requests with the names of the current API from facts stored with the names of the sets.

use anyhow::Context as _;
use driftq_e2e::api::{Api, Reply};
use serde_json::{Map, Value, json};

use crate::answers::{Commit, Fate, Lease, Message, Receipt};

pub(crate) const HOUR_MS: u64 = 3_600_000;
/// The longest allowed lease. It outlasts the time between the kill and the check.
pub(crate) const LONG_LEASE_MS: u64 = 12 * HOUR_MS;
/// Expires before the check begins, except for the grace period after a recovery.
pub(crate) const SHORT_LEASE_MS: u64 = 30_000;

pub(crate) fn message(topic: &str, value: impl Into<String>, idempotency_key: &str) -> Message {
    let mut envelope = Map::new();
    if !idempotency_key.is_empty() {
        envelope.insert("idempotency_key".to_owned(), idempotency_key.into());
    }
    Message { topic: topic.to_owned(), key: String::new(), value: value.into(), envelope }
}

pub(crate) fn produce_body(message: &Message) -> Value {
    let Message { topic, key, value, envelope } = message;
    let mut body = json!({ "topic": topic, "value": value });
    if !key.is_empty() {
        body["key"] = json!(key);
    }
    if !envelope.is_empty() {
        body["envelope"] = json!(envelope);
    }
    body
}

pub(crate) async fn produce(api: &Api, message: &Message) -> anyhow::Result<Receipt> {
    receipt(&api.post("produce", &produce_body(message)).await?.ok()?)
}

pub(crate) fn receipt(reply: &Value) -> anyhow::Result<Receipt> {
    let topic = reply["final_topic"].as_str().or(reply["topic"].as_str());
    Ok(Receipt {
        topic: topic.context("a topic")?.to_owned(),
        partition: reply["partition"].as_u64().context("a partition")?,
        offset: reply["offset"].as_u64().context("an offset")?,
        id: reply["id"].as_str().context("an id")?.to_owned(),
    })
}

pub(crate) fn commit_body(commit: &Commit) -> Value {
    let Commit { token, effects, produce, pointers, .. } = commit;
    let effects: Vec<_> = effects
        .iter()
        .map(|(token, result)| json!({ "token": token, "status": "SUCCEEDED", "result": result }))
        .collect();
    let produce: Vec<_> = produce.iter().map(produce_body).collect();
    json!({ "token": token, "effects": effects, "produce": produce, "pointers": pointers })
}

/// A poll of a group.
pub(crate) struct Poll<'a> {
    pub(crate) topic: &'a str,
    pub(crate) group: &'a str,
    pub(crate) max: usize,
    pub(crate) lease_ms: u64,
    pub(crate) wait_ms: u64,
}

pub(crate) const OWNER: &str = "worker-a";

impl<'a> Poll<'a> {
    /// Polls for up to `max` messages, with leases that outlast the time between kill and check.
    pub(crate) fn long(topic: &'a str, group: &'a str, max: usize) -> Poll<'a> {
        Poll { topic, group, max, lease_ms: LONG_LEASE_MS, wait_ms: 3_000 }
    }

    pub(crate) async fn send(&self, api: &Api) -> anyhow::Result<Vec<Value>> {
        let Poll { topic, group, max, lease_ms, wait_ms } = self;
        let body = json!({ "topic": topic, "group": group, "owner": OWNER, "max": max,
            "lease_ms": lease_ms, "wait_ms": wait_ms });
        let mut reply = api.post("receive", &body).await?.ok()?;
        let messages = reply["messages"].take();
        Ok(serde_json::from_value(messages)?)
    }

    /// Polls until `max` messages have been received.
    pub(crate) async fn all(&self, api: &Api) -> anyhow::Result<Vec<Value>> {
        let mut all: Vec<Value> = Vec::new();
        while all.len() < self.max {
            let rest = Poll { max: self.max - all.len(), ..*self };
            let more = rest.send(api).await?;
            let (topic, count) = (self.topic, all.len());
            anyhow::ensure!(!more.is_empty(), "{topic} delivers {count} of {}", self.max);
            all.extend(more);
        }
        Ok(all)
    }
}

/// Converts a delivery to the form in which the set stores it.
pub(crate) fn lease(fate: Fate, delivery: &Value) -> anyhow::Result<Lease> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a text");
    Ok(Lease {
        fate,
        token: text(&delivery["lease"]["token"])?,
        topic: text(&delivery["topic"])?,
        group: text(&delivery["group"])?,
        partition: delivery["partition"].as_u64().context("a partition")?,
        offset: delivery["offset"].as_u64().context("an offset")?,
        owner: OWNER.to_owned(),
        attempt: delivery["lease"]["attempt"].as_u64().context("an attempt")?,
        value: text(&delivery["value"])?,
        nonce: String::new(),
        effect: String::new(),
    })
}

pub(crate) async fn ack(api: &Api, token: &str) -> anyhow::Result<Reply> {
    Ok(api.post("ack", &json!({ "token": token })).await?)
}

/// Sends a nack with additional fields.
pub(crate) async fn nack(api: &Api, token: &str, more: Value) -> anyhow::Result<Reply> {
    let mut body = more;
    body["token"] = json!(token);
    Ok(api.post("nack", &body).await?)
}

/// Begins an effect in a client-chosen scope.
pub(crate) async fn begin(api: &Api, scope: &str, key: &str, more: Value) -> anyhow::Result<Reply> {
    let mut body = more;
    body["scope"] = json!(scope);
    body["key"] = json!(key);
    Ok(api.post("effects/begin", &body).await?)
}

/// Begins the message's own effect, under its delivery.
pub(crate) async fn begin_under(api: &Api, lease: &str, more: Value) -> anyhow::Result<Reply> {
    let mut body = more;
    body["lease_token"] = json!(lease);
    Ok(api.post("effects/begin", &body).await?)
}

pub(crate) async fn finish(api: &Api, token: &str, more: Value) -> anyhow::Result<Reply> {
    let mut body = more;
    body["token"] = json!(token);
    Ok(api.post("effects/finish", &body).await?)
}

pub(crate) async fn look(api: &Api, scope: &str, key: &str) -> anyhow::Result<Reply> {
    Ok(api.get(&format!("effects?scope={scope}&key={key}")).await?)
}

/// Converts a value to an object, or fails.
pub(crate) fn object(value: Value) -> anyhow::Result<Map<String, Value>> {
    Ok(serde_json::from_value(value)?)
}

pub(crate) const NEXT: [&str; 4] = ["next.0", "next.1", "next.2", "next.3"];

/// The messages that a commit of this message produces.
pub(crate) fn steps(value: &str) -> Vec<Message> {
    NEXT.iter().map(|topic| message(topic, format!("{value} to {topic}"), "")).collect()
}
