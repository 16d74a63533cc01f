//! Topics and groups: every setting at a value other than its default, some patched, and paused
//! groups.

use anyhow::ensure;
use driftq_e2e::api::Api;
use serde_json::{Value, json};

use crate::requests::object;

pub(super) async fn make(api: &Api) -> anyhow::Result<()> {
    create(api, "plain", json!({})).await?;
    create(api, "settings", every_setting()).await?;
    let plain = settings(api, "plain").await?;
    let other = settings(api, "settings").await?;
    for (name, value) in &plain {
        ensure!(other.get(name) != Some(value), "the setting {name} has its default value");
    }
    create(api, "patched", json!({ "lease_ms": 60_000, "dedupe_ttl_ms": 1_209_600_000 })).await?;
    let patch = json!({ "settings": {
        "lease_ms": null, "dedupe_ttl_ms": 777_600_000, "max_in_flight": 64, "group_idle_ms": 864_000_000 } });
    api.patch("topics/patched", &patch).await?.ok()?;
    group(api, "patched", "paused").await?;
    let pause = json!({ "reason": "bad deploy 41f2", "by": "ops" });
    api.post("topics/patched/groups/paused/pause", &pause).await?.ok()?;
    group(api, "patched", "paused-until").await?;
    let pause = json!({ "reason": "night", "by": "cron", "until": "2099-01-01T00:00:00Z" });
    api.post("topics/patched/groups/paused-until/pause", &pause).await?.ok()?;
    api.put("topics/patched/groups/late", &json!({ "start": "latest" })).await?.ok()?;
    Ok(())
}

/// All settings. If the API gains one that is missing here, `make` fails.
fn every_setting() -> Value {
    json!({
        "lease_ms": 45_000, "max_in_flight": 77, "max_open": 7_777,
        "retry_policy": { "max_attempts": 7, "backoff_ms": 1_234, "max_backoff_ms": 56_789 },
        "max_backlog_messages": 4_321, "max_backlog_bytes": 7_654_321,
        "retention_ms": 7_200_000, "retention_bytes": 12_345_678, "dlq_retention_ms": 864_000_000,
        "dedupe_ttl_ms": 1_209_600_000, "effect_ttl_ms": 1_000_000_000, "on_doubt": "probe",
        "unkeyed": "spread", "require_token": true, "auto_create_groups": false,
        "group_idle_ms": 2_592_000_000_u64, "history": true,
    })
}

async fn settings(api: &Api, topic: &str) -> anyhow::Result<serde_json::Map<String, Value>> {
    object(api.get(&format!("topics/{topic}")).await?.ok()?["settings"].take())
}

/// Creates a topic with three partitions.
pub(super) async fn create(api: &Api, name: &str, settings: Value) -> anyhow::Result<()> {
    create_with(api, name, 3, settings).await
}

pub(super) async fn create_with(
    api: &Api,
    name: &str,
    partitions: u32,
    settings: Value,
) -> anyhow::Result<()> {
    let topic = json!({ "name": name, "partitions": partitions, "settings": settings });
    api.post("topics", &topic).await?.ok()?;
    Ok(())
}

pub(super) async fn group(api: &Api, topic: &str, group: &str) -> anyhow::Result<()> {
    api.put(&format!("topics/{topic}/groups/{group}"), &json!({})).await?.ok()?;
    Ok(())
}
