//! If the wall clock jumps 8 days ahead, nothing expires, before and after a restart, until the
//! jump is confirmed.

use std::time::Duration;

use driftq_e2e::clock::Clock;
use serde_json::{Value, json};

use crate::scene::{Fixture, Seen};

const JUMP_MS: i64 = 8 * 24 * 3_600_000;

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let mut scene = Fixture::start(driftq).await?;
    let clock = Clock::in_file(scene.data.with_extension("time"))?;
    scene.server.restart_at(clock.clone()).await?;
    scene.topic("orders", 1, json!({})).await?;
    produce(&scene).await?;
    let delivery = scene.receive_one("orders").await?;

    clock.set(JUMP_MS)?;
    // The first commit may use a time that was read before the jump.
    scene.produce("orders", "other").await?;
    let mut wrong = held(&scene, "after the jump").await?;
    if !wrong.is_empty() {
        return Ok(Seen::Broken(wrong.join("; ")));
    }
    scene.settle("ack", &delivery, json!({})).await?;
    until_reported(&scene, true).await?;
    // Leases and retries still work, so time advances.
    let other = scene.receive_one("orders").await?;
    scene.settle("nack", &other, json!({ "reason": "again" })).await?;
    scene.settle("ack", &scene.receive_one("orders").await?, json!({})).await?;

    scene.server.kill().await?;
    scene.server.start_again().await?;
    wrong.extend(held(&scene, "after a restart").await?);
    until_reported(&scene, true).await?;

    clock.set(0)?;
    until_reported(&scene, false).await?;
    wrong.extend(nothing_to_confirm(&scene).await?);

    clock.set(JUMP_MS)?;
    until_reported(&scene, true).await?;
    let confirmed = scene.api.post("clock/confirm", &json!({})).await?.ok()?;
    if confirmed["ahead_ms"].as_i64().is_none_or(|ms| (ms - JUMP_MS).abs() > 60_000) {
        wrong.push(format!("confirmed: {confirmed}"));
    }
    wrong.extend(nothing_to_confirm(&scene).await?);
    scene.produce("orders", "other").await?;
    if produce(&scene).await? {
        wrong.push("a confirmed jump has no effect".to_owned());
    }
    scene.server.kill().await?;
    scene.server.start_again().await?;
    until_reported(&scene, false).await?;
    let lines = scene.server.log()?.matches("the jump is held back").count();
    if lines != 3 {
        wrong.push(format!("3 jumps happened, but {lines} log lines report one"));
    }
    Ok(Seen::kept_if(wrong.is_empty(), || wrong.join("; ")))
}

/// Produces the order, unless its key is known. Returns whether it was.
async fn produce(scene: &Fixture) -> anyhow::Result<bool> {
    let envelope = json!({ "idempotency_key": "order-77" });
    let message = json!({ "topic": "orders", "value": "pay", "envelope": envelope });
    Ok(scene.api.post("produce", &message).await?.ok()?["deduplicated"] == true)
}

/// Returns what is wrong while a jump is held back.
async fn held(scene: &Fixture, when: &str) -> anyhow::Result<Vec<String>> {
    Ok(if produce(scene).await? {
        Vec::new()
    } else {
        vec![format!("{when} the idempotency key is unknown")]
    })
}

/// Waits until readyz, explain and the metrics report a jump, or none of them does.
async fn until_reported(scene: &Fixture, is_held: bool) -> anyhow::Result<()> {
    for _ in 0..50 {
        let ready = scene.api.get("readyz").await?.ok()?;
        let explained = scene.api.get("explain?topic=orders&group=g").await?.ok()?;
        let metrics = scene.api.metrics().await?;
        let reports = [
            ready["reasons"][0].as_str().is_some_and(|why| why.starts_with("clock: ")),
            explained["clock"]["ahead_ms"].is_u64(),
            !metrics.contains("driftq_clock_ahead_seconds 0\n"),
        ];
        if reports == [is_held; 3] && logged(scene)? == is_held {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("a held jump should be reported: {is_held}")
}

/// Whether the last log line about the clock reports a held jump.
fn logged(scene: &Fixture) -> anyhow::Result<bool> {
    let log = scene.server.log()?;
    let mut lines = log.lines().filter(|line| line.contains("the clock"));
    Ok(lines.next_back().is_some_and(|line| line.contains("the jump is held back")))
}

async fn nothing_to_confirm(scene: &Fixture) -> anyhow::Result<Option<String>> {
    let reply = scene.api.post("clock/confirm", &json!({})).await?;
    let is_clear = reply.body["error"] == "FAILED_PRECONDITION"
        && reply.body["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("nothing to confirm"));
    Ok((!is_clear).then(|| format!("accepted without a jump: {}", Value::clone(&reply.body))))
}
