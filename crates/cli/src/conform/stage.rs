//! The stage of one check: a server in this process with a clock that the check advances, and the
//! worker that runs against it.

use std::time::{Duration, Instant};

use driftq_api::Time;
use driftq_client::{Client, SendError};
use driftq_server::Server;
use driftq_server::config::{Config, EngineConfig};
use reqwest::Method;
use serde_json::{Value, json};

use super::gate::{Gate, Resume};
use super::http::Call;
use super::provider::Provider;
use super::proxy::Proxy;
use super::worker::{Output, Worker};

pub(super) const TOPIC: &str = "orders";
pub(super) const GROUP: &str = "biller";
/// The owner of deliveries that the check takes.
const OWNER: &str = "driftq-conform";
/// How long the first receive of a worker may take: some have to be compiled first.
const START_TIME: Duration = Duration::from_secs(60);
/// How long every other step of the worker may take.
pub(super) const STEP_TIME: Duration = Duration::from_secs(20);
/// How long a message may stay leased before its lease is ended by the clock.
const LEASED_TIME: Duration = Duration::from_secs(4);
const INTERVAL: Duration = Duration::from_millis(20);
/// The name of the group in paths.
const GROUP_PATH: &str = "topics/orders/groups/biller";

/// Why a check ended early.
pub(super) enum End {
    /// The worker failed the check, as this observation shows.
    Failed(String),
    /// The fault cannot be placed with this worker, for this reason.
    NotRun(String),
    /// The check itself failed.
    Broken(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for End {
    fn from(error: E) -> End {
        End::Broken(error.into())
    }
}

pub(super) fn failed<T>(observed: impl Into<String>) -> Result<T, End> {
    Err(End::Failed(observed.into()))
}

pub(super) fn not_run<T>(why: impl Into<String>) -> Result<T, End> {
    Err(End::NotRun(why.into()))
}

/// How the processing of all messages ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Settled,
    /// Every open message waits for a person, because the worker chose the policy `park`.
    Parked,
}

/// What all checks share.
pub(super) struct Bench {
    pub(super) proxy: Proxy,
    pub(super) provider: Provider,
    /// The command that starts a worker. Without one, the worker is already running.
    pub(super) command: Option<Vec<String>>,
}

pub(super) struct Stage<'a> {
    pub(super) proxy: &'a Proxy,
    pub(super) provider: &'a Provider,
    pub(super) output: Output,
    command: Option<&'a [String]>,
    server: Server,
    client: Client,
    worker: Option<Worker>,
}

impl<'a> Stage<'a> {
    pub(super) async fn open(bench: &'a Bench, settings: Value) -> anyhow::Result<Stage<'a>> {
        let listen = ([127, 0, 0, 1], 0).into();
        let config = Config { listen, test_clock: true, ..Config::local(EngineConfig::Memory) };
        let server = Server::start(config).await?;
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
        let client = Client::new(http, &server.url());
        client.post("topics", &json!({ "name": TOPIC, "settings": settings })).await?.ok()?;
        let group = client.request(Method::PUT, GROUP_PATH).json(&json!({})).send().await?;
        group.error_for_status()?;
        bench.provider.reset();
        bench.proxy.reset(&server.url());
        let (proxy, provider) = (&bench.proxy, &bench.provider);
        let command = bench.command.as_deref();
        let output = Output::default();
        Ok(Stage { proxy, provider, output, command, server, client, worker: None })
    }

    /// Stops the worker and the server.
    pub(super) async fn close(mut self) -> anyhow::Result<()> {
        self.kill().await?;
        // Its connections would otherwise be waited for.
        self.proxy.reset("http://127.0.0.1:9");
        self.server.stop().await;
        Ok(())
    }

    /// Starts the worker and waits for its first receive.
    pub(super) async fn start(&mut self) -> Result<(), End> {
        let before = self.proxy.receives();
        if let Some(command) = self.command {
            let variables = [
                ("DRIFTQ_URL", &*self.proxy.url),
                ("PROVIDER_URL", &*self.provider.url),
                ("DRIFTQ_TOPIC", TOPIC),
                ("DRIFTQ_GROUP", GROUP),
            ];
            self.worker = Some(Worker::start(command, &variables, &self.output)?);
        }
        let began = Instant::now();
        while self.proxy.receives() == before {
            let exited = self.has_exited()?;
            if exited || began.elapsed() > START_TIME {
                let why = if exited { "exited before" } else { "is still without" };
                let output = self.output.lines().join("\n");
                let why = anyhow::anyhow!("the worker {why} its first receive\n{output}");
                return Err(End::Broken(why));
            }
            tokio::time::sleep(INTERVAL).await;
        }
        Ok(())
    }

    /// Kills the worker with SIGKILL.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        match self.worker.take() {
            Some(worker) => worker.kill().await,
            None => Ok(()),
        }
    }

    pub(super) fn terminate(&self) {
        if let Some(worker) = &self.worker {
            worker.terminate();
        }
    }

    /// Whether the worker that the check started has exited.
    pub(super) fn has_exited(&mut self) -> Result<bool, End> {
        let Some(worker) = &mut self.worker else { return Ok(false) };
        Ok(worker.exited()?.is_some())
    }

    /// Fails if the worker has exited.
    pub(super) fn check_is_running(&mut self) -> Result<(), End> {
        let Some(worker) = &mut self.worker else { return Ok(()) };
        match worker.exited()? {
            Some(status) => failed(format!("the worker exited ({status})")),
            None => Ok(()),
        }
    }

    /// Waits until a request arrives at the gate.
    pub(super) async fn arrival(&mut self, gate: &mut Gate, what: &str) -> Result<Call, End> {
        Ok(self.first_arrival(std::slice::from_mut(gate), what).await?.1)
    }

    /// Waits until a request arrives at one of the gates. Returns its index.
    pub(super) async fn first_arrival(
        &mut self,
        gates: &mut [Gate],
        what: &str,
    ) -> Result<(usize, Call), End> {
        let began = Instant::now();
        loop {
            for (at, gate) in gates.iter_mut().enumerate() {
                if let Ok(call) = gate.arrived.try_recv() {
                    return Ok((at, call));
                }
            }
            self.check_is_running()?;
            if began.elapsed() > STEP_TIME {
                return failed(format!("the worker did not send {what} within {STEP_TIME:?}"));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, SendError> {
        self.client.get(path).await?.ok()
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, SendError> {
        self.client.post(path, body).await?.ok()
    }

    /// Produces an order and returns the id of its message.
    pub(super) async fn produce(&self, order: &str) -> Result<String, End> {
        let value = json!({ "id": order, "cents": 1_200 }).to_string();
        let receipt = self.post("produce", &json!({ "topic": TOPIC, "value": value })).await?;
        Ok(receipt["id"].as_str().unwrap_or_default().to_owned())
    }

    pub(super) async fn group(&self) -> Result<Value, SendError> {
        self.get(GROUP_PATH).await
    }

    pub(super) async fn change_group(&self, verb: &str, body: &Value) -> Result<Value, SendError> {
        self.post(&format!("{GROUP_PATH}/{verb}"), body).await
    }

    pub(super) async fn change_topic(&self, settings: &Value) -> Result<(), End> {
        let request = self.client.request(Method::PATCH, "topics/orders");
        let response = request.json(&json!({ "settings": settings })).send().await?;
        response.error_for_status()?;
        Ok(())
    }

    pub(super) async fn is_settled(&self) -> Result<bool, End> {
        Ok(self.group().await?["backlog"] == 0)
    }

    /// Checks that the message waits for its charge, so that there is something to lose.
    pub(super) async fn require_unsettled(&self) -> Result<(), End> {
        if self.is_settled().await? {
            return not_run("the message was settled before its charge; see crash-before-effect");
        }
        Ok(())
    }

    pub(super) async fn dead_letters(&self) -> Result<Vec<Value>, End> {
        let mut page = self.get("dlq/orders").await?;
        Ok(page["dead_letters"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Advances the clock and returns the time.
    async fn advance(&self, ms: u64) -> Result<Time, End> {
        let now = self.post("dev/clock", &json!({ "advance_ms": ms })).await?;
        let now = now["now"].as_str().and_then(|now| now.parse().ok());
        now.ok_or_else(|| End::Broken(anyhow::anyhow!("the server has no test clock")))
    }

    /// Advances the clock until every lease has expired, and every retry is due.
    pub(super) async fn expire_leases(&self) -> Result<(), End> {
        let group = self.group().await?;
        let now = self.advance(1).await?;
        let consumers = group["consumers"].as_array().into_iter().flatten();
        let ends = consumers.filter_map(|of| of["next_expiry_at"].as_str()?.parse::<Time>().ok());
        if let Some(end) = ends.max() {
            self.advance(end.0.saturating_sub(now.0) + 1).await?;
        }
        self.advance(1_000).await.map(drop)
    }

    /// Waits until every message is settled, or waits for a person. Retries need no waiting, because
    /// the clock is advanced to them.
    pub(super) async fn rest(&mut self) -> Result<Rest, End> {
        let began = Instant::now();
        let mut leased_since: Option<Instant> = None;
        loop {
            let group = self.group().await?;
            if group["backlog"] == 0 {
                return Ok(Rest::Settled);
            }
            self.check_is_running()?;
            if began.elapsed() > STEP_TIME {
                let unsettled = &group["backlog"];
                return failed(format!(
                    "messages still unsettled after {STEP_TIME:?}: {unsettled}"
                ));
            }
            if group["leased"] != 0 {
                if leased_since.get_or_insert_with(Instant::now).elapsed() > LEASED_TIME {
                    self.expire_leases().await?;
                    leased_since = None;
                }
            } else if group["waiting"] == group["backlog"] {
                leased_since = None;
                let parked = self.get("effects?state=PARKED").await?;
                if parked["effects"].as_array().is_some_and(|list| !list.is_empty()) {
                    return Ok(Rest::Parked);
                }
                self.advance(500).await?;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Waits until the effects that the worker began have an outcome. Returns the first that has none.
    pub(super) async fn unfinished_effect(&mut self) -> Result<Option<Value>, End> {
        let began = Instant::now();
        loop {
            let mut unfinished = None;
            for begun in self.proxy.begun() {
                let (scope, key) = begun.name;
                let path = reqwest::Url::parse_with_params(
                    "http://localhost/effects",
                    [("scope", scope), ("key", key)],
                )?;
                let effect = self.get(&format!("effects?{}", path.query().unwrap_or(""))).await?;
                let is_final = effect["state"] == "SUCCEEDED" || effect["state"] == "FAILED_FINAL";
                unfinished = unfinished.or((!is_final).then_some(effect));
            }
            if unfinished.is_none() || began.elapsed() > LEASED_TIME {
                return Ok(unfinished);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Acts as another worker: takes the message, executes its effect under the name that this worker
    /// uses for it, and acks.
    pub(super) async fn take_over(&self, order: &str, begin: &Value) -> Result<(), End> {
        self.proxy.hold_receives(true);
        let taken = self.process_as_another(order, begin).await;
        self.proxy.hold_receives(false);
        taken
    }

    async fn process_as_another(&self, order: &str, begin: &Value) -> Result<(), End> {
        let began = Instant::now();
        let receive = json!({ "topic": TOPIC, "group": GROUP, "owner": OWNER, "wait_ms": 200 });
        let token = loop {
            self.expire_leases().await?;
            let batch = self.post("receive", &receive).await?;
            if let Some(token) = batch["messages"][0]["lease"]["token"].as_str() {
                break token.to_owned();
            }
            if began.elapsed() > STEP_TIME {
                return not_run("the worker received the next attempt itself");
            }
        };
        let mut begin = begin.clone();
        if let Some(fields) = begin.as_object_mut() {
            // They belong to the worker and to its request.
            fields.remove("nonce");
            fields.remove("owner");
            if let Some(lease_token) = fields.get_mut("lease_token") {
                *lease_token = token.clone().into();
            }
        }
        let reply = self.client.post("effects/begin", &begin).await?;
        if reply.status == 409 {
            let release = json!({ "token": token, "release": true });
            self.post("nack", &release).await?;
            return not_run("the effect waits for a person, so no second attempt executes it");
        }
        let begun = reply.ok()?;
        if let Some(effect_token) = begun["token"].as_str() {
            if self.provider.charges(order) == 0 {
                self.provider.charge(order, begun["downstream_key"].as_str().map(str::to_owned));
            }
            let finish = json!({ "token": effect_token, "status": "SUCCEEDED" });
            self.post("effects/finish", &finish).await?;
        }
        self.post("ack", &json!({ "token": token })).await?;
        Ok(())
    }

    /// Checks that the order was charged once. A charge that follows the ack is waited for.
    pub(super) async fn check_charged_once(&self, order: &str) -> Result<(), End> {
        let began = Instant::now();
        while self.provider.charges(order) == 0 && began.elapsed() < LEASED_TIME {
            tokio::time::sleep(INTERVAL).await;
        }
        match self.provider.charges(order) {
            0 => failed(format!("{order} is settled and was never charged")),
            1 => Ok(()),
            charges => failed(format!("{order} was charged {charges} times")),
        }
    }

    /// Checks that the worker charges another order.
    pub(super) async fn process_next(&mut self, order: &str) -> Result<(), End> {
        let next = format!("{order}-next");
        self.produce(&next).await?;
        let began = Instant::now();
        while self.provider.charges(&next) == 0 {
            self.rest().await?;
            if began.elapsed() > STEP_TIME {
                return failed("the worker did not charge the next order");
            }
            tokio::time::sleep(INTERVAL).await;
        }
        self.rest().await.map(drop)
    }

    /// Checks that the worker goes on with another order, and then that the first one was charged once.
    pub(super) async fn check_goes_on(&mut self, order: &str, rest: Rest) -> Result<(), End> {
        self.process_next(order).await?;
        match (rest, self.provider.charges(order)) {
            // The person who resolves the effect decides about it.
            (Rest::Parked, 0) => Ok(()),
            _ => self.check_charged_once(order).await,
        }
    }

    /// Lets a request continue that the check held.
    pub(super) fn pass(gate: Gate) {
        gate.resume(Resume::Pass);
    }
}
