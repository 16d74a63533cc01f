//! An id that was issued after a backup is unknown once the backup is restored. It cannot redrive
//! or purge another dead letter.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::scene::{Fixture, Seen};

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let mut scene = Fixture::start(driftq).await?;
    scene.topic("t", 1, json!({})).await?;
    die(&scene, "A").await?;
    scene.server.stop().await?;
    let backup = scene.data.with_extension("backup");
    copy(&scene.data, &backup)?;
    scene.server.start_again().await?;
    die(&scene, "B").await?;
    let dead = dead_letters(&scene).await?;
    let lost = dead.iter().find(|dead| dead["value"] == "B").context("a dead letter")?;
    let lost = lost["id"].clone();
    scene.server.stop().await?;

    std::fs::remove_dir_all(&scene.data)?;
    copy(&backup, &scene.data)?;
    let restored =
        Command::new(driftq).arg("mark-restored").arg("--data").arg(&scene.data).output().await?;
    anyhow::ensure!(restored.status.success(), "driftq mark-restored: {restored:?}");
    scene.server.start_again().await?;
    die(&scene, "C").await?;
    die(&scene, "D").await?;

    let redrive = json!({ "ids": [lost], "by": "ops", "reason": "B is fixed" });
    let redriven = scene.api.post("dlq/t/redrive", &redrive).await?;
    let purge = json!({ "ids": [lost], "confirm": 1, "by": "ops", "reason": "B is junk" });
    let purged = scene.api.post("dlq/t/purge", &purge).await?;
    let mut left: Vec<String> = dead_letters(&scene).await?.iter().map(describe).collect();
    left.sort_unstable();
    let is_kept = left == ["A dead", "C dead", "D dead"];
    Ok(Seen::kept_if(is_kept, || {
        format!("left {left:?} after redrive {} and purge {}", redriven.body, purged.body)
    }))
}

async fn die(scene: &Fixture, value: &str) -> anyhow::Result<()> {
    scene.produce("t", value).await?;
    let delivery = scene.receive_one("t").await?;
    anyhow::ensure!(delivery["value"] == value, "another message: {delivery}");
    scene.settle("nack", &delivery, json!({ "final": true })).await
}

async fn dead_letters(scene: &Fixture) -> anyhow::Result<Vec<Value>> {
    let mut list = scene.api.get("dlq/t?state=all").await?.ok()?;
    Ok(serde_json::from_value(list["dead_letters"].take())?)
}

fn describe(dead: &Value) -> String {
    format!("{} {}", dead["value"].as_str().unwrap_or("?"), dead["state"].as_str().unwrap_or("?"))
}

/// Copies a directory without subdirectories.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        std::fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}
