//! Requests of producers, workers and operators.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use driftq_e2e::api::Api;
use driftq_e2e::worker::Worker;
use serde_json::{Value, json};
use tokio::process::Command;

/// The group of every topic.
pub(crate) const GROUP: &str = "biller";
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Client {
    pub(crate) driftq: String,
    pub(crate) api: Api,
}

impl Client {
    /// Creates a topic of one partition with its group, and produces messages.
    pub(crate) async fn topic(
        &self,
        name: &str,
        settings: Value,
        count: usize,
    ) -> anyhow::Result<()> {
        let topic = json!({ "name": name, "settings": settings });
        self.api.post("topics", &topic).await?.ok()?;
        self.api.put(&format!("topics/{name}/groups/{GROUP}"), &json!({})).await?.ok()?;
        for number in 0..count {
            self.produce(name, number).await?;
        }
        Ok(())
    }

    pub(crate) async fn produce(&self, topic: &str, number: usize) -> anyhow::Result<()> {
        let envelope = json!({ "idempotency_key": format!("order-{number}") });
        let message = json!({ "topic": topic, "value": "pay", "envelope": envelope });
        self.api.post("produce", &message).await?.ok()?;
        Ok(())
    }

    /// Receives up to `max` messages.
    pub(crate) async fn receive(
        &self,
        topic: &str,
        owner: &str,
        max: usize,
    ) -> anyhow::Result<Vec<Value>> {
        let body =
            json!({ "topic": topic, "group": GROUP, "owner": owner, "max": max, "wait_ms": 5_000 });
        let mut reply = self.api.post("receive", &body).await?.ok()?;
        Ok(serde_json::from_value(reply["messages"].take())?)
    }

    pub(crate) async fn receive_one(&self, topic: &str, owner: &str) -> anyhow::Result<Value> {
        self.receive(topic, owner, 1)
            .await?
            .pop()
            .with_context(|| format!("{topic} delivers nothing"))
    }

    pub(crate) async fn settle(
        &self,
        verb: &str,
        delivery: &Value,
        more: Value,
    ) -> anyhow::Result<()> {
        let mut body = more;
        body["token"] = delivery["lease"]["token"].clone();
        self.api.post(verb, &body).await?.ok()?;
        Ok(())
    }

    /// Starts a worker process that receives messages and settles none.
    pub(crate) fn worker(&self, topic: &str, owner: &str, prefetch: u32) -> anyhow::Result<Worker> {
        let mut command = Command::new(&self.driftq);
        command.args([
            "consume",
            topic,
            GROUP,
            "--owner",
            owner,
            "--prefetch",
            &prefetch.to_string(),
        ]);
        command.env("DRIFTQ_URL", self.api.url()).stdout(Stdio::null()).stderr(Stdio::null());
        Worker::start(&mut command)
    }

    pub(crate) async fn group(&self, topic: &str) -> anyhow::Result<Value> {
        Ok(self.api.get(&format!("topics/{topic}/groups/{GROUP}")).await?.ok()?)
    }

    /// Waits until the group satisfies a condition.
    pub(crate) async fn until(
        &self,
        topic: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<()> {
        let began = tokio::time::Instant::now();
        loop {
            let group = self.group(topic).await?;
            if is_so(&group) {
                return Ok(());
            }
            ensure!(began.elapsed() < TIMEOUT, "{topic}: timeout: {what}: {group}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The explanation of the group.
    pub(crate) async fn explain_group(&self, topic: &str) -> anyhow::Result<String> {
        let explained =
            self.api.get(&format!("explain?topic={topic}&group={GROUP}")).await?.ok()?;
        Ok(explained["summary"].as_str().context("a summary")?.to_owned())
    }

    /// The explanation of a message of partition 0 in its group.
    pub(crate) async fn explain_message(&self, topic: &str, offset: u64) -> anyhow::Result<String> {
        let path = format!("explain?topic={topic}&partition=0&offset={offset}");
        let explained = self.api.get(&path).await?.ok()?;
        Ok(explained["groups"][0]["summary"].as_str().context("a summary")?.to_owned())
    }
}
