//! SIGKILL at random moments under a load that never pauses; restarted at once.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::broker::{Broker, FLUSH, Fault};

use crate::history::stakes;
use crate::load::{Load, Verdict};
use crate::wal;

/// What must be under way at a kill for it to count.
const PRODUCES_MIN: u64 = 64;
const LEASES_MIN: u64 = 100;
/// What must have been acknowledged for each kill: a million produces and half as many acks for 300.
pub(crate) const PRODUCED_PER_KILL: u64 = 3_334;
pub(crate) const ACKED_PER_KILL: u64 = 1_667;
/// How long it may take until that much was done and is under way.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the disk does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    Honest,
    /// Says "flushed" and has done nothing; what was written last is gone after a kill.
    Lies,
}

/// A run.
pub(crate) struct Killed {
    pub(crate) verdict: Verdict,
    /// Kills with enough under way, and those that were repeated for want of it.
    pub(crate) kills: u64,
    pub(crate) repeated: u64,
}

pub(crate) async fn run(
    binary: &str,
    data: &Path,
    kills: u64,
    disk: Disk,
) -> anyhow::Result<Killed> {
    let lie = Fault { calls: FLUSH, does: "retval=0".to_owned() };
    let fault = (disk == Disk::Lies).then_some(&lie);
    let mut broker = Broker::start(binary, data, fault).await?;
    let load = Load::start(broker.url()).await?;
    let (mut done, mut killed) = (0, 0);
    while done < kills {
        anyhow::ensure!(killed < 2 * kills + 20, "there is too rarely enough under way");
        busy(&load, killed + 1).await?;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..200))).await;
        let (produces, leases) = load.client.under_way();
        load.fault("kill");
        broker.kill().await?;
        if disk == Disk::Lies {
            wal::drop_tail(data)?;
        }
        broker.start_again(fault).await?;
        killed += 1;
        done += u64::from(produces >= PRODUCES_MIN && leases >= LEASES_MIN);
    }
    let finished = load.finish().await;
    broker.kill().await?;
    let verdict = finished?;
    // The history has the last word on what was under way.
    let counted = stakes(&verdict.events);
    let enough = counted
        .iter()
        .filter(|(produces, leases)| *produces >= PRODUCES_MIN && *leases >= LEASES_MIN);
    Ok(Killed { kills: enough.count() as u64, repeated: killed.saturating_sub(done), verdict })
}

/// Waits until the share of this kill is done and enough is under way.
async fn busy(load: &Load, kill: u64) -> anyhow::Result<()> {
    let wait = async {
        loop {
            let (produced, acked) = load.client.acknowledged();
            let (produces, leases) = load.client.under_way();
            if produced >= kill * PRODUCED_PER_KILL
                && acked >= kill * ACKED_PER_KILL
                && produces >= PRODUCES_MIN
                && leases >= LEASES_MIN
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.context("there is never enough under way")
}
