//! The server of a scenario: in memory with a test clock, or on a directory, so that it can be
//! killed.

use std::process::Stdio;

use anyhow::Context as _;
use driftq_api::Time;
use driftq_e2e::api::{Api, api};
use driftq_e2e::broker::Broker;
use driftq_e2e::directory::Directory;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

/// The group of every handler.
pub(crate) const GROUP: &str = "biller";

pub(crate) struct Server {
    kind: Kind,
    pub(crate) api: Api,
}

enum Kind {
    InMemory { _child: Child, _out: BufReader<ChildStdout> },
    Durable { broker: Broker, _directory: Directory },
}

impl Server {
    pub(crate) async fn start(binary: &str, is_durable: bool) -> anyhow::Result<Server> {
        if is_durable {
            let directory = Directory::make()?;
            let broker = Broker::start(binary, &directory.path().join("data"), None).await?;
            let api = broker.api()?;
            return Ok(Server { kind: Kind::Durable { broker, _directory: directory }, api });
        }
        let mut child = Command::new(binary)
            .args(["dev", "--test-clock", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {binary}"))?;
        let mut out = BufReader::new(child.stdout.take().context("its output is piped")?);
        let mut line = String::new();
        out.read_line(&mut line).await?;
        let address = line.trim().strip_prefix("listening on http://").context("its address")?;
        let api = api(address.parse()?)?;
        Ok(Server { kind: Kind::InMemory { _child: child, _out: out }, api })
    }

    pub(crate) async fn create(&self, topic: &str, retry: Option<&Value>) -> anyhow::Result<()> {
        let mut body = json!({ "name": topic });
        if let Some(retry) = retry {
            body["settings"] = json!({ "retry_policy": retry });
        }
        self.api.post("topics", &body).await?.ok()?;
        self.api.put(&format!("topics/{topic}/groups/{GROUP}"), &json!({})).await?.ok()?;
        Ok(())
    }

    /// Kills it and starts it again at the same address.
    pub(crate) async fn restart(&mut self) -> anyhow::Result<()> {
        let Kind::Durable { broker, .. } = &mut self.kind else {
            anyhow::bail!("only a durable server can be restarted");
        };
        broker.kill().await?;
        broker.start_again(None).await
    }

    pub(crate) fn has_clock(&self) -> bool {
        matches!(self.kind, Kind::InMemory { .. })
    }

    /// Advances the clock and returns the time.
    pub(crate) async fn advance(&self, ms: u64) -> anyhow::Result<Time> {
        let answer = self.api.post("dev/clock", &json!({ "advance_ms": ms })).await?.ok()?;
        let now = answer["now"].as_str().context("a time")?;
        now.parse().map_err(|error| anyhow::anyhow!("{now}: {error}"))
    }

    pub(crate) async fn group(&self, topic: &str) -> anyhow::Result<Value> {
        Ok(self.api.get(&format!("topics/{topic}/groups/{GROUP}")).await?.ok()?)
    }

    /// The number of messages in a topic.
    pub(crate) async fn stored(&self, topic: &str) -> anyhow::Result<usize> {
        let path = format!("topics/{topic}/messages?limit=1000&values=false");
        let page = self.api.get(&path).await?.ok()?;
        Ok(page["messages"].as_array().context("a list")?.len())
    }

    /// The reasons of the dead letters of `orders`.
    pub(crate) async fn dead(&self) -> anyhow::Result<Vec<String>> {
        let page = self.api.get("dlq/orders").await?.ok()?;
        let letters = page["dead_letters"].as_array().context("a list")?.iter();
        let reason = |letter: &Value| {
            let dlq = &letter["dlq"];
            dlq["last_error"].as_str().unwrap_or_default().to_owned()
        };
        Ok(letters.map(reason).collect())
    }

    /// The state of an effect of `orders`.
    pub(crate) async fn effect(&self, key: &str) -> anyhow::Result<Value> {
        let path = format!("effects?scope=effect/orders/{GROUP}&key={key}");
        let answer = self.api.get(&path).await?.ok()?;
        Ok(if answer["state"].is_null() { answer["effects"][0].clone() } else { answer })
    }
}
