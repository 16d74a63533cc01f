//! One run: a broker, a fleet and a provider, a thousand orders, and what is known of each in the end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use driftq_e2e::broker::Broker;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::fleet::{keep_broker, keep_worker};
use crate::operator::{self, Listed};
use crate::provider::Provider;
use crate::queue::Queue;
use crate::scenario::{ORDERS, SCENARIOS, Scenario};
use crate::worker::{GROUP, Job, LEASE_MS, TOPIC};

const WORKERS: usize = 12;
/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(240);

/// Who charges, and how doubt is dealt with.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) deduplicates: bool,
    /// `None`: the ledger is off.
    pub(crate) on_doubt: Option<&'static str>,
}

/// How it ended.
pub(crate) struct Outcome {
    pub(crate) charges: usize,
    /// Orders charged more than once, and those of them that nobody was told of.
    pub(crate) doubled: usize,
    pub(crate) unlisted: usize,
    /// Orders that were in doubt, and those of them that a person ended.
    pub(crate) in_doubt: usize,
    pub(crate) resolved: usize,
    pub(crate) workers_killed: usize,
    pub(crate) broker_killed: usize,
}

pub(crate) async fn run(binary: &str, directory: &Path, case: &Case) -> anyhow::Result<Outcome> {
    std::fs::create_dir(directory)?;
    let broker = Broker::start(binary, &directory.join("data"), None).await?;
    let queue = Queue { http: reqwest::Client::new(), url: broker.url() };
    let (killer, asked) = mpsc::channel(1);
    let (provider, url) =
        Provider::open(&directory.join("charges"), case.deduplicates, killer).await?;
    produce(&queue).await?;
    let on_doubt = case.on_doubt.map(str::to_owned);
    let job = Job { broker: broker.url(), provider: url, on_doubt };
    let (workers_killed, broker_killed) = (Arc::<AtomicUsize>::default(), Arc::default());
    let listed = Listed::default();
    // None of these ends but by a failure; dropped, they end what they started.
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
            bail!("something ended that goes on for ever");
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
    ensure!(charged.len() == ORDERS, "{} of {ORDERS} orders are charged", charged.len());
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

async fn produce(queue: &Queue) -> anyhow::Result<()> {
    let retry = json!({ "max_attempts": 20, "backoff_ms": 100, "max_backoff_ms": 500 });
    let settings = json!({ "lease_ms": LEASE_MS, "retry_policy": retry });
    queue.post("topics", &json!({ "name": TOPIC, "partitions": 4, "settings": settings })).await?;
    let path = format!("{}/topics/{TOPIC}/groups/{GROUP}", queue.url);
    queue.http.put(path).send().await?.error_for_status()?;
    let orders = (0..ORDERS).map(|order| {
        json!({ "topic": TOPIC, "value": order.to_string(), "envelope": { "idempotency_key": key_of(order) } })
    });
    let messages: Vec<Value> = orders.collect();
    for messages in messages.chunks(100) {
        let stored = queue.post("produce/batch", &json!({ "messages": messages })).await?;
        ensure!(stored["refused"] == 0, "an order is refused: {stored}");
    }
    Ok(())
}

/// Waits until every order is settled, and none is a dead letter.
async fn settled(queue: &Queue) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut seen = Value::Null;
    while seen["backlog"] != 0 {
        ensure!(began.elapsed() < PATIENCE, "it does not end: {seen}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        // The broker may be dead just now.
        if let Ok(group) = queue.get(&format!("topics/{TOPIC}/groups/{GROUP}")).await {
            seen = group;
        }
    }
    let topic = queue.get(&format!("topics/{TOPIC}")).await?;
    ensure!(topic["dead_letters"] == 0, "there are dead letters");
    Ok(())
}

/// What the ledger says of an order, which must be that it happened.
async fn record(queue: &Queue, order: usize) -> anyhow::Result<Value> {
    let path = format!("effects?scope=effect/{TOPIC}/{GROUP}&key={}", key_of(order));
    let record = queue.get(&path).await?;
    ensure!(record["state"] == "SUCCEEDED", "order {order} is settled and its effect is {record}");
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
    ensure!(killed == workers, "{killed} workers died of {workers} that were to");
    let (killed, broker) = (outcome.broker_killed, met.get(&Scenario::BrokerKilled));
    ensure!(Some(&killed) == broker, "the broker was killed {killed} times");
    Ok(())
}
