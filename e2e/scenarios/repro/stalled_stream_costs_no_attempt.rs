//! A message assigned to an HTTP/2 stream that is never read uses no attempt, because it was never
//! sent.

use std::time::Duration;

use driftq_e2e::http2::Stalled;
use serde_json::{Value, json};

use crate::scene::{Fixture, Seen};

const MESSAGES: usize = 20;
/// Long enough for many leases and all attempts of a message.
const STALLED_FOR: Duration = Duration::from_secs(6);

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let scene = Fixture::start(driftq).await?;
    let policy = json!({ "max_attempts": 3, "backoff_ms": 10, "max_backoff_ms": 20 });
    scene.topic("t", 1, json!({ "lease_ms": 500, "retry_policy": policy })).await?;
    let path = "/v1/consume?topic=t&group=g&owner=stuck&credit=100";
    let stalled = Stalled::get(scene.server.address, path, 0).await?;
    for number in 0..MESSAGES {
        scene.produce("t", &format!("m{number}")).await?;
    }
    tokio::time::sleep(STALLED_FOR).await;
    let dead = scene.api.get("topics/t").await?.ok()?["dead_letters"].clone();
    let shown = stalled.body_bytes();
    anyhow::ensure!(shown == 0, "the stream sent {shown} bytes without a window");
    drop(stalled);
    if dead != 0 {
        return Ok(Seen::Broken(format!("{dead} of {MESSAGES} dead-lettered with 0 bytes sent")));
    }
    let mut delivered: Vec<Value> = Vec::new();
    while delivered.len() < MESSAGES {
        let more = scene.receive("t", MESSAGES, 5_000).await?;
        if more.is_empty() {
            return Ok(Seen::Broken(format!("{} of {MESSAGES} delivered", delivered.len())));
        }
        delivered.extend(more);
    }
    let counted = delivered.iter().filter(|delivery| delivery["attempts"] != 1).count();
    Ok(Seen::kept_if(counted == 0, || format!("{counted} counted attempts that were never sent")))
}
