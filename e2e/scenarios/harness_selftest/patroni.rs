//! Each kind of failover during writes.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use driftq_e2e::patroni::{NODES, Patroni, Replication};
use tokio::time::Instant;

use crate::writer::{ROWS, TABLE, Writer};

/// Rows that must be acknowledged before and after each failover.
const ROWS_MIN: usize = 20;
/// More bytes than fit into any socket buffer, and not compressible. Rows written after them do not
/// reach a standby that has stopped reading.
const BALLAST: &str = "
    CREATE TABLE ballast (bytes text);
    ALTER TABLE ballast ALTER bytes SET STORAGE EXTERNAL;
    INSERT INTO ballast SELECT repeat(md5(n::text), 3000) FROM generate_series(1, 300) n";

/// What happens to the primary.
const KINDS: [Kind; 4] = [Kind::Kill, Kind::Pause, Kind::Switchover, Kind::StandbyToo];

#[derive(Debug, Clone, Copy)]
enum Kind {
    Kill,
    Pause,
    Switchover,
    /// The synchronous standby is killed first, then the primary.
    StandbyToo,
}

pub(crate) async fn run(version: u32) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut patroni = Patroni::start(version, Replication::Synchronous).await?;
    println!("patroni: three nodes and a primary in {} s", began.elapsed().as_secs());
    patroni.sql(TABLE).await?;
    let writer = Writer::start(patroni.url());
    for kind in KINDS {
        writer.goes_on(ROWS_MIN).await?;
        failover(&mut patroni, &writer, kind).await.with_context(|| format!("{kind:?}"))?;
    }
    drop(writer);
    let processes = patroni.processes();
    ensure!(processes.len() > 3 * NODES, "too few processes");
    drop(patroni);
    ensure!(processes.iter().all(|one| one.has_exited()), "processes remain after the drop");
    lose(version).await
}

async fn failover(patroni: &mut Patroni, writer: &Writer, kind: Kind) -> anyhow::Result<()> {
    let primary = patroni.primary().await?.context("no primary")?;
    let standby = patroni.synchronous_standby().await?.context("no synchronous standby")?;
    let began = Instant::now();
    match kind {
        Kind::Kill => patroni.kill(primary).await?,
        Kind::Pause => patroni.pause(primary).await?,
        Kind::Switchover => patroni.switchover().await?,
        Kind::StandbyToo => {
            patroni.kill(standby).await?;
            patroni.kill(primary).await?;
            // The third node may lack commits, so without one of these two there is no primary.
            patroni.restart(standby)?;
        }
    }
    writer.goes_on(ROWS_MIN).await?;
    let silence = writer.longest_silence(began);
    match kind {
        Kind::Kill | Kind::StandbyToo => patroni.restart(primary)?,
        Kind::Pause => patroni.resume(primary),
        Kind::Switchover => (),
    }
    patroni.settled().await?;
    let next = patroni.primary().await?.context("no primary")?;
    let (sent, acknowledged) = writer.known();
    let lost = lost(patroni, &acknowledged).await?;
    println!(
        "patroni: {kind:?}: node {primary} to node {next}, next row after {} ms, settled after {} ms; {sent} rows sent, {} acknowledged, {} lost",
        silence.as_millis(),
        began.elapsed().as_millis(),
        acknowledged.len(),
        lost.len()
    );
    ensure!(lost.is_empty(), "acknowledged rows lost: {lost:?}");
    ensure!(next != primary, "no failover happened");
    Ok(())
}

/// The control: rows acknowledged by a primary without a standby are lost when it is killed.
async fn lose(version: u32) -> anyhow::Result<()> {
    let mut patroni = Patroni::start(version, Replication::Asynchronous).await?;
    patroni.sql(TABLE).await?;
    let writer = Writer::start(patroni.url());
    writer.goes_on(ROWS_MIN).await?;
    let primary = patroni.hold_receivers().await?;
    patroni.sql(BALLAST).await?;
    writer.goes_on(ROWS_MIN).await?;
    let (_, acknowledged) = writer.known();
    patroni.kill(primary).await?;
    patroni.release_receivers(primary)?;
    writer.goes_on(ROWS_MIN).await?;
    patroni.restart(primary)?;
    patroni.settled().await?;
    let lost = lost(&patroni, &acknowledged).await?;
    println!(
        "patroni: control: asynchronous, {} rows acknowledged, {} lost",
        acknowledged.len(),
        lost.len()
    );
    ensure!(lost.len() >= ROWS_MIN, "too few rows were lost");
    Ok(())
}

/// Returns the acknowledged rows that the primary does not have.
async fn lost(patroni: &Patroni, acknowledged: &BTreeSet<u64>) -> anyhow::Result<Vec<u64>> {
    let rows = patroni.sql(ROWS).await?;
    let rows: Result<BTreeSet<u64>, _> = rows.lines().map(str::parse).collect();
    Ok(acknowledged.difference(&rows?).copied().collect())
}
