//! If the clock of the database jumps 8 days ahead, nothing expires on any node, even when shards
//! move, until an operator confirms the jump on one node.

use std::time::Duration;

use driftq_e2e::api::Api;
use driftq_e2e::clock::Clock;
use driftq_e2e::directory::Directory;
use driftq_e2e::postgres::Cluster;
use driftq_e2e::server::{Launch, Server};
use serde_json::json;

use crate::scene::Seen;

const POSTGRES_VERSION: u32 = 15;
const JUMP_MS: i64 = 8 * 24 * 3_600_000;
/// Enough that every node serves some topics.
const TOPICS: u32 = 6;

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let directory = Directory::make()?;
    let clock = Clock::in_file(directory.path().join("time"))?;
    let database = Cluster::start_with(POSTGRES_VERSION, clock.clone()).await?;
    let mut first = start(driftq, &directory, &database, "first").await?;
    let second = start(driftq, &directory, &database, "second").await?;
    for topic in 0..TOPICS {
        first.api()?.post("topics", &json!({ "name": format!("t{topic}") })).await?.ok()?;
    }
    anyhow::ensure!(known(&first.api()?).await? == 0, "the keys are new");

    clock.set(JUMP_MS)?;
    let mut wrong = Vec::new();
    for when in ["after the jump", "a little later"] {
        let known = known(&second.api()?).await?;
        if known < TOPICS {
            wrong.push(format!("{when} {} of {TOPICS} keys are unknown", TOPICS - known));
        }
    }
    if !wrong.is_empty() {
        return Ok(Seen::Broken(wrong.join("; ")));
    }
    for node in [&first, &second] {
        until_held(node, true).await?;
    }
    let third = start(driftq, &directory, &database, "third").await?;
    until_held(&third, true).await?;
    first.stop().await?;
    let known_elsewhere = known(&third.api()?).await?;
    if known_elsewhere < TOPICS {
        wrong.push(format!("{known_elsewhere} of {TOPICS} keys are known after shards moved"));
    }
    second.api()?.post("clock/confirm", &json!({})).await?.ok()?;
    for node in [&second, &third] {
        until_held(node, false).await?;
    }
    // The first commit of a shard may use a time that was read before.
    for topic in 0..TOPICS {
        let message = json!({ "topic": format!("t{topic}"), "value": "other" });
        third.api()?.post("produce", &message).await?.ok()?;
    }
    let known_after = known(&third.api()?).await?;
    if known_after > 0 {
        wrong.push(format!("{known_after} keys are still known 8 days later"));
    }
    Ok(Seen::kept_if(wrong.is_empty(), || wrong.join("; ")))
}

async fn start(
    driftq: &str,
    directory: &Directory,
    database: &Cluster,
    name: &str,
) -> anyhow::Result<Server> {
    let arguments = ["--engine", "postgres", "--storage-shards", "8", "--database-url"];
    let mut arguments = arguments.map(str::to_owned).to_vec();
    arguments.push(database.url());
    let log = directory.path().join(name).with_extension("log");
    let (binary, variables) = (driftq.to_owned(), Vec::new());
    let server = Launch { binary, arguments, variables, clock: None, log }.start().await?;
    server.ready().await?;
    Ok(server)
}

/// Produces a message with a key to each topic. Returns how many keys were known.
async fn known(api: &Api) -> anyhow::Result<u32> {
    let mut known = 0;
    for topic in 0..TOPICS {
        let envelope = json!({ "idempotency_key": "order-77" });
        let message = json!({ "topic": format!("t{topic}"), "value": "pay", "envelope": envelope });
        known += u32::from(api.post("produce", &message).await?.ok()?["deduplicated"] == true);
    }
    Ok(known)
}

async fn until_held(node: &Server, is_held: bool) -> anyhow::Result<()> {
    let api = node.api()?;
    for _ in 0..100 {
        let metrics = api.metrics().await?;
        if metrics.contains("driftq_clock_ahead_seconds 0\n") != is_held {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("a held jump should be reported: {is_held}")
}
