//! A disk that is full and has space again, and a disk whose flushes fail.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use driftq_e2e::broker::Broker;
use driftq_e2e::flush_disk::{FailedFlush, FlushDisk};
use driftq_e2e::small_disk::SmallDisk;
use rusqlite::Connection;
use rustix::process::{Resource, Rlimit, prlimit};

use crate::disk_full::DISK;
use crate::load::Load;

/// Within this time after the disk works again, requests must succeed.
const BACK_WITHIN: Duration = Duration::from_secs(5);
/// How long the disk stays full.
const FULL_FOR: Duration = Duration::from_millis(400);
/// Successful produces between two faults.
const BETWEEN: u64 = 200;
/// Time limit for anything to happen.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The result of a run.
pub(crate) struct Survived {
    pub(crate) violations: usize,
    /// The longest time from a working disk to the next successful request.
    pub(crate) slowest: Duration,
}

/// Fills the disk and frees it `cycles` times. In every second cycle the limit of the file size
/// stands in for the disk.
pub(crate) async fn full_and_freed(
    binary: &str,
    data: &Path,
    cycles: u64,
) -> anyhow::Result<Survived> {
    let disk = SmallDisk::mount(data, DISK)?;
    let mut broker = Broker::start(binary, &disk.path().join("data"), None).await?;
    let load = Load::start(broker.url()).await?;
    let mut slowest = Duration::ZERO;
    for cycle in 0..cycles {
        produced(&load, BETWEEN).await?;
        load.fault("disk full");
        let ballast = disk.path().join("ballast");
        if cycle % 2 == 0 {
            fill(&ballast)?;
        } else {
            limit(&broker, Some(0))?;
        }
        refused(&load).await?;
        tokio::time::sleep(FULL_FOR).await;
        if cycle % 2 == 0 {
            std::fs::remove_file(&ballast)?;
        } else {
            limit(&broker, None)?;
        }
        slowest = slowest.max(back(&load, Instant::now()).await?);
        anyhow::ensure!(!broker.is_dead(), "the server ended on a full disk");
    }
    let finished = load.finish().await;
    broker.kill().await?;
    Ok(Survived { violations: shown(&finished?.report.violations), slowest })
}

/// Writes to a file until the disk is full.
fn fill(ballast: &Path) -> anyhow::Result<()> {
    let mut file = std::fs::File::create(ballast)?;
    for piece in [vec![0; 1 << 20], vec![0; 4_096]] {
        while file.write_all(&piece).is_ok() {}
    }
    Ok(())
}

/// Limits the size of files that the server writes.
fn limit(broker: &Broker, current: Option<u64>) -> anyhow::Result<()> {
    let pid = broker.pid().context("the server runs")?;
    prlimit(Some(pid), Resource::Fsize, Rlimit { current, maximum: None })?;
    Ok(())
}

/// Fails `flushes` flushes under load. After each, the disk is cut off from power: at once, or after
/// the server went on, or after a server was killed and another one went on.
pub(crate) async fn failed_flushes(
    binary: &str,
    data: &Path,
    flushes: u64,
) -> anyhow::Result<Survived> {
    let mut disk = FlushDisk::mount(data)?;
    let mut broker = Broker::start(binary, data, None).await?;
    let load = Load::start(broker.url()).await?;
    let mut slowest = Duration::ZERO;
    for flush in 0..flushes {
        produced(&load, BETWEEN).await?;
        // Every fourth failure is one of a checkpoint, which no client notices.
        let of = if flush % 4 == 3 { "driftq.db" } else { "-wal" };
        load.fault("flush failed");
        disk.fail(FailedFlush { of, evicts: flush % 2 == 1 });
        let failed_at = until(|| disk.failed_at(), "no flush failed").await?;
        if flush % 3 == 0 {
            load.fault("kill");
            broker.kill().await?;
            broker.start_again(None).await?;
        }
        slowest = slowest.max(back(&load, failed_at).await?);
        if flush % 3 < 2 {
            produced(&load, BETWEEN).await?;
        }
        load.fault("power failure");
        broker.kill().await?;
        disk.cut_off()?;
        broker.start_again(None).await?;
    }
    let finished = load.finish().await;
    broker.kill().await?;
    Ok(Survived { violations: shown(&finished?.report.violations), slowest })
}

fn shown<V: std::fmt::Debug>(violations: &[V]) -> usize {
    for violation in violations.iter().take(20) {
        println!("{violation:?}");
    }
    violations.len()
}

async fn until<T>(found: impl Fn() -> Option<T>, never: &'static str) -> anyhow::Result<T> {
    let wait = async {
        loop {
            match found() {
                Some(found) => return found,
                None => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    tokio::time::timeout(TIMEOUT, wait).await.context(never)
}

/// Waits for this many further messages.
async fn produced(load: &Load, count: u64) -> anyhow::Result<()> {
    let (before, _) = load.client.acknowledged();
    let enough = || (load.client.acknowledged().0 >= before + count).then_some(());
    until(enough, "too little was produced").await
}

/// Waits until no produce has succeeded for a while.
async fn refused(load: &Load) -> anyhow::Result<()> {
    const QUIET: Duration = Duration::from_millis(200);
    let began = Instant::now();
    loop {
        let (before, _) = load.client.acknowledged();
        tokio::time::sleep(QUIET).await;
        if load.client.acknowledged().0 == before {
            return Ok(());
        }
        anyhow::ensure!(began.elapsed() < TIMEOUT, "the full disk was not noticed");
    }
}

/// Waits for the next success. Returns how long it took since the disk works.
async fn back(load: &Load, since: Instant) -> anyhow::Result<Duration> {
    produced(load, 1).await?;
    let took = since.elapsed();
    anyhow::ensure!(took < BACK_WITHIN, "service was back only after {} ms", took.as_millis());
    Ok(took)
}

/// The variable that turns this program into the control: the path of its database.
pub(crate) const NAIVE: &str = "DRIFTQ_NAIVE_DATABASE";
/// Commits of the control before and after the failed flush.
const COMMITS: usize = 100;

/// Returns how many commits a process loses that reopens its database after a failed flush and goes
/// on.
pub(crate) fn control(data: &Path) -> anyhow::Result<usize> {
    let mut disk = FlushDisk::mount(data)?;
    let database = data.join("naive.db");
    let mut acknowledged = commits(&database, COMMITS, || ())?;
    acknowledged +=
        commits(&database, usize::MAX, || disk.fail(FailedFlush { of: "-wal", evicts: false }))?;
    anyhow::ensure!(disk.failed_at().is_some(), "no flush failed");
    acknowledged += commits(&database, COMMITS, || ())?;
    disk.cut_off()?;
    let database = Connection::open(&database)?;
    let kept: usize = database.query_row("SELECT count(*) FROM fact", [], |row| row.get(0))?;
    Ok(acknowledged.saturating_sub(kept))
}

/// Runs the control until it has acknowledged this many commits, or ends. Calls `begun` after the
/// first.
fn commits(database: &Path, most: usize, begun: impl Fn()) -> anyhow::Result<usize> {
    let mut naive = Command::new(std::env::current_exe()?);
    let mut naive = naive.env(NAIVE, database).stdout(Stdio::piped()).spawn()?;
    let out = naive.stdout.take().context("its output is piped")?;
    let mut acknowledged = 0;
    for line in BufReader::new(out).lines() {
        line?;
        acknowledged += 1;
        if acknowledged == 1 {
            begun();
        }
        if acknowledged == most {
            break;
        }
    }
    naive.kill()?;
    naive.wait()?;
    Ok(acknowledged)
}

/// The control: commits rows, and prints a line after each. It ends at the first error, without
/// closing its database, as a process that crashes.
pub(crate) fn commit_until_it_fails(database: &Path) -> ! {
    let commit = || -> rusqlite::Result<()> {
        let connection = Connection::open(database)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.execute_batch("CREATE TABLE IF NOT EXISTS fact (number INTEGER PRIMARY KEY)")?;
        let connection = std::mem::ManuallyDrop::new(connection);
        loop {
            connection.execute("INSERT INTO fact DEFAULT VALUES", [])?;
            println!("committed");
            // The parent may kill this process between two commits.
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let _failed = commit();
    std::process::exit(1)
}
