//! `crash BINARY KILLS [PART]`: the real server on SQLite under faults.
//!
//! 1. `kills`: the server is killed KILLS times with SIGKILL at random moments under constant load.
//! 2. `control`: the same on a disk that lies about flushes. The checker must report losses, or the
//!    test proves nothing.
//! 3. `faults`: one system call of the storage kills the server, fails or blocks. Each kind is
//!    tried at each of the first calls.
//! 4. `full`: a small disk is filled to the limit and drained.
//! 5. `bad-disk`, only if named: a disk is full KILLS times and has space again, and a limit of the
//!    file size alternates with it. Then KILLS × 2/5 flushes fail, and the disk is cut off from power
//!    after each. A control that reopens its database in place after a failed flush must lose data.
//! 6. `effects`, only if named: the server is killed KILLS times while commits end effects and send
//!    next steps to other shards. Then its ledger is exported and verified. Modified copies of the
//!    export must be rejected.
//! 7. `cluster`, only if named: the same load on three servers and one PostgreSQL. In each of KILLS
//!    rounds, a server is killed, paused for longer than its lease, stopped, and partitioned in six
//!    ways; PostgreSQL is restarted and killed.
//! 8. `failover`, only if named: the same load on three servers and three PostgreSQL nodes under
//!    Patroni. In KILLS failovers, the primary is killed, isolated, switched over, paused, or
//!    killed after its standby. Then one failover without synchronous replication, as a control.
//!    Needs the packages patroni and etcd-server, and root for isolation.
//! 9. `upgrade OLD`, only if named: the same load on three servers of the binary OLD, which are
//!    replaced one by one by BINARY, and back, KILLS times.
//!
//! At the end of each part everything is drained, and the checker judges what the clients saw: no
//! acknowledged message is lost, no settled message is delivered again, and no stale attempt is
//! accepted.
#![expect(clippy::print_stdout, reason = "command-line program")]

mod bad_disk;
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

/// Minimum of unknown outcomes per kill: a thousand for 300 kills.
const UNKNOWN_PER_KILL: u64 = 4;
/// Kills on a disk that lies.
const CONTROL_KILLS: u64 = 3;
/// Kills per fault: 50 faults for 300 kills.
const KILLS_PER_FAULT: u64 = 6;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    if let Some(database) = std::env::var_os(bad_disk::NAIVE) {
        bad_disk::commit_until_it_fails(Path::new(&database));
    }
    const USAGE: &str = "usage: crash BINARY KILLS [kills|control|faults|full|bad-disk|effects|cluster|failover|upgrade OLD]";
    let mut arguments = std::env::args().skip(1);
    let binary = arguments.next().context(USAGE)?;
    let kills: u64 = arguments.next().context(USAGE)?.parse().context(USAGE)?;
    let only = arguments.next();
    let data = Directory::make()?;
    let began = Instant::now();
    let (mut violations, mut proved) = (0, String::new());
    let of_a_cluster = match only.as_deref() {
        Some("cluster") => Some(run_cluster(&binary, kills).await?),
        Some("failover") => Some(failed_over(&binary, kills).await?),
        Some("upgrade") => {
            let old = arguments.next().context(USAGE)?;
            Some(run_upgrade(&old, &binary, kills).await?)
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
    if only.as_deref() == Some("bad-disk") {
        let found;
        (found, proved) = bad_disk(&binary, data.path(), kills).await?;
        violations += found;
    }
    if only.as_deref() == Some("effects") {
        let found;
        (found, proved) = run_effects(&binary, &data.path().join("effects"), kills).await?;
        violations += found;
    }
    println!("kills {kills}, violations {violations}{proved}, {} s", began.elapsed().as_secs());
    Ok(if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the number of violations, and a summary.
async fn bad_disk(binary: &str, data: &Path, cycles: u64) -> anyhow::Result<(usize, String)> {
    let freed = bad_disk::full_and_freed(binary, &data.join("freed"), cycles).await?;
    let flushes = (cycles * 2).div_ceil(5);
    let failed = bad_disk::failed_flushes(binary, &data.join("flushes"), flushes).await?;
    let lost = bad_disk::control(&data.join("control"))?;
    anyhow::ensure!(lost > 0, "the control lost nothing, so the disk is no test");
    let proved = format!(
        ", {cycles} times full and freed (service back after at most {} ms), {flushes} flushes failed \
         (after at most {} ms), the control lost {lost} commits",
        freed.slowest.as_millis(),
        failed.slowest.as_millis()
    );
    Ok((freed.violations + failed.violations, proved))
}

async fn killed(binary: &str, data: &Path, kills: u64) -> anyhow::Result<usize> {
    let run = kills::run(binary, data, kills, Disk::Honest).await?;
    let (tally, violations) = (&run.verdict.tally, &run.verdict.report.violations);
    for violation in violations.iter().take(20) {
        println!("{violation:?}");
    }
    println!(
        "kills {} with enough in flight ({} more repeated), acknowledged produces {}, acks {}, unknown {}, violations {}",
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

/// Returns the number of violations, and a summary of the export.
async fn run_effects(binary: &str, data: &Path, kills: u64) -> anyhow::Result<(usize, String)> {
    let run = cross_shard::run(binary, data, kills).await?;
    run.judged.hold(kills * COMMITTED_PER_KILL)?;
    let proof = run.proof?;
    println!(
        "export: {} bytes in {} ms, verified in {} ms: decisions {}, of which clients saw {}; outcomes {} of {} orders; copies checked in {} ms",
        proof.bytes,
        proof.export.as_millis(),
        proof.verify.as_millis(),
        proof.decisions,
        proof.acknowledged_decisions,
        proof.outcomes,
        run.judged.orders,
        proof.copies.as_millis()
    );
    let proved = format!(
        ", exported decisions {}, modified copies rejected {}",
        proof.decisions, proof.refused
    );
    Ok((run.judged.report.violations.len(), proved))
}

/// Returns a summary.
async fn run_cluster(binary: &str, rounds: u64) -> anyhow::Result<String> {
    let run = cluster::run(binary, rounds).await?;
    let (total, served) = (&run.total, &run.served);
    served.lines().for_each(|line| println!("{line}"));
    let proved = format!("faults {}, {total}, every shard delivers after {served}", served.count());
    anyhow::ensure!(served.are_within(SERVED_AGAIN), "too late: {proved}");
    anyhow::ensure!(total.violations == 0, "{proved}");
    Ok(proved)
}

/// Returns a summary.
async fn run_upgrade(old: &str, new: &str, rounds: u64) -> anyhow::Result<String> {
    let run = upgrade::run(old, new, rounds).await?;
    let (total, served) = (&run.total, &run.served);
    let proved =
        format!("replacements {}, {total}, every shard delivers after {served}", served.count());
    anyhow::ensure!(served.are_within(SERVED_AGAIN), "too late: {proved}");
    anyhow::ensure!(total.violations == 0, "{proved}");
    Ok(proved)
}

/// Returns a summary.
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
    println!("control: {lost} violations reported on a disk that lies about flushes");
    anyhow::ensure!(lost > 0, "losses were not detected");
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
        "full disk: {} stored, {} rejected, all drained, violations {}",
        filled.stored, filled.refused, filled.violations
    );
    Ok(filled.violations)
}
