//! When a group at its limit of open messages settles some, every partition delivers again.

use serde_json::{Value, json};

use crate::scene::{Fixture, Seen};

/// The limit of a group over all partitions.
const OPEN_MAX: usize = 500_000;
const BATCH: usize = 1_000;
const WEEK_MS: u64 = 604_800_000;

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let scene = Fixture::start(driftq).await?;
    let policy = json!({ "max_attempts": -1, "backoff_ms": 1_000, "max_backoff_ms": 600_000 });
    let settings = json!({ "lease_ms": 3_600_000, "max_open": 1_000_000, "max_in_flight": 100_000, "retry_policy": policy });
    scene.topic("t", 2, settings).await?;
    let message = json!({ "topic": "t", "value": "x", "envelope": { "partition_override": 0 } });
    let batch = json!({ "messages": vec![message; BATCH] });
    for _ in 0..OPEN_MAX / BATCH {
        scene.api.post("produce/batch", &batch).await?.ok()?;
    }
    let kept = open_all(&scene).await?;
    let late = json!({ "topic": "t", "value": "late", "envelope": { "partition_override": 1 } });
    scene.api.post("produce", &late).await?.ok()?;
    let early = scene.receive("t", 1, 500).await?;
    anyhow::ensure!(early.is_empty(), "the limit is not reached: {early:?}");
    settle(&scene, &kept, json!({ "op": "ack" })).await?;
    for _ in 0..3 {
        if let Some(delivery) = scene.receive("t", 1, 3_000).await?.first() {
            return Ok(Seen::kept_if(delivery["value"] == "late", || format!("got {delivery}")));
        }
    }
    Ok(Seen::Broken(format!("three polls get nothing, although {} more may be open", kept.len())))
}

/// Receives every message and nacks it with a delay of a week. The first batch stays leased and is
/// returned.
async fn open_all(scene: &Fixture) -> anyhow::Result<Vec<Value>> {
    let (mut open, mut kept) = (0, Vec::new());
    while open < OPEN_MAX {
        let more = scene.receive("t", BATCH, 3_000).await?;
        anyhow::ensure!(!more.is_empty(), "only {open} messages were delivered");
        open += more.len();
        if kept.is_empty() {
            kept = more;
        } else {
            settle(scene, &more, json!({ "op": "nack", "delay_ms": WEEK_MS })).await?;
        }
    }
    Ok(kept)
}

async fn settle(scene: &Fixture, deliveries: &[Value], how: Value) -> anyhow::Result<()> {
    let items = deliveries.iter().map(|delivery| {
        let mut item = how.clone();
        item["token"] = delivery["lease"]["token"].clone();
        item
    });
    let items: Vec<Value> = items.collect();
    let reply = scene.api.post("settle", &json!({ "items": items })).await?.ok()?;
    anyhow::ensure!(reply["refused"] == 0, "not all were settled: {reply}");
    Ok(())
}
