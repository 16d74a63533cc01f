//! Complete message lifecycles over HTTP: workers continuously produce, receive and settle messages
//! in batches.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::wire::{Wire, post};

const TOPIC: &str = "life";
/// Partitions of the topic, where their number does not matter.
pub(crate) const PARTITIONS: u32 = 8;
/// Messages per request.
const BATCH: usize = 500;
const VALUE_BYTES: usize = 100;
/// The minimum, so that keys expire within the run.
const TTL_MS: u64 = 60_000;

/// Running workers.
pub(crate) struct Life {
    tally: Arc<Tally>,
    workers: Vec<JoinHandle<anyhow::Result<()>>>,
}

/// The keys of the messages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keys {
    Many,
    None,
}

#[derive(Default)]
struct Tally {
    settled: AtomicU64,
    /// The latency of each produce since the last window.
    took: Mutex<Vec<Duration>>,
    is_over: AtomicBool,
}

/// The result of a window.
pub(crate) struct Window {
    pub(crate) per_second: f64,
    pub(crate) p99: Duration,
}

/// Creates the topic. Settled messages are deleted at once.
pub(crate) async fn create(address: SocketAddr, partitions: u32) -> anyhow::Result<()> {
    let settings = json!({
        "retention_ms": 0, "dedupe_ttl_ms": TTL_MS, "effect_ttl_ms": TTL_MS,
        "max_in_flight": 100_000, "max_open": 100_000,
    });
    let topic = json!({ "name": TOPIC, "partitions": partitions, "settings": settings });
    Wire::connect(address).await?.json(&post("/v1/topics", &topic)).await?;
    Ok(())
}

impl Life {
    /// Starts workers, spread over the servers. Every message has an idempotency key.
    pub(crate) async fn start(
        addresses: &[SocketAddr],
        workers: usize,
        keys: Keys,
    ) -> anyhow::Result<Life> {
        let tally = Arc::new(Tally::default());
        let run = fastrand::u64(..);
        let mut tasks = Vec::new();
        for (worker, address) in (0..workers).zip(addresses.iter().cycle()) {
            let wire = Wire::connect(*address).await?;
            let name = format!("{run:x}-{worker}");
            tasks.push(tokio::spawn(work(wire, name, keys, tally.clone())));
        }
        Ok(Life { tally, workers: tasks })
    }

    pub(crate) fn settled(&self) -> u64 {
        self.tally.settled.load(Ordering::Relaxed)
    }

    /// Measures for `length` from now on.
    pub(crate) async fn window(&self, length: Duration) -> anyhow::Result<Window> {
        let taken = || std::mem::take(&mut *self.tally.took.lock().expect("never poisoned"));
        drop(taken());
        let (settled, began) = (self.settled(), Instant::now());
        self.go_on(length).await?;
        let per_second = (self.settled() - settled) as f64 / began.elapsed().as_secs_f64();
        let mut took = taken();
        took.sort_unstable();
        let p99 = took.get(took.len() * 99 / 100).copied().context("nothing was produced")?;
        Ok(Window { per_second, p99 })
    }

    /// Lets the workers run for `length`. Fails if one has ended.
    pub(crate) async fn go_on(&self, length: Duration) -> anyhow::Result<()> {
        tokio::time::sleep(length).await;
        anyhow::ensure!(!self.workers.iter().any(JoinHandle::is_finished), "a worker has ended");
        Ok(())
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.tally.is_over.store(true, Ordering::Relaxed);
        for worker in self.workers {
            worker.await??;
        }
        Ok(())
    }
}

async fn work(mut wire: Wire, name: String, keys: Keys, tally: Arc<Tally>) -> anyhow::Result<()> {
    let receive =
        json!({ "topic": TOPIC, "group": "g", "owner": name, "max": BATCH, "wait_ms": 100 });
    let receive = post("/v1/receive", &receive);
    let mut number = 0_u64;
    while !tally.is_over.load(Ordering::Relaxed) {
        let messages: Vec<Value> =
            (0..BATCH).map(|at| message(&name, keys, number + at as u64)).collect();
        number += BATCH as u64;
        let asked = Instant::now();
        let made = wire.json(&post("/v1/produce/batch", &json!({ "messages": messages }))).await?;
        anyhow::ensure!(made["refused"] == 0, "rejected: {made}");
        tally.took.lock().expect("never poisoned").push(asked.elapsed());
        // Settles as many as were produced, including other workers' messages, so that no backlog
        // builds up.
        let mut settled = 0;
        while settled < BATCH {
            let got = wire.json(&receive).await?;
            let messages = got["messages"].as_array().context("messages")?;
            if messages.is_empty() {
                // Other workers have received them.
                break;
            }
            let acks: Vec<Value> = messages
                .iter()
                .map(|one| json!({ "op": "ack", "token": one["lease"]["token"] }))
                .collect();
            let done = wire.json(&post("/v1/settle", &json!({ "items": acks }))).await?;
            anyhow::ensure!(done["refused"] == 0, "rejected: {done}");
            settled += messages.len();
            tally.settled.fetch_add(messages.len() as u64, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn message(worker: &str, keys: Keys, number: u64) -> Value {
    let key = match keys {
        Keys::Many => format!("key-{}", number % 997),
        Keys::None => String::new(),
    };
    json!({
        "topic": TOPIC, "key": key, "value": "v".repeat(VALUE_BYTES),
        "envelope": { "idempotency_key": format!("{worker}-{number}") },
    })
}
