//! If the answer to a COMMIT is lost, it has committed. If the COMMIT itself is lost, it has not.
//! The client sees no difference.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use driftq_e2e::postgres::Cluster;
use driftq_e2e::proxy::{End, Proxy, Rule, Target, Trap};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Repetitions of each case.
const TIMES: u32 = 20;
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn run(version: u32) -> anyhow::Result<()> {
    let cluster = Cluster::start(version).await?;
    let proxy = Proxy::start(Target::Unix(cluster.socket())).await?;
    let url = format!("postgresql://postgres@{}/postgres?sslmode=disable", proxy.address());
    cluster.sql("CREATE TABLE done (number int PRIMARY KEY)").await?;
    for number in 0..TIMES {
        let end = if number % 2 == 0 { End::Reset } else { End::Close };
        let trap = Trap::answer("COMMIT", end);
        proxy.all(Rule::Trap(trap.clone()));
        ensure!(!insert(&url, number).await?, "a client received a lost answer");
        tokio::time::timeout(TIMEOUT, trap.sprung()).await.context("the trap did not spring")?;

        proxy.all(Rule::Trap(Trap::message("COMMIT", end)));
        let lost = TIMES + number;
        ensure!(!insert(&url, lost).await?, "a client received an answer to a lost message");

        proxy.all(Rule::Pass);
        ensure!(insert(&url, 2 * TIMES + number).await?, "the next insert failed");
    }
    // PostgreSQL may still be processing the last COMMIT, so poll.
    let mut found = String::new();
    let all = (0..TIMES).chain(2 * TIMES..3 * TIMES).map(|number| number.to_string());
    let expected = all.collect::<Vec<_>>().join("\n");
    for _ in 0..100 {
        found = cluster.sql("SELECT number FROM done ORDER BY number").await?;
        if found == expected {
            break;
        }
    }
    ensure!(found == expected, "committed: {found:?}");
    println!("commit: {TIMES} answers lost, all committed; {TIMES} messages lost, none committed");
    Ok(())
}

/// Whether `psql` reports success. Each line is a message of its own.
async fn insert(url: &str, number: u32) -> anyhow::Result<bool> {
    let mut psql = Command::new("psql");
    psql.args([url, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]);
    psql.stdin(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut psql = psql.spawn().context("start psql")?;
    let mut input = psql.stdin.take().context("its input is piped")?;
    let script = format!("BEGIN;\nINSERT INTO done VALUES ({number});\nCOMMIT;\n");
    input.write_all(script.as_bytes()).await?;
    drop(input);
    let ended = tokio::time::timeout(TIMEOUT, psql.wait()).await.context("psql hangs")??;
    Ok(ended.success())
}
