//! Something else fills the disk of the server.

use std::time::Duration;

use driftq_e2e::directory::Directory;
use driftq_e2e::small_disk::SmallDisk;
use serde_json::json;

use crate::Night;
use crate::rig::{Rig, Row};

/// More than the limit of the alert.
const SIZE: &str = "3g";

pub(crate) async fn full(night: &Night) -> anyhow::Result<Vec<Row>> {
    let directory = Directory::make()?;
    let disk = SmallDisk::mount(&directory.path().join("disk"), SIZE)?;
    let rig = Rig::start_on(night, disk.path()).await?;
    let section = rig.operator.section_before("A full disk").await?;
    let _worker = rig.healthy_worker("worker-1")?;
    disk.fill()?;
    let producer = async || -> anyhow::Result<()> {
        let message = json!({ "topic": "orders", "value": "pay" });
        loop {
            // Rejected while the disk is full.
            rig.api.post("produce", &message).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let row = tokio::select! {
        row = rig.operator.answer_alert(section, "database or disk is full") => row?,
        failed = producer() => failed.map(|()| unreachable!("the producer never ends"))?,
    };
    disk.free()?;
    Ok(vec![rig.operator.await_end(row).await?])
}
