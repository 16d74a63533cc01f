//! A COMMIT whose answer is lost has happened, one that is lost itself has not: the client sees no difference.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use driftq_e2e::postgres::Cluster;
use driftq_e2e::proxy::{End, Proxy, Rule, Target, Trap};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// How often each is done.
const TIMES: u32 = 20;
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn run(version: u32) -> anyhow::Result<()> {
    let cluster = Cluster::start(version).await?;
    let proxy = Proxy::start(Target::Unix(cluster.socket())).await?;
    let url = format!("postgresql://postgres@{}/postgres?sslmode=disable", proxy.address());
    cluster.sql("CREATE TABLE done (number int PRIMARY KEY)").await?;
    for number in 0..TIMES {
        let end = if number % 2 == 0 { End::Reset } else { End::Close };
        let trap = Trap::answer("COMMIT", end);
        proxy.all(Rule::Trap(trap.clone()));
        ensure!(!insert(&url, number).await?, "a client was told of a lost answer");
        tokio::time::timeout(PATIENCE, trap.sprung()).await.context("the trap was not met")?;

        proxy.all(Rule::Trap(Trap::message("COMMIT", end)));
        let lost = TIMES + number;
        ensure!(!insert(&url, lost).await?, "a client was told of a lost message");

        proxy.all(Rule::Pass);
        ensure!(insert(&url, 2 * TIMES + number).await?, "the next does not pass");
    }
    // It may have read the last of them just now.
    let mut found = String::new();
    let all = (0..TIMES).chain(2 * TIMES..3 * TIMES).map(|number| number.to_string());
    let expected = all.collect::<Vec<_>>().join("\n");
    for _ in 0..100 {
        found = cluster.sql("SELECT number FROM done ORDER BY number").await?;
        if found == expected {
            break;
        }
    }
    ensure!(found == expected, "committed are {found:?}");
    println!("commit: {TIMES} answers lost, all committed; {TIMES} messages lost, none committed");
    Ok(())
}

/// Whether `psql` says that all went well. Each line is a message of its own.
async fn insert(url: &str, number: u32) -> anyhow::Result<bool> {
    let mut psql = Command::new("psql");
    psql.args([url, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]);
    psql.stdin(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut psql = psql.spawn().context("start psql")?;
    let mut input = psql.stdin.take().context("its input is piped")?;
    let script = format!("BEGIN;\nINSERT INTO done VALUES ({number});\nCOMMIT;\n");
    input.write_all(script.as_bytes()).await?;
    drop(input);
    let ended = tokio::time::timeout(PATIENCE, psql.wait()).await.context("it does not end")??;
    Ok(ended.success())
}
