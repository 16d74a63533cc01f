//! One poll for one message of a topic with many partitions does not load a page of each into
//! memory.

use std::time::Duration;

use serde_json::json;

use crate::scene::{Fixture, MEMORY_MAX, Seen};

const PARTITIONS: u32 = 400;
const BYTES: usize = 250 * 1024;
/// Reads started by the poll finish within this time.
const READS_END: Duration = Duration::from_secs(3);

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let mut scene = Fixture::start(driftq).await?;
    scene.topic("wide", PARTITIONS, json!({})).await?;
    let value = "x".repeat(BYTES);
    for partition in 0..PARTITIONS {
        let envelope = json!({ "partition_override": partition });
        let message = json!({ "topic": "wide", "value": value, "envelope": envelope });
        let reply =
            scene.api.post("produce/batch", &json!({ "messages": vec![message; 4] })).await?;
        anyhow::ensure!(
            reply.body["refused"] == 0,
            "not all were stored: {}",
            reply.body["refused"]
        );
    }
    scene.server.stop().await?;
    scene.server.start_again().await?;
    let (before, _) = scene.memory()?;
    let delivered = scene.receive("wide", 1, 5_000).await?;
    anyhow::ensure!(delivered.len() == 1, "nothing was delivered");
    tokio::time::sleep(READS_END).await;
    let (_, peak) = scene.memory()?;
    Ok(Seen::kept_if(peak < MEMORY_MAX, || {
        format!("one poll for one message raises memory from {before:.0} to {peak:.0} MB")
    }))
}
