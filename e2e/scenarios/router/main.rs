//! `router BINARY [SECONDS]`: produces through a server of several shards whose router hook misbehaves in every
//! way: it answers differently each time, with errors, with huge bodies, too late, or never.
//!
//! 1. The p99 of a produce is at most the time-out of the hook and [`OVERHEAD_MAX`], besides what two produces
//!    take on a server without a router in the same moments: the shard is asked twice.
//! 2. A message is stored once, however often its request is sent, and every receipt names it.
//! 3. The breaker opens while the hook hangs, and closes after.
#![expect(clippy::print_stdout, reason = "command-line program")]

mod hook;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use driftq_e2e::api::{Api, api};
use futures_util::future::try_join_all;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use hook::{Conduct, Hook};

const TIMEOUT: Duration = Duration::from_millis(200);
const OVERHEAD_MAX: Duration = Duration::from_millis(10);
const CLIENTS: usize = 4;
const TOPICS: [&str; 4] = ["orders", "eu", "us", "asia"];

/// A message that was produced, and the id of its first receipt.
type Receipts = BTreeMap<String, String>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [binary, seconds @ ..] = &arguments[..] else {
        anyhow::bail!("usage: router BINARY [SECONDS]")
    };
    let time = Duration::from_secs(seconds.first().map_or(Ok(60), |text| text.parse())?);
    let hook = Hook::start(&TOPICS).await?;
    let timeout = TIMEOUT.as_millis().to_string();
    let routed = ["--router-url", &hook.url, "--router-timeout-ms", &timeout];
    let (_server, api) = start(binary, &routed).await?;
    let (_plain_server, plain) = start(binary, &[]).await?;
    let clients = (0..CLIENTS).map(|client| produce(&api, &plain, client, time));
    let (mut took, mut plain_took, mut receipts) = (Vec::new(), Vec::new(), Receipts::new());
    for (of_routed, of_plain, stored) in try_join_all(clients).await? {
        took.extend(of_routed);
        plain_took.extend(of_plain);
        receipts.extend(stored);
    }
    let (p99, plain_p99) = (p99(&mut took), p99(&mut plain_took));
    let most = TIMEOUT + OVERHEAD_MAX + 2 * plain_p99;
    ensure!(p99 <= most, "the p99 of a produce is {p99:?}, more than {most:?}");
    let (stored, targets) = stored_once(&api, &receipts).await?;
    let closed = breaker(&api, &hook).await?;
    println!(
        "router: {} requests for {stored} messages in {targets} topics, stored twice 0, p99 {} ms with a \
         time-out of {} ms, {} ms without a router, {} calls of the hook; the breaker opened, and closed \
         after {closed} ms",
        took.len(),
        p99.as_millis(),
        TIMEOUT.as_millis(),
        plain_p99.as_millis(),
        hook.calls(),
    );
    Ok(())
}

fn p99(took: &mut [Duration]) -> Duration {
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

/// Starts a server of several shards, with topics.
async fn start(binary: &str, more: &[&str]) -> anyhow::Result<(Child, Api)> {
    let mut server = Command::new(binary)
        .args(["serve", "--listen", "127.0.0.1:0", "--engine", "memory", "--storage-shards", "8"])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("start the server")?;
    let mut lines = BufReader::new(server.stdout.take().context("its output is piped")?).lines();
    let address = loop {
        let line = lines.next_line().await?.context("the server has exited")?;
        if let Some(address) = line.strip_prefix("listening on http://") {
            break address.parse()?;
        }
    };
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let api = api(address)?;
    for topic in TOPICS {
        api.post("topics", &json!({ "name": topic, "partitions": 2 })).await?.ok()?;
    }
    Ok((server, api))
}

/// Produces messages and sends every request several times. Returns how long each took, with and
/// without a router.
async fn produce(
    api: &Api,
    plain: &Api,
    client: usize,
    time: Duration,
) -> anyhow::Result<(Vec<Duration>, Vec<Duration>, Receipts)> {
    let (mut took, mut plain_took, mut receipts) = (Vec::new(), Vec::new(), Receipts::new());
    let began = Instant::now();
    let mut number = 0;
    while began.elapsed() < time {
        number += 1;
        let name = format!("{client}-{number}");
        let mut message = json!({ "topic": "orders", "value": name, "key": name });
        // With a key, with a nonce, or with both.
        if number % 3 != 0 {
            message["envelope"] = json!({ "idempotency_key": name });
        }
        if number % 3 != 1 {
            message["nonce"] = name.clone().into();
        }
        let sent = Instant::now();
        plain.post("produce", &message).await?.ok()?;
        plain_took.push(sent.elapsed());
        for attempt in 0..3 {
            let sent = Instant::now();
            let receipt = api.post("produce", &message).await?.ok()?;
            took.push(sent.elapsed());
            let id = receipt["id"].as_str().context("an id")?;
            let first = receipts.entry(name.clone()).or_insert_with(|| id.to_owned());
            ensure!(first == id, "{name} has the ids {first} and {id}");
            ensure!(receipt["deduplicated"] == (attempt > 0), "try {attempt} of {name}: {receipt}");
        }
    }
    Ok((took, plain_took, receipts))
}

/// Compares the messages of all topics with the receipts. Returns how many there are, in how many topics.
async fn stored_once(api: &Api, receipts: &Receipts) -> anyhow::Result<(usize, usize)> {
    let mut stored: BTreeMap<String, String> = BTreeMap::new();
    let mut targets = 0;
    for topic in TOPICS {
        let (mut cursor, before) = (String::new(), stored.len());
        loop {
            let path = format!("topics/{topic}/messages?limit=1000{cursor}");
            let page = api.get(&path).await?.ok()?;
            for message in page["messages"].as_array().context("a list")? {
                let text = |name: &str| message[name].as_str().context("text").map(str::to_owned);
                let (name, id) = (text("value")?, text("id")?);
                let twice = stored.insert(name.clone(), id);
                ensure!(twice.is_none(), "{name} is stored twice");
            }
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        targets += usize::from(stored.len() > before);
    }
    ensure!(stored == *receipts, "{} messages, {} receipts", stored.len(), receipts.len());
    ensure!(targets == TOPICS.len(), "the hook chose {targets} topics");
    Ok((stored.len(), targets))
}

/// Lets the hook hang until the breaker opens, then answer. Returns the time until it was closed.
async fn breaker(api: &Api, hook: &Hook) -> anyhow::Result<u128> {
    let message = json!({ "topic": "orders", "value": "a" });
    hook.conduct(Conduct::Hangs);
    let began = Instant::now();
    loop {
        let sent = Instant::now();
        api.post("produce", &message).await?.ok()?;
        if sent.elapsed() < TIMEOUT / 2 {
            break;
        }
        ensure!(began.elapsed() < Duration::from_secs(10), "the breaker does not open");
    }
    hook.conduct(Conduct::Decides);
    let (began, before) = (Instant::now(), hook.calls());
    while hook.calls() == before {
        ensure!(began.elapsed() < Duration::from_secs(40), "the breaker does not close");
        tokio::time::sleep(Duration::from_millis(20)).await;
        api.post("produce", &message).await?.ok()?;
    }
    let took = began.elapsed().as_millis();
    let before = hook.calls();
    for _ in 0..5 {
        api.post("produce", &message).await?.ok()?;
    }
    ensure!(hook.calls() == before + 5, "every request calls the hook again");
    Ok(took)
}
