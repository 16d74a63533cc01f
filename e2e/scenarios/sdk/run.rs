//! Runs one scenario.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use driftq_api::Time;
use rustix::process::Signal;
use serde_json::json;

use crate::agent::{Agent, Events, lock};
use crate::expect;
use crate::provider::Provider;
use crate::proxy::Proxy;
use crate::scenario::{Action, Scenario};
use crate::server::{GROUP, Server};

const INTERVAL: Duration = Duration::from_millis(5);
/// Longer than the lease of a worker that does not set one.
const LEASE_MS: u64 = 31_000;
/// How long a worker without messages may take to stop.
const STOP_TIME: Duration = Duration::from_secs(5);

/// The parts of a running scenario.
pub(crate) struct Run<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) server: Server,
    pub(crate) proxy: Proxy,
    pub(crate) provider: Provider,
    pub(crate) events: Events,
    command: &'a [String],
    log: PathBuf,
    agent: Option<Agent>,
    began: Instant,
}

/// Runs a scenario. The error says what did not hold.
pub(crate) async fn run(
    scenario: &Scenario,
    binary: &str,
    command: &[String],
    log: PathBuf,
) -> anyhow::Result<()> {
    let server = Server::start(binary, scenario.durable).await?;
    server.create("orders", scenario.retry.as_ref()).await?;
    let others = scenario.expect.stored.keys().chain(scenario.also.keys());
    for topic in others.filter(|topic| *topic != "orders") {
        // A topic may be named twice.
        let _is_there = server.create(topic, None).await;
    }
    for given in &scenario.given {
        let value = if given.is_string() { json!({ "id": given }) } else { given.clone() };
        let message = json!({ "topic": "orders", "value": value.to_string() });
        let mut request = server.api.request(reqwest::Method::POST, "produce").json(&message);
        if let Some(trace) = &scenario.trace {
            request = request.header("traceparent", trace);
        }
        request.send().await?.error_for_status()?;
    }
    let proxy = Proxy::start(server.api.url(), scenario.faults.clone()).await?;
    let provider = Provider::start(scenario.provider.clone()).await?;
    let events = Events::default();
    let began = Instant::now();
    let mut run =
        Run { scenario, server, proxy, provider, events, command, log, agent: None, began };
    run.start().await?;
    let limit = Duration::from_millis(scenario.expect.within_ms);
    let acted = tokio::time::timeout(limit, run.act()).await;
    acted.map_err(|_| anyhow::anyhow!("not in {limit:?}"))??;
    run.stop().await?;
    expect::check(&run).await
}

impl Run<'_> {
    async fn act(&mut self) -> anyhow::Result<()> {
        let scenario = self.scenario;
        for action in &scenario.run {
            match action {
                Action::Settled => self.settled().await?,
                Action::Until(events) => {
                    for (name, count) in events {
                        while self.count(name) < *count {
                            tokio::time::sleep(INTERVAL).await;
                        }
                    }
                }
                Action::Acts(count) => {
                    while self.provider.acts() < *count {
                        tokio::time::sleep(INTERVAL).await;
                    }
                }
                Action::Seen(routes) => {
                    for (route, count) in routes {
                        while self.proxy.seen(route) < *count {
                            tokio::time::sleep(INTERVAL).await;
                        }
                    }
                }
                Action::Leased(count) => {
                    while self.server.group("orders").await?["leased"] != *count {
                        tokio::time::sleep(INTERVAL).await;
                    }
                }
                Action::SleepMs(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
                Action::AdvanceMs(ms) => {
                    self.server.advance(*ms).await?;
                }
                Action::Send(command) => self.agent()?.send(command).await?,
                Action::Terminate => self.agent()?.signal(Signal::TERM)?,
                Action::Exits(status) => self.exits(*status, Duration::MAX).await?,
                Action::Kill => {
                    self.agent()?.signal(Signal::KILL)?;
                    self.agent = None;
                }
                Action::Pause(true) => self.agent()?.signal(Signal::STOP)?,
                Action::Pause(false) => self.agent()?.signal(Signal::CONT)?,
                Action::Start => self.start().await?,
                Action::RestartServer => self.server.restart().await?,
            }
        }
        Ok(())
    }

    fn agent(&mut self) -> anyhow::Result<&mut Agent> {
        self.agent.as_mut().context("no agent runs")
    }

    /// How many events of this name have come.
    fn count(&self, name: &str) -> usize {
        lock(&self.events).iter().filter(|(_, event)| event["event"] == name).count()
    }

    /// Starts an agent that works as the scenario says.
    async fn start(&mut self) -> anyhow::Result<()> {
        let scenario = self.scenario;
        let urls = (&*self.proxy.url, &*self.provider.url);
        let mut agent = Agent::start(self.command, urls, &self.log, &self.events)?;
        let mut handlers = Vec::new();
        if !scenario.handler.is_empty() {
            let steps = &scenario.handler;
            handlers.push(json!({ "topic": "orders", "group": GROUP, "steps": steps }));
        }
        for (topic, steps) in &scenario.also {
            handlers.push(json!({ "topic": topic, "group": GROUP, "steps": steps }));
        }
        if !handlers.is_empty() {
            let mut work = json!({ "do": "work", "handlers": handlers });
            for (name, value) in &scenario.worker {
                work[name] = value.clone();
            }
            agent.send(&work).await?;
        }
        self.agent = Some(agent);
        Ok(())
    }

    /// Waits until every message is settled. An agent that has died is replaced, once its leases
    /// have ended.
    async fn settled(&mut self) -> anyhow::Result<()> {
        let handles_orders = (!self.scenario.handler.is_empty()).then_some("orders");
        let topics: Vec<&str> = handles_orders
            .into_iter()
            .chain(self.scenario.also.keys().map(String::as_str))
            .collect();
        // Twice, because a handler may produce to a topic that was read before.
        let mut times_settled = 0;
        while times_settled < 2 {
            if let Some(agent) = &mut self.agent
                && let Some(status) = agent.exited()?
            {
                ensure!(status.is_none(), "the agent has exited with {status:?}");
                if self.server.has_clock() {
                    self.server.advance(LEASE_MS).await?;
                }
                self.start().await?;
            }
            times_settled = if self.is_settled(&topics).await? { times_settled + 1 } else { 0 };
            tokio::time::sleep(INTERVAL).await;
        }
        Ok(())
    }

    /// Whether every message is settled. If all that are not wait for a retry, the clock is
    /// advanced to the next one.
    async fn is_settled(&self, topics: &[&str]) -> anyhow::Result<bool> {
        let (mut open, mut waiting, mut retries) = (0, 0, Vec::new());
        for topic in topics {
            let group = self.server.group(topic).await?;
            open += group["backlog"].as_u64().context("a number")?;
            waiting += group["waiting"].as_u64().context("a number")?;
            let partitions = group["partitions"].as_array().context("a list")?.iter();
            retries.extend(
                partitions.filter_map(|partition| {
                    partition["next_retry_at"].as_str()?.parse::<Time>().ok()
                }),
            );
        }
        if let Some(next) = retries.into_iter().min()
            && open == waiting
            && self.server.has_clock()
        {
            let now = self.server.advance(1).await?;
            if now < next {
                self.server.advance(next.0 - now.0).await?;
            }
        }
        Ok(open == 0)
    }

    async fn exits(&mut self, status: i32, within: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            if let Some(exited) = self.agent()?.exited()? {
                ensure!(exited == Some(status), "the agent exits with {exited:?}, not {status}");
                self.agent = None;
                return Ok(());
            }
            ensure!(began.elapsed() < within, "the agent does not stop in {within:?}");
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        if self.agent.is_none() {
            return Ok(());
        }
        if self.scenario.handler.is_empty() && self.scenario.also.is_empty() {
            // It does not work, so it has nothing to end.
            self.agent = None;
            return Ok(());
        }
        // It may have been stopped already.
        if self.agent()?.exited()?.is_none() {
            self.agent()?.signal(Signal::TERM)?;
        }
        self.exits(self.scenario.expect.exit, STOP_TIME).await
    }

    /// How long the scenario has taken.
    pub(crate) fn took(&self) -> Duration {
        self.began.elapsed()
    }

    /// The number of times that each message was started, by its id, with its last attempts.
    pub(crate) fn started(&self) -> anyhow::Result<BTreeMap<String, (usize, u64)>> {
        let mut started: BTreeMap<String, (usize, u64)> = BTreeMap::new();
        for (_, event) in lock(&self.events).iter() {
            if event["event"] == "started" && event["topic"] == "orders" {
                let Some(id) = event["id"].as_str() else { bail!("no id in {event}") };
                let of = started.entry(id.to_owned()).or_default();
                of.0 += 1;
                of.1 = event["attempts"].as_u64().context("a number")?;
            }
        }
        Ok(started)
    }
}
