//! A small disk, filled until the server takes no more, then drained.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::broker::Broker;

use crate::clients::Client;
use crate::history::History;
use crate::load::Load;

/// A few times what the server keeps free.
const DISK: &str = "size=224m";
/// Bytes of a value.
const VALUE_BYTES: usize = 32 << 10;
/// Producers that fill it.
const PRODUCERS: u32 = 2;
/// Refusals after which it is full.
const REFUSALS: u64 = 2_000;
/// How long filling, draining and the first message after it may take, each.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of it.
pub(crate) struct Filled {
    pub(crate) stored: u64,
    pub(crate) refused: u64,
    pub(crate) violations: usize,
}

/// A file system of its own, gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> anyhow::Result<SmallDisk> {
        std::fs::create_dir_all(at)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", DISK, "driftq-small-disk"]).arg(at);
        anyhow::ensure!(mount.status()?.success(), "a small disk can only be mounted by root");
        Ok(SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whoever is still there keeps it until it ends.
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

pub(crate) async fn run(binary: &str, data: &Path) -> anyhow::Result<Filled> {
    let disk = SmallDisk::mount(&data.join("small"))?;
    let mut broker = Broker::start(binary, &disk.0.join("data"), None).await?;
    let mut client = Client::new(broker.url(), Arc::new(History::default()));
    client.value_bytes = VALUE_BYTES;
    client.set_up().await?;
    let mut load = Load::of(client);
    load.produce(PRODUCERS);
    until(|| load.client.refused() >= REFUSALS, "it never says that it is full").await?;
    anyhow::ensure!(load.client.is_ready().await, "it stopped when its disk was nearly full");
    let (stored, _) = load.client.acknowledged();
    // Everything is settled while it is full; what is settled is trimmed; then there is room again.
    load.consume();
    until(|| load.client.acknowledged().0 > stored, "there is never room again").await?;
    let refused = load.client.refused();
    let finished = load.finish().await;
    broker.kill().await?;
    let verdict = finished?;
    anyhow::ensure!(verdict.tally.unknown == 0, "a refusal was not definite");
    Ok(Filled { stored, refused, violations: verdict.report.violations.len() })
}

async fn until(is_so: impl Fn() -> bool, never: &'static str) -> anyhow::Result<()> {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.context(never)
}
