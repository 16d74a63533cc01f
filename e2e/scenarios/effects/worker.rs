//! A worker process: receives an order, charges it, and reports the outcome. It may be killed at
//! any line.

use std::io::Read as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::provider::{Charge, TIMEOUT};

pub(crate) const TOPIC: &str = "orders";
pub(crate) const GROUP: &str = "biller";
/// Longer than the provider timeout, so that a worker without an answer can still report that.
pub(crate) const LEASE_MS: u64 = 4_000;
/// Maximum delay of a release when the effect is in progress elsewhere or parked.
const LATER_MS_MAX: u64 = 500;
/// Attempts to reach the broker, 20 ms apart.
const ASKED_MAX: u32 = 3_000;

/// The arguments of a worker.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) broker: String,
    pub(crate) provider: String,
    /// The policy for doubt. `None`: the worker does not use the ledger.
    pub(crate) on_doubt: Option<String>,
}

/// Runs until it is killed or its parent process has exited.
pub(crate) async fn work(job: Job) -> anyhow::Result<()> {
    std::thread::spawn(|| {
        let _gone = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let worker = Worker { job, http: reqwest::Client::new(), process: std::process::id() };
    loop {
        let wanted = json!({ "topic": TOPIC, "group": GROUP, "owner": format!("worker-{}", worker.process),
                             "max": 1, "wait_ms": 1_000 });
        let (_, got) = worker.ask("receive", &wanted).await?;
        for message in got["messages"].as_array().into_iter().flatten() {
            let order = message["value"].as_str().and_then(|order| order.parse().ok());
            let order = order.context("a message is the number of its order")?;
            let lease = message["lease"]["token"].as_str().context("a lease has a token")?;
            match &worker.job.on_doubt {
                Some(on_doubt) => worker.handle(order, lease, on_doubt).await?,
                None => worker.handle_without_ledger(order, lease).await?,
            }
        }
    }
}

struct Worker {
    job: Job,
    http: reqwest::Client,
    process: u32,
}

impl Worker {
    async fn handle(&self, order: usize, lease: &str, on_doubt: &str) -> anyhow::Result<()> {
        let begin = json!({ "lease_token": lease, "on_doubt": on_doubt, "request": order.to_string(),
                            "nonce": fastrand::u64(..).to_string() });
        let (status, begun) = self.ask("effects/begin", &begin).await?;
        let done = match (status, begun["decision"].as_str(), begun["error"].as_str()) {
            (StatusCode::OK, Some("EXECUTE"), _) => {
                let key = begun["downstream_key"].as_str().context("a downstream key")?;
                let end = match self.charge(order, key).await? {
                    Some(name) => json!({ "token": lease, "effects": [
                        { "token": begun["token"], "status": "SUCCEEDED", "result": { "charge": name } }] }),
                    None => {
                        json!({ "token": lease, "settle": "nack", "reason": "no answer", "effects": [
                        { "token": begun["token"], "status": "UNKNOWN", "error": "no answer" }] })
                    }
                };
                self.ask("commit", &end).await?
            }
            (StatusCode::OK, Some("REPLAY"), _) => {
                self.ask("ack", &json!({ "token": lease })).await?
            }
            (StatusCode::CONFLICT, _, Some("IN_PROGRESS" | "IN_DOUBT")) => {
                let later = begun["retry_after_ms"].as_u64().unwrap_or(0).min(LATER_MS_MAX);
                let release = json!({ "token": lease, "release": true, "delay_ms": later });
                self.ask("nack", &release).await?
            }
            _ => (status, begun),
        };
        accepted_or_stale(&done)
    }

    async fn handle_without_ledger(&self, order: usize, lease: &str) -> anyhow::Result<()> {
        let verb = match self.charge(order, &format!("order-{order}")).await? {
            Some(_) => "ack",
            None => "nack",
        };
        accepted_or_stale(&self.ask(verb, &json!({ "token": lease })).await?)
    }

    /// Returns the name of the charge, or `None` if the provider did not answer in time.
    async fn charge(&self, order: usize, key: &str) -> anyhow::Result<Option<String>> {
        let charge = Charge { order, key: key.to_owned(), worker: self.process };
        let ask = |path: &str| {
            let url = format!("{}/{path}", self.job.provider);
            self.http.post(url).json(&charge).timeout(TIMEOUT).send()
        };
        let name: String = match ask("charge").await {
            Ok(answer) => answer.error_for_status()?.json().await?,
            Err(error) if error.is_timeout() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The provider may kill the worker here, between receiving the answer and reporting it.
        ask("told").await?.error_for_status()?;
        Ok(Some(name))
    }

    /// Repeats the request until it is answered. Every request here is safe to repeat.
    async fn ask(&self, path: &str, asked: &Value) -> anyhow::Result<(StatusCode, Value)> {
        for _ in 0..ASKED_MAX {
            let request = self.http.post(format!("{}/{path}", self.job.broker)).json(asked);
            if let Ok(answer) = request.timeout(TIMEOUT * 2).send().await
                && !answer.status().is_server_error()
            {
                let status = answer.status();
                if let Ok(body) = answer.bytes().await {
                    return Ok((status, serde_json::from_slice(&body).unwrap_or_default()));
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("the broker does not answer")
    }
}

/// Accepts a stale lease or fence: another worker may hold the message by now and will finish it.
/// Any other rejection is a bug in this program.
fn accepted_or_stale((status, answer): &(StatusCode, Value)) -> anyhow::Result<()> {
    let is_stale = matches!(answer["error"].as_str(), Some("STALE_LEASE" | "STALE_FENCE"));
    if status.is_success() || is_stale { Ok(()) } else { bail!("rejected with {status}: {answer}") }
}
