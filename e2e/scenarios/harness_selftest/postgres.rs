//! A PostgreSQL instance, and each operation on it.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::ensure;
use driftq_e2e::postgres::{Cluster, Stop};
use tokio::process::{Child, Command};

pub(crate) async fn run(version: u32) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut cluster = Cluster::start_at(version, IpAddr::V4(Ipv4Addr::LOCALHOST)).await?;
    println!("postgres {version}: created in {} ms", began.elapsed().as_millis());
    ensure!(cluster.sql("SHOW fsync").await? == "on", "fsync is off");
    cluster.sql("CREATE TABLE kept (number int)").await?;

    for (number, name) in ["fast", "immediate", "kill -9"].into_iter().enumerate() {
        cluster.sql(&format!("INSERT INTO kept VALUES ({number})")).await?;
        let _busy = busy(&cluster).await?;
        let all_names = cluster.processes();
        ensure!(all_names.len() > 5, "too few processes");
        let began = Instant::now();
        match name {
            "fast" => cluster.stop(Stop::Fast).await?,
            "immediate" => cluster.stop(Stop::Immediate).await?,
            _ => cluster.kill().await?,
        }
        let ended = began.elapsed();
        ensure!(all_names.iter().all(|one| one.has_exited()), "processes remain after {name}");
        ensure!(cluster.sql("SELECT 1").await.is_err(), "it still answers after {name}");
        cluster.start_again().await?;
        println!(
            "postgres {version}: {name}: stopped in {} ms, ready in {} ms",
            ended.as_millis(),
            (began.elapsed() - ended).as_millis()
        );
    }
    ensure!(cluster.sql("SELECT count(*) FROM kept").await? == "3", "rows were lost");
    paused(&cluster).await?;

    let left = cluster.processes();
    let socket = cluster.socket();
    // Dropped by a panic while paused.
    cluster.pause().await?;
    let panicked = tokio::spawn(async move {
        let _cluster = cluster;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    ensure!(panicked.await.is_err(), "it did not panic");
    ensure!(left.iter().all(|one| one.has_exited()), "processes remain after the drop");
    ensure!(socket.parent().is_some_and(|files| !files.exists()), "its directory remains");
    println!("postgres {version}: dropped by a panic while paused: nothing remains");
    Ok(())
}

/// Starts a session in an endless loop, which does not notice that the postmaster has exited.
async fn busy(cluster: &Cluster) -> anyhow::Result<Child> {
    let mut psql = Command::new("psql");
    psql.args([&cluster.url(), "-X", "-c", "DO 'BEGIN LOOP END LOOP; END'"]);
    let psql = psql.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn()?;
    for _ in 0..200 {
        let running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO %LOOP%'";
        if cluster.sql(running).await? == "1" {
            return Ok(psql);
        }
    }
    anyhow::bail!("the busy session did not start")
}

async fn paused(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.pause().await?;
    {
        let asked = cluster.sql("INSERT INTO kept VALUES (9)");
        let mut asked = std::pin::pin!(asked);
        let answer = tokio::time::timeout(Duration::from_millis(500), asked.as_mut()).await;
        ensure!(answer.is_err(), "it answers while paused");
        cluster.resume()?;
        asked.await?;
    }
    ensure!(cluster.sql("SELECT count(*) FROM kept").await? == "4", "the insert was lost");
    println!("postgres: paused: no answer; resumed: the same connection gets its answer");
    Ok(())
}
