//! SIGKILL at random moments under constant load, with immediate restarts.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::broker::{Broker, FLUSH, Fault};

use crate::history::stakes;
use crate::load::{Load, Verdict};
use crate::wal;

/// What must be in flight at a kill for it to count.
const PRODUCES_MIN: u64 = 64;
const LEASES_MIN: u64 = 100;
/// Minimum of acknowledgements per kill: a million produces and half as many acks for 300 kills.
pub(crate) const PRODUCED_PER_KILL: u64 = 3_334;
pub(crate) const ACKED_PER_KILL: u64 = 1_667;
/// Time limit for reaching these minimums.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The behaviour of the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    Honest,
    /// Reports a flush without doing it. The last writes are lost after a kill.
    Lies,
}

/// The result of a run.
pub(crate) struct Killed {
    pub(crate) verdict: Verdict,
    /// Kills with enough in flight, and kills that were repeated because there was too little.
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
        anyhow::ensure!(killed < 2 * kills + 20, "too rarely enough in flight");
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
    // The counts at each kill are taken from the history.
    let counted = stakes(&verdict.events);
    let enough = counted
        .iter()
        .filter(|(produces, leases)| *produces >= PRODUCES_MIN && *leases >= LEASES_MIN);
    Ok(Killed { kills: enough.count() as u64, repeated: killed.saturating_sub(done), verdict })
}

/// Waits until the minimums for this kill are reached.
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
    tokio::time::timeout(TIMEOUT, wait).await.context("too little in flight")
}
