//! `sdk load WHAT BINARY [COUNT] -- AGENT…`: what the SDKs promise, at the size of a release.
//!
//! | WHAT | holds |
//! |---|---|
//! | `block` | handlers that block for three leases lose none, and renewals are punctual |
//! | `lost` | a lost lease ends the handler at once |
//! | `stop` | workers that are stopped under load lose nothing and leave no lease |
//! | `kill` | workers and servers that are killed charge nothing twice, and no child process is left |
//! | `idle` | a worker without messages uses little CPU and memory |

mod block;
mod idle;
mod kill;
mod lost;
mod processes;
mod stop;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use driftq_e2e::directory::Directory;
use serde_json::{Value, json};

use crate::agent::{Agent, Events, lock};
use crate::provider::Provider;
use crate::proxy::Proxy;
use crate::server::{GROUP, Server};

const INTERVAL: Duration = Duration::from_millis(5);
/// How long anything may take that should take moments.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs one of the loads. Returns its figure.
pub(crate) async fn run(
    what: &str,
    binary: &str,
    count: Option<usize>,
    agent: &[String],
) -> anyhow::Result<String> {
    let logs = Directory::make()?;
    let of = Load { binary, agent, log: logs.path().join("agent.log") };
    let ended = match what {
        "block" => block::run(&of, count.unwrap_or(50)).await,
        "lost" => lost::run(&of, count.unwrap_or(50)).await,
        "stop" => stop::run(&of, count.unwrap_or(300)).await,
        "kill" => kill::run(&of, count.unwrap_or(200)).await,
        "idle" => idle::run(&of).await,
        _ => bail!("no load {what}; use block, lost, stop, kill or idle"),
    };
    ended.inspect_err(|_| print_log(&of))
}

#[expect(clippy::print_stdout, reason = "the log of an agent explains its failure")]
fn print_log(of: &Load<'_>) {
    let log = std::fs::read_to_string(&of.log).unwrap_or_default();
    let from = log.char_indices().rev().nth(4_000).map_or(0, |(at, _)| at);
    println!("{}", &log[from..]);
}

/// What a load runs.
struct Load<'a> {
    binary: &'a str,
    agent: &'a [String],
    log: PathBuf,
}

/// A server with a provider, and the agents that work there.
struct Place<'a> {
    of: &'a Load<'a>,
    server: Server,
    proxy: Proxy,
    provider: Provider,
    events: Events,
    produced: usize,
}

impl<'a> Place<'a> {
    async fn start(of: &'a Load<'a>, is_durable: bool) -> anyhow::Result<Place<'a>> {
        let server = Server::start(of.binary, is_durable).await?;
        // Many attempts of a message are killed, and none should wait for long.
        let retry = json!({ "max_attempts": 1_000, "backoff_ms": 50, "max_backoff_ms": 200 });
        server.create("orders", Some(&retry)).await?;
        let proxy = Proxy::start(server.api.url(), Vec::new()).await?;
        let provider = Provider::start(Vec::new()).await?;
        Ok(Place { of, server, proxy, provider, events: Events::default(), produced: 0 })
    }

    /// Starts a worker of `orders`.
    async fn agent(&self, steps: Value, settings: Value) -> anyhow::Result<Agent> {
        let urls = (&*self.proxy.url, &*self.provider.url);
        let mut agent = Agent::start(self.of.agent, urls, &self.of.log, &self.events)?;
        let handler = json!({ "topic": "orders", "group": GROUP, "steps": steps });
        let mut work = json!({ "do": "work", "handlers": [handler] });
        let settings = settings.as_object().context("settings are an object")?;
        for (name, value) in settings {
            work[name] = value.clone();
        }
        agent.send(&work).await?;
        Ok(agent)
    }

    async fn produce(&mut self, count: usize) -> anyhow::Result<()> {
        let message = |number: usize| {
            let value = json!({ "id": number.to_string() }).to_string();
            let envelope = json!({ "idempotency_key": number.to_string() });
            json!({ "topic": "orders", "value": value, "envelope": envelope })
        };
        let messages: Vec<Value> = (self.produced..self.produced + count).map(message).collect();
        self.produced += count;
        let batch = json!({ "messages": messages });
        let answer = self.server.api.post("produce/batch", &batch).await?.ok()?;
        ensure!(answer["accepted"] == count, "{} of {count} produced", answer["accepted"]);
        Ok(())
    }

    /// How many events of this name have come since `from`, as an index.
    fn count(&self, name: &str, from: usize) -> usize {
        lock(&self.events).iter().skip(from).filter(|(_, event)| event["event"] == name).count()
    }

    /// The number of events so far.
    fn now(&self) -> usize {
        lock(&self.events).len()
    }

    /// Waits until `count` events of this name have come since `from`.
    async fn until(&self, name: &str, count: usize, from: usize) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.count(name, from) < count {
            ensure!(began.elapsed() < PATIENCE, "fewer than {count} events `{name}`");
            tokio::time::sleep(INTERVAL).await;
        }
        Ok(())
    }

    async fn backlog(&self) -> anyhow::Result<u64> {
        self.server.group("orders").await?["backlog"].as_u64().context("a number")
    }

    async fn until_settled(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.backlog().await? > 0 {
            ensure!(began.elapsed() < PATIENCE, "{} messages are left", self.backlog().await?);
            tokio::time::sleep(INTERVAL).await;
        }
        Ok(())
    }
}

/// Waits until an agent has exited, and returns its status.
async fn exits(agent: &mut Agent) -> anyhow::Result<Option<i32>> {
    let began = Instant::now();
    loop {
        if let Some(status) = agent.exited()? {
            return Ok(status);
        }
        ensure!(began.elapsed() < PATIENCE, "the agent does not exit");
        tokio::time::sleep(INTERVAL).await;
    }
}

/// The value below which `share` of the sorted values are.
fn quantile(values: &mut [Duration], share: f64) -> Duration {
    values.sort_unstable();
    let at = ((values.len() as f64 * share).ceil() as usize).saturating_sub(1);
    values.get(at).copied().unwrap_or_default()
}
