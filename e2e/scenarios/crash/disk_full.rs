//! A small disk is filled until the server accepts no more messages, then drained.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::broker::Broker;
use driftq_e2e::small_disk::SmallDisk;

use crate::clients::Client;
use crate::history::History;
use crate::load::Load;

/// A few times the space that the server keeps free.
pub(crate) const DISK: &str = "224m";
/// Bytes of a value.
const VALUE_BYTES: usize = 32 << 10;
/// Producers that fill the disk.
const PRODUCERS: u32 = 2;
/// Number of rejections after which the disk counts as full.
const REFUSALS: u64 = 2_000;
/// Time limit each for filling, for draining, and for the first message after that. An unoptimized
/// server needs a minute to drain the disk.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The result of the run.
pub(crate) struct Filled {
    pub(crate) stored: u64,
    pub(crate) refused: u64,
    pub(crate) violations: usize,
}

pub(crate) async fn run(binary: &str, data: &Path) -> anyhow::Result<Filled> {
    let disk = SmallDisk::mount(&data.join("small"), DISK)?;
    let mut broker = Broker::start(binary, &disk.path().join("data"), None).await?;
    let mut client = Client::new(broker.url(), Arc::new(History::default()));
    client.value_bytes = VALUE_BYTES;
    client.set_up().await?;
    let mut load = Load::of(client);
    load.produce(PRODUCERS);
    until(|| load.client.refused() >= REFUSALS, "the server never reported a full disk").await?;
    anyhow::ensure!(load.client.is_ready().await, "it stopped when its disk was almost full");
    let (stored, _) = load.client.acknowledged();
    // Everything is settled while the disk is full. Settled messages are trimmed, which frees
    // space.
    load.consume();
    until(|| load.client.acknowledged().0 > stored, "no space was freed").await?;
    let refused = load.client.refused();
    let finished = load.finish().await;
    broker.kill().await?;
    let verdict = finished?;
    anyhow::ensure!(verdict.tally.unknown == 0, "a rejection was not definite");
    Ok(Filled { stored, refused, violations: verdict.report.violations.len() })
}

async fn until(is_so: impl Fn() -> bool, never: &'static str) -> anyhow::Result<()> {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, wait).await.context(never)
}
