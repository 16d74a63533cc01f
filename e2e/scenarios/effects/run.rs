//! One run: a broker, a fleet, a provider, a thousand orders, and the outcome of each order.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use driftq_e2e::api::{Api, Reply};
use driftq_e2e::broker::Broker;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::fleet::{keep_broker, keep_worker};
use crate::operator::{self, Listed};
use crate::provider::Provider;
use crate::scenario::{ORDERS, SCENARIOS, Scenario};
use crate::worker::{GROUP, Job, LEASE_MS, TOPIC};

const WORKERS: usize = 12;
/// How long a run may take.
const TIMEOUT: Duration = Duration::from_secs(240);

/// The provider's behaviour and the policy for doubt.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) deduplicates: bool,
    /// `None`: the ledger is off.
    pub(crate) on_doubt: Option<&'static str>,
}

/// The result of a run.
pub(crate) struct Outcome {
    pub(crate) charges: usize,
    /// Orders charged more than once, and those of them that were never reported in doubt.
    pub(crate) doubled: usize,
    pub(crate) unlisted: usize,
    /// Orders that were in doubt, and those of them that an operator resolved.
    pub(crate) in_doubt: usize,
    pub(crate) resolved: usize,
    pub(crate) workers_killed: usize,
    pub(crate) broker_killed: usize,
}

pub(crate) async fn run(binary: &str, directory: &Path, case: &Case) -> anyhow::Result<Outcome> {
    std::fs::create_dir(directory)?;
    let broker = Broker::start(binary, &directory.join("data"), None).await?;
    let queue = broker.api()?;
    let (killer, asked) = mpsc::channel(1);
    let (provider, url) =
        Provider::open(&directory.join("charges"), case.deduplicates, killer).await?;
    produce(&queue).await?;
    let on_doubt = case.on_doubt.map(str::to_owned);
    let job = Job { broker: queue.url().to_owned(), provider: url, on_doubt };
    let (workers_killed, broker_killed) = (Arc::<AtomicUsize>::default(), Arc::default());
    let listed = Listed::default();
    // These tasks end only on failure. Dropping them kills the processes they started.
    let mut kept = JoinSet::new();
    kept.spawn(keep_broker(broker, asked, Arc::clone(&broker_killed)));
    kept.spawn(operator::resolve(queue.clone(), provider.clone(), Arc::clone(&listed)));
    for _ in 0..WORKERS {
        kept.spawn(keep_worker(job.clone(), Arc::clone(&workers_killed)));
    }
    tokio::select! {
        settled = settled(&queue) => settled?,
        Some(failed) = kept.join_next() => {
            failed??;
            bail!("a background task ended");
        }
    }
    let charged = provider.truth()?;
    let mut outcome = Outcome {
        charges: charged.values().sum(),
        doubled: charged.values().filter(|times| **times > 1).count(),
        unlisted: 0,
        in_doubt: 0,
        resolved: 0,
        workers_killed: workers_killed.load(Ordering::Relaxed),
        broker_killed: broker_killed.load(Ordering::Relaxed),
    };
    ensure!(charged.len() == ORDERS, "{} of {ORDERS} orders were charged", charged.len());
    all_fates_met(&provider.met(), &outcome)?;
    let listed = listed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    for (order, times) in charged {
        let record = match case.on_doubt {
            Some(_) => record(&queue, order).await?,
            None => Value::Null,
        };
        let is_resolved = record["resolution"]["reason"].is_string();
        let was_in_doubt =
            listed.contains_key(&order) || is_resolved || record["doubt"].is_object();
        outcome.in_doubt += usize::from(was_in_doubt);
        outcome.resolved += usize::from(is_resolved || listed.get(&order) == Some(&true));
        outcome.unlisted += usize::from(times > 1 && !was_in_doubt);
    }
    Ok(outcome)
}

fn key_of(order: usize) -> String {
    format!("order-{order}")
}

async fn produce(queue: &Api) -> anyhow::Result<()> {
    let retry = json!({ "max_attempts": 20, "backoff_ms": 100, "max_backoff_ms": 500 });
    let settings = json!({ "lease_ms": LEASE_MS, "retry_policy": retry });
    queue
        .post("topics", &json!({ "name": TOPIC, "partitions": 4, "settings": settings }))
        .await
        .and_then(Reply::ok)?;
    queue.put(&format!("topics/{TOPIC}/groups/{GROUP}"), &json!({})).await?.ok()?;
    let orders = (0..ORDERS).map(|order| {
        json!({ "topic": TOPIC, "value": order.to_string(), "envelope": { "idempotency_key": key_of(order) } })
    });
    let messages: Vec<Value> = orders.collect();
    for messages in messages.chunks(100) {
        let stored = queue
            .post("produce/batch", &json!({ "messages": messages }))
            .await
            .and_then(Reply::ok)?;
        ensure!(stored["refused"] == 0, "an order was rejected: {stored}");
    }
    Ok(())
}

/// Waits until every order is settled. Fails if there are dead letters.
async fn settled(queue: &Api) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut seen = Value::Null;
    while seen["backlog"] != 0 {
        ensure!(began.elapsed() < TIMEOUT, "orders were not settled in time: {seen}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        // The broker may be down at the moment.
        if let Ok(group) =
            queue.get(&format!("topics/{TOPIC}/groups/{GROUP}")).await.and_then(Reply::ok)
        {
            seen = group;
        }
    }
    let topic = queue.get(&format!("topics/{TOPIC}")).await.and_then(Reply::ok)?;
    ensure!(topic["dead_letters"] == 0, "some orders are dead letters");
    Ok(())
}

/// Returns the ledger's record of an order, which must have succeeded.
async fn record(queue: &Api, order: usize) -> anyhow::Result<Value> {
    let path = format!("effects?scope=effect/{TOPIC}/{GROUP}&key={}", key_of(order));
    let record = queue.get(&path).await.and_then(Reply::ok)?;
    ensure!(record["state"] == "SUCCEEDED", "order {order} is settled but its effect is {record}");
    Ok(record)
}

fn all_fates_met(met: &BTreeMap<Scenario, usize>, outcome: &Outcome) -> anyhow::Result<()> {
    for (fate, orders) in SCENARIOS {
        let met = met.get(&fate).copied().unwrap_or(0);
        ensure!(met == orders, "{fate:?}: {met} of {orders}");
    }
    let workers = SCENARIOS.iter().filter(|(fate, _)| fate.kills_a_worker());
    let workers: usize = workers.map(|(_, orders)| orders).sum();
    let killed = outcome.workers_killed;
    ensure!(killed == workers, "{killed} of {workers} workers were killed");
    let (killed, broker) = (outcome.broker_killed, met.get(&Scenario::BrokerKilled));
    ensure!(Some(&killed) == broker, "the broker was killed {killed} times");
    Ok(())
}
