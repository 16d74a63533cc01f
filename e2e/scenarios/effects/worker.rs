//! A worker process on the Rust SDK: receives an order, charges it, and records the outcome. It may
//! be killed at any line.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use driftq_client::{Client, Context, EffectError, Fail, OnDoubt, Worker};
use serde::{Deserialize, Serialize};

use crate::provider::{Charge, TIMEOUT};

pub(crate) const TOPIC: &str = "orders";
pub(crate) const GROUP: &str = "biller";
/// Longer than the provider timeout, so that a worker without an answer can still report that.
pub(crate) const LEASE_MS: u64 = 4_000;

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
    let client = Client::connect(&job.broker)?;
    let cashier = Arc::new(Cashier { job, http: reqwest::Client::new() });
    let worker = Worker::new(client).concurrency(1).lease(Duration::from_millis(LEASE_MS)).handler(
        TOPIC,
        GROUP,
        move |order: usize, ctx| {
            let cashier = cashier.clone();
            async move { cashier.handle(order, &ctx).await }
        },
    );
    Ok(worker.run_until_signal().await?)
}

/// The result of the effect. The operator records it in the same form.
#[derive(Serialize, Deserialize)]
struct Charged {
    charge: String,
}

struct Cashier {
    job: Job,
    http: reqwest::Client,
}

impl Cashier {
    async fn handle(&self, order: usize, ctx: &Context) -> Result<(), Fail> {
        let key = format!("order-{order}");
        let policy = match self.job.on_doubt.as_deref() {
            Some("retry") => OnDoubt::Retry,
            Some(_) => OnDoubt::Park,
            None => {
                self.charge(order, &key).await.map_err(|_| Fail::retry("no answer"))?;
                return Ok(());
            }
        };
        let effect = ctx.effect(key).on_doubt(policy).request(order.to_string());
        let charge =
            async |e: driftq_client::Execution| self.charge(order, e.downstream_key()).await;
        let _charged: Charged = effect.finish_in_commit().run(charge).await?;
        ctx.commit().send().await
    }

    async fn charge(&self, order: usize, key: &str) -> Result<Charged, EffectError> {
        let charge = Charge { order, key: key.to_owned(), worker: std::process::id() };
        let ask = |path: &str| {
            let url = format!("{}/{path}", self.job.provider);
            self.http.post(url).json(&charge).timeout(TIMEOUT).send()
        };
        let name = EffectError::response(ask("charge").await)?.json().await?;
        // The provider may kill the worker here, between receiving the answer and reporting it.
        ask("told").await?;
        Ok(Charged { charge: name })
    }
}
