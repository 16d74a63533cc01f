//! A server on a temporary data directory, and the result of a scenario.

use std::path::PathBuf;

use anyhow::Context as _;
use driftq_e2e::api::Api;
use driftq_e2e::directory::Directory;
use driftq_e2e::server::{Launch, Server};
use driftq_e2e::usage::memory;
use serde_json::{Value, json};

/// The smallest memory budget that a server accepts, so that little is needed to exceed it.
const BUDGET_BYTES: u64 = 256 * 1024 * 1024;
/// Total memory that a server with that budget may use, in MB: the budget, a tenth of it, and the
/// program.
pub(crate) const MEMORY_MAX: f64 = 330.0;

/// The result of a scenario.
pub(crate) enum Seen {
    /// The guarantee held.
    Kept,
    /// The guarantee was broken. The text describes how.
    Broken(String),
}

impl Seen {
    /// Returns `Kept` if the condition holds.
    pub(crate) fn kept_if(is_so: bool, otherwise: impl FnOnce() -> String) -> Seen {
        if is_so { Seen::Kept } else { Seen::Broken(otherwise()) }
    }
}

/// A server and its files.
pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) api: Api,
    pub(crate) data: PathBuf,
    // Dropped after the server.
    _directory: Directory,
}

impl Fixture {
    pub(crate) async fn start(driftq: &str) -> anyhow::Result<Fixture> {
        Fixture::start_with(driftq, &[]).await
    }

    pub(crate) async fn start_with(driftq: &str, arguments: &[&str]) -> anyhow::Result<Fixture> {
        let directory = Directory::make()?;
        let data = directory.path().join("data");
        let mut launch = Launch::sqlite(driftq, &data, arguments);
        let budget = ("DRIFTQ_MEMORY_BUDGET_BYTES".to_owned(), BUDGET_BYTES.to_string());
        launch.variables.push(budget);
        let server = launch.start().await?;
        server.ready().await?;
        let api = server.api()?;
        Ok(Fixture { server, api, data, _directory: directory })
    }

    /// Creates a topic and its group `g`.
    pub(crate) async fn topic(
        &self,
        name: &str,
        partitions: u32,
        settings: Value,
    ) -> anyhow::Result<()> {
        let topic = json!({ "name": name, "partitions": partitions, "settings": settings });
        self.api.post("topics", &topic).await?.ok()?;
        self.api.put(&format!("topics/{name}/groups/g"), &json!({})).await?.ok()?;
        Ok(())
    }

    pub(crate) async fn produce(&self, topic: &str, value: &str) -> anyhow::Result<()> {
        self.api.post("produce", &json!({ "topic": topic, "value": value })).await?.ok()?;
        Ok(())
    }

    /// Receives messages for the group `g`, waiting up to `wait_ms`.
    pub(crate) async fn receive(
        &self,
        topic: &str,
        max: usize,
        wait_ms: u64,
    ) -> anyhow::Result<Vec<Value>> {
        let body =
            json!({ "topic": topic, "group": "g", "owner": "w", "max": max, "wait_ms": wait_ms });
        let mut reply = self.api.post("receive", &body).await?.ok()?;
        Ok(serde_json::from_value(reply["messages"].take())?)
    }

    /// Receives one message for the group `g`.
    pub(crate) async fn receive_one(&self, topic: &str) -> anyhow::Result<Value> {
        let mut messages = self.receive(topic, 1, 3_000).await?;
        messages.pop().with_context(|| format!("{topic} delivers nothing"))
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

    /// Resident memory in MB, current and peak.
    pub(crate) fn memory(&self) -> anyhow::Result<(f64, f64)> {
        let memory = memory(self.server.pid()?)?;
        Ok((memory.resident, memory.peak))
    }
}
