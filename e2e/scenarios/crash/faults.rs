//! One system call of the storage kills the server, fails or blocks. Each kind is tried at each of
//! the first calls.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::broker::{Broker, FLUSH, Fault, WRITE};

use crate::load::Load;

/// The faults, in strace syntax.
const KINDS: [&str; 4] = ["signal=KILL", "error=EIO", "error=ENOSPC", "delay_enter=300000"];
/// How long a load waits for its fault.
const FAULT_WITHIN: Duration = Duration::from_millis(1_500);
/// How long the load continues after the fault.
const AFTERWARDS: Duration = Duration::from_millis(150);

/// The results of all runs.
#[derive(Default)]
pub(crate) struct Faulted {
    pub(crate) runs: u64,
    /// Runs in which the server exited or reported that it is not ready.
    pub(crate) stopped: u64,
    pub(crate) violations: usize,
}

pub(crate) async fn run(binary: &str, data: &Path, up_to: u64) -> anyhow::Result<Faulted> {
    let mut all = Faulted::default();
    for calls in [FLUSH, WRITE] {
        for kind in KINDS {
            for number in 1..=up_to {
                let fault = Fault { calls, does: format!("{kind}:when={number}") };
                let data = data.join(format!("fault-{}", all.runs));
                let stopped = one(binary, &data, &fault, &mut all.violations).await;
                let stopped = stopped.with_context(|| format!("{fault:?}"))?;
                std::fs::remove_dir_all(&data)?;
                all.runs += 1;
                all.stopped += u64::from(stopped);
            }
        }
    }
    Ok(all)
}

/// Runs one fault. Returns whether it stopped the server. Everything acknowledged before must still
/// hold after a restart.
async fn one(
    binary: &str,
    data: &Path,
    fault: &Fault,
    violations: &mut usize,
) -> anyhow::Result<bool> {
    let (mut broker, load, stopped) = match begin(binary, data, fault).await {
        Ok((mut broker, load)) => {
            load.fault(&fault.does);
            let stopped = until_stopped(&mut broker, &load).await?;
            broker.kill().await?;
            broker.start_again(None).await?;
            (broker, load, stopped)
        }
        // The server did not start. Then it must recover without the fault.
        Err(_) => {
            let broker = Broker::start(binary, data, None).await.context("it did not recover")?;
            let load = Load::start(broker.url()).await?;
            (broker, load, true)
        }
    };
    tokio::time::sleep(AFTERWARDS).await;
    let finished = load.finish().await;
    broker.kill().await?;
    let verdict = finished?;
    anyhow::ensure!(verdict.tally.produced > 0 && verdict.tally.acked > 0, "too little happened");
    *violations += verdict.report.violations.len();
    Ok(stopped)
}

async fn begin(binary: &str, data: &Path, fault: &Fault) -> anyhow::Result<(Broker, Load)> {
    let mut broker = Broker::start(binary, data, Some(fault)).await?;
    match Load::start(broker.url()).await {
        Ok(load) => Ok((broker, load)),
        Err(error) => {
            broker.kill().await?;
            Err(error)
        }
    }
}

/// Waits for the fault. A server that has reported that it is not ready must acknowledge nothing
/// more.
async fn until_stopped(broker: &mut Broker, load: &Load) -> anyhow::Result<bool> {
    let began = tokio::time::Instant::now();
    while began.elapsed() < FAULT_WITHIN {
        if broker.is_dead() {
            return Ok(true);
        }
        if !load.client.is_ready().await {
            // Let responses in flight arrive.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let before = load.client.acknowledged();
            tokio::time::sleep(AFTERWARDS).await;
            let after = load.client.acknowledged();
            anyhow::ensure!(before == after, "the server acknowledged after a storage error");
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(false)
}
