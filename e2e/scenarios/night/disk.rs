//! Something else fills the disk of the server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use driftq_e2e::directory::Directory;
use serde_json::json;

use crate::Night;
use crate::rig::{Rig, Row};

/// More than the limit of the alert. Only what is written uses memory.
const SIZE: &str = "size=3g";

/// A file system in memory, unmounted on drop.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> anyhow::Result<Disk> {
        std::fs::create_dir_all(at)?;
        mount(&["-t", "tmpfs", "-o", SIZE, "driftq-night-disk"], at)?;
        Ok(Disk(at.to_owned()))
    }

    /// Shrinks the disk to what is used, as if the rest were occupied.
    fn fill(&self) -> anyhow::Result<()> {
        let fill = || {
            let used = rustix::fs::statvfs(&self.0)?;
            let bytes = (used.f_blocks - used.f_bfree) * used.f_frsize;
            mount(&["-o", &format!("remount,size={bytes}")], &self.0)
        };
        // The server may write between the two calls. Then the size is too small.
        fill().or_else(|_| fill())
    }

    fn free(&self) -> anyhow::Result<()> {
        mount(&["-o", &format!("remount,{SIZE}")], &self.0)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: the server keeps the disk until it exits.
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(arguments: &[&str], at: &Path) -> anyhow::Result<()> {
    let mounted = Command::new("mount").args(arguments).arg(at).status()?;
    ensure!(mounted.success(), "mounting a disk requires root");
    Ok(())
}

pub(crate) async fn full(night: &Night) -> anyhow::Result<Vec<Row>> {
    let directory = Directory::make()?;
    let disk = Disk::mount(&directory.path().join("disk"))?;
    let rig = Rig::start_on(night, &disk.0).await?;
    let section = rig.operator.before("A full disk").await?;
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
        row = rig.operator.woken(section, "database or disk is full") => row?,
        failed = producer() => failed.map(|()| unreachable!("the producer never ends"))?,
    };
    disk.free()?;
    Ok(vec![rig.operator.repaired(row).await?])
}
