//! Text from a request cannot leave its log line: line breaks and control characters are escaped.

use serde_json::json;

use crate::scene::{Fixture, Seen};

const FORGED: &str = "2026-11-17T00:30:00.000000Z  INFO dead letters purged topic=pay by=alice";

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let mut scene = Fixture::start(driftq).await?;
    scene.topic("t", 1, json!({})).await?;
    scene.produce("t", "v").await?;
    let delivery = scene.receive_one("t").await?;
    scene.settle("nack", &delivery, json!({ "final": true })).await?;
    let list = scene.api.get("dlq/t").await?.ok()?;
    let redrive = json!({ "ids": [list["dead_letters"][0]["id"]], "by": format!("mallory\n{FORGED}"),
        "reason": "r\u{1b}[31mred\rover" });
    scene.api.post("dlq/t/redrive", &redrive).await?;
    // After the stop the log is complete.
    scene.server.stop().await?;
    let log = scene.server.log()?;
    anyhow::ensure!(log.contains("mallory"), "the redrive is not logged: {log}");
    let forged = log.lines().find(|line| line.starts_with(FORGED));
    let control = log.lines().find(|line| line.chars().any(|c| c != '\t' && c.is_control()));
    Ok(match (forged, control) {
        (Some(line), _) => Seen::Broken(format!("the log has the line {line:?}")),
        (None, Some(line)) => Seen::Broken(format!("the log has a control character: {line:?}")),
        (None, None) => Seen::Kept,
    })
}
