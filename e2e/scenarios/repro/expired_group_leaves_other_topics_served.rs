//! After a group has expired, a consumer of its topic does not block produces to other topics of
//! the shard.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::idle_group_keeps_trimmed_offsets::expire;
use crate::scene::{Fixture, Seen};

const LASTS: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let scene = expire(Fixture::start(driftq).await?).await?;
    scene.topic("other", 1, json!({})).await?;
    let api = scene.api.clone();
    let poll = json!({ "topic": "t", "group": "new", "owner": "w", "max": 5, "wait_ms": 500 });
    let began = Instant::now();
    let poller = tokio::spawn(async move {
        while began.elapsed() < LASTS {
            // The replies to the consumer do not matter here.
            let _polled = api.post("receive", &poll).await;
        }
    });
    let (mut accepted, mut rejected) = (0, Vec::new());
    while began.elapsed() < LASTS {
        let reply = scene.api.post("produce", &json!({ "topic": "other", "value": "x" })).await?;
        match reply.status {
            200 => accepted += 1,
            _ => rejected.push(reply.to_string()),
        }
        tokio::time::sleep(PAUSE).await;
    }
    poller.await?;
    Ok(Seen::kept_if(rejected.is_empty() && accepted > 0, || {
        let count = rejected.len();
        format!(
            "{count} of {} produces rejected, the last with {:?}",
            count + accepted,
            rejected.last()
        )
    }))
}
