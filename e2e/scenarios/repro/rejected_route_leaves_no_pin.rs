//! A routed produce that was definitely rejected leaves its key unused, whichever shard its target
//! is on.

use serde_json::json;

use crate::scene::{Fixture, Seen};

/// Enough that some targets are on the shard of their source and some are not.
const PAIRS: usize = 8;

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let scene = Fixture::start_with(driftq, &["--storage-shards", "4"]).await?;
    let mut wrong = Vec::new();
    for number in 0..PAIRS {
        let (source, target) = (format!("source{number}"), format!("full{number}"));
        scene.topic(&source, 1, json!({})).await?;
        scene.topic(&target, 1, json!({ "max_backlog_messages": 1 })).await?;
        scene.produce(&target, "fills it").await?;
        let envelope = json!({ "target_topic": target, "idempotency_key": "K" });
        let message =
            |value: &str| json!({ "topic": source, "value": value, "envelope": envelope });
        let full = scene.api.post("produce", &message("first")).await?;
        anyhow::ensure!(full.status == 429, "the target is not full: {full}");
        let room = json!({ "settings": { "max_backlog_messages": 1_000 } });
        scene.api.patch(&format!("topics/{target}"), &room).await?.ok()?;
        let other = scene.api.post("produce", &message("second")).await?;
        if other.status != 200 {
            wrong.push(other.body["error"].to_string());
        }
    }
    Ok(Seen::kept_if(wrong.is_empty(), || {
        format!(
            "other content with the same key was rejected in {} of {PAIRS} pairs: {}",
            wrong.len(),
            wrong[0]
        )
    }))
}
