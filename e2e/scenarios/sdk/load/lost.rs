//! A lease that is taken away: how long the handler goes on after the server has said so.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{Load, Place, quantile};
use crate::agent::lock;

const LEASE_MS: u64 = 1_500;
const AFTER_MAX: Duration = Duration::from_millis(100);

pub(super) async fn run(of: &Load<'_>, count: usize) -> anyhow::Result<String> {
    let waits = json!({ "attempt": 1, "await_go": 1 });
    let blocks = json!({ "attempt": 1, "block_until_cancelled_ms": 20_000 });
    let mut shown = Vec::new();
    for (name, step) in [("waiting", waits), ("blocking", blocks)] {
        let mut after = of_kind(of, step, count).await?;
        let worst = quantile(&mut after, 1.0);
        ensure!(worst <= AFTER_MAX, "a {name} handler ended after {worst:?}, not {AFTER_MAX:?}");
        shown.push(format!("{name} {} runs, worst {} ms", after.len(), worst.as_millis()));
    }
    Ok(format!("lost: handlers end after {}", shown.join("; ")))
}

/// The time from the rejected renewal to the end of each handler.
async fn of_kind(of: &Load<'_>, step: Value, count: usize) -> anyhow::Result<Vec<Duration>> {
    let mut place = Place::start(of, false).await?;
    let settings = json!({ "lease_ms": LEASE_MS, "concurrency": 1 });
    let agent = place.agent(json!([step]), settings).await?;
    let mut after = Vec::new();
    for _ in 0..count {
        let from = place.now();
        place.produce(1).await?;
        place.until("started", 1, from).await?;
        let advanced = Instant::now();
        place.server.advance(LEASE_MS + 500).await?;
        place.until("ended", 2, from).await?;
        place.until_settled().await?;
        let events = lock(&place.events);
        let is_first = |event: &Value| event["event"] == "ended" && event["attempt"] == 1;
        let ended = events.iter().skip(from).find(|(_, event)| is_first(event));
        let (ended, event) = ended.context("the first handler has ended")?;
        ensure!(event["how"] == "cancelled", "the handler ended with {event}");
        let told = place.proxy.rejected_since(advanced).context("a renewal was rejected")?;
        after.push(ended.saturating_duration_since(told));
    }
    drop(agent);
    Ok(after)
}
