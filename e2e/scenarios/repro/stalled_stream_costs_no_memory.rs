//! The memory that an unread stream uses is bounded, however often its leases expire.

use std::time::Duration;

use driftq_e2e::http2::Stalled;
use serde_json::json;

use crate::scene::{Fixture, Seen};

const MESSAGES: usize = 10_000;
const BATCH: usize = 1_000;
/// Small, because the bookkeeping per delivery is what could grow.
const BYTES: usize = 100;
const STALLED_FOR: Duration = Duration::from_secs(15);
/// Several times the size of all messages.
const GROWTH_MAX: f64 = 30.0;

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let scene = Fixture::start(driftq).await?;
    let policy = json!({ "max_attempts": -1, "backoff_ms": 0, "max_backoff_ms": 0 });
    let settings = json!({ "lease_ms": 250, "max_in_flight": 10_000, "retry_policy": policy });
    scene.topic("t", 1, settings).await?;
    let message = json!({ "topic": "t", "value": "x".repeat(BYTES) });
    let batch = json!({ "messages": vec![message; BATCH] });
    for _ in 0..MESSAGES / BATCH {
        scene.api.post("produce/batch", &batch).await?.ok()?;
    }
    let (before, _) = scene.memory()?;
    let path = "/v1/consume?topic=t&group=g&owner=stuck&credit=10000";
    let stalled = Stalled::get(scene.server.address, path, 0).await?;
    tokio::time::sleep(STALLED_FOR).await;
    let (after, _) = scene.memory()?;
    drop(stalled);
    Ok(Seen::kept_if(after - before < GROWTH_MAX, || {
        format!("memory grew from {before:.0} to {after:.0} MB in {STALLED_FOR:?}")
    }))
}
