//! `ledger-pg BINARY WRITER [COUNT]`: two writers in each of Rust, Python and Node charge the same COUNT
//! orders of their language through the ledger in one PostgreSQL, while they and two relays are killed
//! with SIGKILL. In the end:
//!
//! 1. Every order is charged, and the provider acted once for each.
//! 2. Each has one row of the shop, and its outcome is recorded: never one without the other.
//! 3. DriftQ has one message for each, and none of a transaction that was rolled back.
#![expect(clippy::print_stdout, reason = "command-line program")]

mod killed;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use driftq_e2e::api::Api;
use driftq_e2e::broker::Broker;
use driftq_e2e::directory::Directory;
use driftq_e2e::postgres::Cluster;
use serde_json::json;

use killed::Killed;

const COUNT: usize = 10_000;
const LANGUAGES: [&str; 3] = ["rust", "python", "node"];
/// How often a process is killed.
const INTERVAL: Duration = Duration::from_millis(400);
const TIMEOUT: Duration = Duration::from_secs(1_500);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [binary, writer, count @ ..] = &arguments[..] else {
        anyhow::bail!("usage: ledger-pg BINARY WRITER [COUNT]")
    };
    let count = count.first().map_or(Ok(COUNT), |count| count.parse())?;
    let began = Instant::now();
    let cluster = Cluster::start_at(15, Ipv4Addr::LOCALHOST.into()).await?;
    for file in ["sdks/ledger/schema.sql", "e2e/ledger/setup.sql"] {
        cluster.sql(&std::fs::read_to_string(file).context(file)?).await?;
    }
    let directory = Directory::make()?;
    let broker = Broker::start(binary, &directory.path().join("data"), None).await?;
    let api = broker.api()?;
    api.post("topics", &json!({ "name": "receipts" })).await?.ok()?;
    prepare(directory.path()).await?;
    let mut writers = Vec::new();
    for _ in 0..2 {
        for program in [&[&**writer][..], &["python3", "writer.py"], &["node", "writer.mjs"]] {
            let program: Vec<String> = program.iter().map(|&word| word.to_owned()).collect();
            let more = [cluster.url(), count.to_string()];
            writers.push(Killed::start([program, more.to_vec()].concat(), directory.path())?);
        }
    }
    let relay = ["relay", "--url", api.url(), "--database-url", &cluster.url()];
    let relay: Vec<String> = [&**binary].into_iter().chain(relay).map(str::to_owned).collect();
    let mut relays = vec![
        Killed::start(relay.clone(), directory.path())?,
        Killed::start(relay, directory.path())?,
    ];
    let mut kills = 0;
    while !(writers.iter_mut().try_fold(true, |all, writer| Ok(all & writer.is_done()?))
        as anyhow::Result<bool>)?
    {
        ensure!(began.elapsed() < TIMEOUT, "the writers are not done in {TIMEOUT:?}");
        tokio::time::sleep(INTERVAL).await;
        let orders = cluster.sql("SELECT count(*) FROM orders").await?;
        if orders.trim().parse::<usize>()? >= count * LANGUAGES.len() {
            // A writer begins again after a kill, and must get through once.
            continue;
        }
        let victim = fastrand::usize(..writers.len() + relays.len());
        let victims = writers.iter_mut().chain(&mut relays);
        if let Some(victim) = victims.into_iter().nth(victim) {
            kills += usize::from(victim.kill().await?);
        }
    }
    // The relays get through the rest.
    while cluster.sql("SELECT count(*) FROM driftq_outbox").await?.trim() != "0" {
        ensure!(began.elapsed() < TIMEOUT, "the outbox is not empty in {TIMEOUT:?}");
        tokio::time::sleep(INTERVAL).await;
    }
    let calls = check(&cluster, &api, count).await?;
    ensure!(kills >= 20 || count < COUNT, "{kills} kills are too few");
    let (all, seconds) = (count * LANGUAGES.len(), began.elapsed().as_secs());
    println!(
        "ledger-pg: {all} operations in {} languages, {kills} kills, {calls} calls of the provider, \
         0 violations, {seconds} s",
        LANGUAGES.len()
    );
    Ok(())
}

/// Installs the clients of PostgreSQL for Python and Node.
async fn prepare(directory: &Path) -> anyhow::Result<()> {
    for file in ["writer.py", "writer.mjs"] {
        std::fs::copy(Path::new("e2e/ledger").join(file), directory.join(file))?;
    }
    for line in [
        "npm install --silent --no-package-lock --no-audit --no-fund pg@8.23.1",
        "python3 -c 'import psycopg' 2>/dev/null || python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore 'psycopg[binary]==3.3.9'",
    ] {
        let mut shell = tokio::process::Command::new("sh");
        let status = shell.args(["-c", line]).current_dir(directory).status().await?;
        ensure!(status.success(), "{line}: {status}");
    }
    Ok(())
}

/// Compares the tables with each other and with the messages. Returns the calls of the provider.
async fn check(cluster: &Cluster, api: &Api, count: usize) -> anyhow::Result<String> {
    let all = (count * LANGUAGES.len()).to_string();
    for (what, query) in [
        ("outcomes", "SELECT count(*) FROM idempotency_keys WHERE status = 'SUCCEEDED'"),
        ("orders", "SELECT count(*) FROM orders"),
        ("orders by number", "SELECT count(DISTINCT (language, number)) FROM orders"),
        ("acts of the provider", "SELECT count(*) FROM provider_acts"),
        (
            "orders with their outcome",
            "SELECT count(*) FROM orders JOIN idempotency_keys ON idempotency_key = language || '-' || number \
             WHERE status = 'SUCCEEDED' AND convert_from(response, 'UTF8') = charge",
        ),
    ] {
        let is = cluster.sql(query).await?;
        ensure!(is.trim() == all, "{} {what}, not {all}", is.trim());
    }
    let mut messages: BTreeMap<String, usize> = BTreeMap::new();
    let mut cursor = String::new();
    loop {
        let path = format!("topics/receipts/messages?limit=1000{cursor}");
        let page = api.get(&path).await?.ok()?;
        for message in page["messages"].as_array().context("a list")? {
            *messages
                .entry(message["value"].as_str().context("a value")?.to_owned())
                .or_default() += 1;
        }
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    for language in LANGUAGES {
        for number in 0..count {
            let value = format!("{language} {number}");
            let stored = messages.remove(&value).unwrap_or_default();
            ensure!(stored == 1, "{stored} messages of {value}");
        }
    }
    ensure!(messages.is_empty(), "messages of transactions that were rolled back: {messages:?}");
    Ok(cluster.sql("SELECT count(*) FROM provider_calls").await?.trim().to_owned())
}
