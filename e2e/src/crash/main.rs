//! `crash BINARY KILLS [PART]`: the real server on SQLite, and what can happen to it.
//!
//! 1. `kills`: killed KILLS times with SIGKILL at random moments under a load that never pauses.
//! 2. `control`: the same on a disk that lies about flushes: the checker must report losses, or it proves nothing.
//! 3. `faults`: one system call of the storage kills, fails or waits: each kind at each of the first calls.
//! 4. `full`: a small disk, filled to the mark and drained.
//! 5. `effects`, only if named: killed KILLS times while commits end effects and send next steps to other shards.
//!    Then its ledger is exported and verified, and so are copies of it that were changed.
//! 6. `cluster`, only if named: the same load on three servers and a PostgreSQL. KILLS rounds of: a server is killed,
//!    paused for longer than its lease, stopped, cut off in six ways; PostgreSQL is restarted, and killed.
//! 7. `failover`, only if named: the same load on three servers and three PostgreSQL under Patroni. KILLS failovers:
//!    the primary is killed, cut off, switched, paused, killed after its standby. Then the same without synchronous
//!    replication, as control. Needs the packages patroni and etcd-server, and root for what is cut off.
//! 8. `upgrade OLD`, only if named: the same load on three servers of the binary OLD, which are exchanged one by one for
//!    BINARY, and back, KILLS times.
//!
//! Each time everything is drained at the end and the checker judges what the clients saw: nothing
//! acknowledged is lost, nothing settled comes back, no stale attempt was let through.
#![expect(clippy::print_stdout, reason = "this is a program for people")]

mod clients;
mod cluster;
mod cross_shard;
mod disk_full;
mod effects;
mod failover;
mod faults;
mod history;
mod kills;
mod latency;
mod load;
mod member;
mod probes;
mod proof;
mod upgrade;
mod wal;
mod wal_positions;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use driftq_e2e::directory::Directory;

use cluster::SERVED_AGAIN;
use cross_shard::COMMITTED_PER_KILL;
use failover::FIRST_OK;
use kills::{ACKED_PER_KILL, Disk, PRODUCED_PER_KILL};

/// Unknown outcomes there must have been: a thousand for 300 kills.
const UNKNOWN_PER_KILL: u64 = 4;
/// Kills on a disk that lies.
const CONTROL_KILLS: u64 = 3;
/// A fault for each so many kills: 50 for 300.
const KILLS_PER_FAULT: u64 = 6;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    const USAGE: &str = "usage: crash BINARY KILLS [kills|control|faults|full|effects|cluster|failover|upgrade OLD]";
    let mut arguments = std::env::args().skip(1);
    let binary = arguments.next().context(USAGE)?;
    let kills: u64 = arguments.next().context(USAGE)?.parse().context(USAGE)?;
    let only = arguments.next();
    let data = Directory::make()?;
    let began = Instant::now();
    let (mut violations, mut proved) = (0, String::new());
    let of_a_cluster = match only.as_deref() {
        Some("cluster") => Some(stormed(&binary, kills).await?),
        Some("failover") => Some(failed_over(&binary, kills).await?),
        Some("upgrade") => {
            let old = arguments.next().context(USAGE)?;
            Some(exchanged(&old, &binary, kills).await?)
        }
        _ => None,
    };
    if let Some(proved) = of_a_cluster {
        println!("{proved}, {} s", began.elapsed().as_secs());
        return Ok(ExitCode::SUCCESS);
    }
    for part in ["kills", "control", "faults", "full"] {
        if only.as_ref().is_none_or(|only| only == part) {
            violations += match part {
                "kills" => killed(&binary, &data.path().join(part), kills).await?,
                "control" => control(&binary, &data.path().join(part)).await?,
                "faults" => faulted(&binary, data.path(), kills.div_ceil(KILLS_PER_FAULT)).await?,
                _ => filled(&binary, data.path()).await?,
            };
        }
    }
    if only.as_deref() == Some("effects") {
        let found;
        (found, proved) = crossed(&binary, &data.path().join("effects"), kills).await?;
        violations += found;
    }
    println!("kills {kills}, violations {violations}{proved}, {} s", began.elapsed().as_secs());
    Ok(if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn killed(binary: &str, data: &Path, kills: u64) -> anyhow::Result<usize> {
    let run = kills::run(binary, data, kills, Disk::Honest).await?;
    let (tally, violations) = (&run.verdict.tally, &run.verdict.report.violations);
    for violation in violations.iter().take(20) {
        println!("{violation:?}");
    }
    println!(
        "kills {} with enough under way ({} more repeated), acknowledged produces {}, acks {}, unknown {}, violations {}",
        run.kills,
        run.repeated,
        tally.produced,
        tally.acked,
        tally.unknown,
        violations.len()
    );
    anyhow::ensure!(
        run.kills >= kills
            && tally.produced >= kills * PRODUCED_PER_KILL
            && tally.acked >= kills * ACKED_PER_KILL
            && tally.unknown >= kills * UNKNOWN_PER_KILL,
        "too little happened"
    );
    Ok(violations.len())
}

/// Returns the violations, and what was proved besides.
async fn crossed(binary: &str, data: &Path, kills: u64) -> anyhow::Result<(usize, String)> {
    let run = cross_shard::run(binary, data, kills).await?;
    run.judged.hold(kills * COMMITTED_PER_KILL)?;
    let proof = run.proof?;
    println!(
        "export: {} bytes in {} ms, verified in {} ms: decisions {}, of which clients were told {}; outcomes {} of {} orders; copies checked in {} ms",
        proof.bytes,
        proof.export.as_millis(),
        proof.verify.as_millis(),
        proof.decisions,
        proof.told,
        proof.outcomes,
        run.judged.orders,
        proof.copies.as_millis()
    );
    let proved = format!(
        ", exported decisions {}, changed copies refused {}",
        proof.decisions, proof.refused
    );
    Ok((run.judged.report.violations.len(), proved))
}

/// Returns what was shown.
async fn stormed(binary: &str, rounds: u64) -> anyhow::Result<String> {
    let run = cluster::run(binary, rounds).await?;
    let (total, served) = (&run.total, &run.served);
    served.lines().for_each(|line| println!("{line}"));
    let proved = format!("faults {}, {total}, every shard delivers after {served}", served.count());
    anyhow::ensure!(served.are_within(SERVED_AGAIN), "too late: {proved}");
    anyhow::ensure!(total.violations == 0, "{proved}");
    Ok(proved)
}

/// Returns what was shown.
async fn exchanged(old: &str, new: &str, rounds: u64) -> anyhow::Result<String> {
    let run = upgrade::run(old, new, rounds).await?;
    let (total, served) = (&run.total, &run.served);
    let proved =
        format!("exchanges {}, {total}, every shard delivers after {served}", served.count());
    anyhow::ensure!(served.are_within(SERVED_AGAIN), "too late: {proved}");
    anyhow::ensure!(total.violations == 0, "{proved}");
    Ok(proved)
}

/// Returns what was shown.
async fn failed_over(binary: &str, failovers: u64) -> anyhow::Result<String> {
    let run = failover::run(binary, failovers).await?;
    let lost = failover::control(binary).await?;
    let (total, oks, served) = (&run.total, &run.oks, &run.served);
    served.lines().for_each(|line| println!("{line}"));
    let proved = format!(
        "failovers {}, {total}, {oks}, first ok of every shard after {served}; control: {lost}",
        served.count()
    );
    anyhow::ensure!(served.p99() < FIRST_OK, "too late: {proved}");
    anyhow::ensure!(total.violations + oks.beyond == 0, "{proved}");
    Ok(proved)
}

async fn control(binary: &str, data: &Path) -> anyhow::Result<usize> {
    let run = kills::run(binary, data, CONTROL_KILLS, Disk::Lies).await?;
    let lost = run.verdict.report.violations.len();
    println!("control: on a disk that lies about flushes {lost} violations are reported");
    anyhow::ensure!(lost > 0, "losses are not seen");
    Ok(0)
}

async fn faulted(binary: &str, data: &Path, up_to: u64) -> anyhow::Result<usize> {
    let all = faults::run(binary, data, up_to).await?;
    println!(
        "faults: {} runs, {} stopped the server, violations {}",
        all.runs, all.stopped, all.violations
    );
    Ok(all.violations)
}

async fn filled(binary: &str, data: &Path) -> anyhow::Result<usize> {
    let filled = disk_full::run(binary, data).await?;
    println!(
        "full disk: {} stored, {} refused, all drained, violations {}",
        filled.stored, filled.refused, filled.violations
    );
    Ok(filled.violations)
}
