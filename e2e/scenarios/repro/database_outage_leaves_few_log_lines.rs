//! While the database is unreachable, the log has one line per kind of error and not one per shard
//! and second. At the end it says how long the outage was and how many errors it left out.

use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::directory::Directory;
use driftq_e2e::postgres::{Cluster, Stop};
use driftq_e2e::server::{Launch, Server};
use serde_json::json;

use crate::scene::Seen;

const POSTGRES_VERSION: u32 = 15;
/// Long enough that the node gives up all its shards, because it cannot renew its lease.
const OUTAGE: Duration = Duration::from_secs(8);
const SHARDS: &str = "32";
/// Lines from the start of the outage to its end: one per kind of error (renewal, commit, load,
/// clock record), the shards released, the shards acquired, the end.
const LINES_MAX: usize = 10;

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let directory = Directory::make()?;
    let mut database = Cluster::start(POSTGRES_VERSION).await?;
    let mut server = start(driftq, &directory, &database).await?;
    for topic in 0..8 {
        server.api()?.post("topics", &json!({ "name": format!("t{topic}") })).await?.ok()?;
    }
    let before = server.log()?.lines().count();
    database.stop(Stop::Immediate).await?;
    // Commits that fail.
    for topic in 0..8 {
        let message = json!({ "topic": format!("t{topic}"), "value": "pay" });
        server.api()?.post("produce", &message).await?;
    }
    tokio::time::sleep(OUTAGE).await;
    database.start_again().await?;
    let end = until_logged(&server, "database reachable again after ").await?;
    until_logged(&server, "32 shards acquired").await?;
    server.ready().await?;
    // After the stop the log is complete.
    server.stop().await?;
    let log = server.log()?;
    let stops = log.lines().position(|line| line.contains("INFO stopping")).context("it stops")?;
    let lines: Vec<&str> = log.lines().take(stops).skip(before).collect();
    let suppressed = end.split('(').nth(1).and_then(|rest| rest.split(' ').next());
    let suppressed: u64 = suppressed.context("the end has a count")?.parse()?;
    let seconds = end.split("after ").nth(1).and_then(|rest| rest.split(' ').next());
    let seconds: f64 = seconds.context("the end has a duration")?.parse()?;
    let is_plausible = suppressed > 0 && (5.0..30.0).contains(&seconds);
    Ok(Seen::kept_if(is_plausible && lines.len() <= LINES_MAX, || {
        format!("{} lines about an outage of {seconds} s:\n{}", lines.len(), lines.join("\n"))
    }))
}

async fn start(driftq: &str, directory: &Directory, database: &Cluster) -> anyhow::Result<Server> {
    let arguments =
        ["--engine", "postgres", "--storage-shards", SHARDS, "--cluster-lease-ms", "3000"];
    let mut arguments = arguments.map(str::to_owned).to_vec();
    arguments.extend(["--database-url".to_owned(), database.url()]);
    let log = directory.path().join("server.log");
    let (binary, variables) = (driftq.to_owned(), Vec::new());
    let server = Launch { binary, arguments, variables, clock: None, log }.start().await?;
    server.ready().await?;
    until_logged(&server, "32 shards acquired").await?;
    Ok(server)
}

/// Waits for a line and returns the last one that has the text.
async fn until_logged(server: &Server, text: &str) -> anyhow::Result<String> {
    for _ in 0..300 {
        let log = server.log()?;
        if let Some(line) = log.lines().rfind(|line| line.contains(text)) {
            return Ok(line.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("the log should have a line with {text:?}: {}", server.log()?)
}
