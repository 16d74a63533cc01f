//! A server on a data directory of its own, and what a scenario has seen of its promise.

use std::path::PathBuf;

use anyhow::Context as _;
use driftq_e2e::api::Api;
use driftq_e2e::directory::Directory;
use driftq_e2e::server::{Launch, Server};
use driftq_e2e::usage::memory;
use serde_json::{Value, json};

/// The smallest budget that a server takes, so that a scenario needs little to exceed it.
const BUDGET_BYTES: u64 = 256 * 1024 * 1024;
/// What a server with that budget may use in all, in MB: the budget, a tenth of it, and the program.
pub(crate) const MEMORY_MAX: f64 = 330.0;

/// How a scenario ended.
pub(crate) enum Seen {
    /// The promise was kept.
    Kept,
    /// It was broken, in this way.
    Broken(String),
}

impl Seen {
    /// Kept, if it is so.
    pub(crate) fn kept_if(is_so: bool, otherwise: impl FnOnce() -> String) -> Seen {
        if is_so { Seen::Kept } else { Seen::Broken(otherwise()) }
    }
}

/// A server and its files.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) api: Api,
    pub(crate) data: PathBuf,
    // Dropped after the server.
    _directory: Directory,
}

impl Scene {
    pub(crate) async fn start(driftq: &str) -> anyhow::Result<Scene> {
        Scene::start_with(driftq, &[]).await
    }

    pub(crate) async fn start_with(driftq: &str, arguments: &[&str]) -> anyhow::Result<Scene> {
        let directory = Directory::make()?;
        let data = directory.path().join("data");
        let mut launch = Launch::sqlite(driftq, &data, arguments);
        let budget = ("DRIFTQ_MEMORY_BUDGET_BYTES".to_owned(), BUDGET_BYTES.to_string());
        launch.variables.push(budget);
        let server = launch.start().await?;
        server.ready().await?;
        let api = server.api()?;
        Ok(Scene { server, api, data, _directory: directory })
    }

    /// A topic, and the group `g` of it.
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

    /// Messages of the group `g` that are there within `wait_ms`.
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

    /// One message of the group `g`.
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

    /// Resident memory in MB, and the most it was.
    pub(crate) fn memory(&self) -> anyhow::Result<(f64, f64)> {
        let memory = memory(self.server.pid()?)?;
        Ok((memory.resident, memory.peak))
    }
}
