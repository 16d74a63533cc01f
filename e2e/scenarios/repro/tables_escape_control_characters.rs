//! Message content cannot control an operator's terminal: tables escape control characters.

use anyhow::Context as _;
use serde_json::json;
use tokio::process::Command;

use crate::scene::{Fixture, Seen};

/// Colours, the window title, a carriage return, and a right-to-left override.
const EVIL: &str = "boom\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31mred\rover\u{202e}evil";

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let scene = Fixture::start(driftq).await?;
    scene.topic("t", 1, json!({})).await?;
    let message = json!({ "topic": "t", "key": EVIL, "value": EVIL });
    scene.api.post("produce", &message).await?.ok()?;
    scene.api.post("produce", &message).await?.ok()?;
    let delivery = scene.receive_one("t").await?;
    scene.settle("nack", &delivery, json!({ "final": true, "reason": EVIL })).await?;
    let url = format!("http://{}", scene.server.address);
    let mut wrong = Vec::new();
    for arguments in [&["dlq", "list", "t"][..], &["peek", "t"], &["dlq", "summary", "t"]] {
        let output = Command::new(driftq).args(arguments).args(["--url", &url]).output().await?;
        let name = arguments.join(" ");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::ensure!(output.status.success(), "driftq {name}: {errors}");
        let shown = String::from_utf8(output.stdout).context("the table is not UTF-8")?;
        anyhow::ensure!(shown.contains("boom"), "driftq {name} shows no message: {shown}");
        if shown.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}') {
            wrong.push(name);
        }
    }
    Ok(Seen::kept_if(wrong.is_empty(), || {
        format!("unescaped control characters from driftq {}", wrong.join(", "))
    }))
}
