//! The cost of the effect ledger: compared with the queue, of a commit compared with its separate
//! calls, and with five million records compared with ten thousand.

use std::time::Instant;

use anyhow::Context as _;
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use crate::server::{Server, Side};
use crate::verdict::{Verdict, median};
use crate::wire::{Wire, get, post};
use driftq_e2e::usage::memory;

const TOPIC: &str = "work";
const NEXT: &str = "next";
const CONNECTIONS: usize = 64;
const ROUNDS: usize = 5;
/// Units of work per window, over all connections.
const WINDOW: usize = 12_800;
/// Fewer, because each commit needs a delivery and a begin in preparation.
const COMMITS: usize = 6_400;
const MANY: usize = 5_000_000;
const FEW: usize = 10_000;
const LOADERS: usize = 256;

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new("bench-ledger");
    pairs(driftq, &mut verdict).await?;
    records(driftq, &mut verdict).await?;
    Ok(verdict)
}

/// Compares begin and finish with produce and ack, and a commit with its separate calls.
async fn pairs(driftq: &str, verdict: &mut Verdict) -> anyhow::Result<()> {
    let server = Server::start(Side::Sqlite(driftq.to_owned())).await?;
    create(&server).await?;
    let (mut effects, mut commits) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let leases = leased(&server, WINDOW).await?;
        let queue = each(&server, leases, produce_and_ack).await?;
        let keys = (0..WINDOW).map(|at| format!("{round}-{at}")).collect();
        let ledger = each(&server, keys, begin_and_finish).await?;
        let work = prepared(&server, round, "apart").await?;
        let apart = each(&server, work, apart).await?;
        let work = prepared(&server, round, "together").await?;
        let together = each(&server, work, commit).await?;
        println!(
            "round {round}: produce+ack {:.0}/s, begin+finish {:.0}/s, apart {:.0}/s, commit {:.0}/s",
            WINDOW as f64 / queue,
            WINDOW as f64 / ledger,
            COMMITS as f64 / apart,
            COMMITS as f64 / together
        );
        // The first round only fills caches.
        if round > 0 {
            effects.push(queue / ledger);
            commits.push(apart / together);
        }
    }
    verdict.at_least("begin+finish/produce+ack", median(effects), 0.5, "");
    verdict.at_least("commit/apart", median(commits), 0.7, "");
    Ok(())
}

async fn create(server: &Server) -> anyhow::Result<()> {
    let settings = json!({ "max_in_flight": 100_000, "max_open": 1_000_000, "on_doubt": "park",
                           "max_backlog_messages": 1_u64 << 40, "max_backlog_bytes": 1_u64 << 50 });
    for name in [TOPIC, NEXT] {
        let topic = json!({ "name": name, "partitions": 4, "settings": settings });
        server.connect().await?.json(&post("/v1/topics", &topic)).await?;
    }
    Ok(())
}

fn message(number: usize) -> Value {
    json!({ "topic": TOPIC, "key": format!("key-{number}"), "value": "v".repeat(256) })
}

/// Returns the tokens of `count` new deliveries.
async fn leased(server: &Server, count: usize) -> anyhow::Result<Vec<String>> {
    let mut wire = server.connect().await?;
    for at in 0..count / 100 {
        let messages: Vec<Value> = (0..100).map(|number| message(at * 100 + number)).collect();
        wire.json(&post("/v1/produce/batch", &json!({ "messages": messages }))).await?;
    }
    let wanted = json!({ "topic": TOPIC, "group": "g", "owner": "o", "max": 1_000, "wait_ms": 200,
                         "lease_ms": 600_000 });
    let mut leases = Vec::new();
    while leases.len() < count {
        let got = wire.json(&post("/v1/receive", &wanted)).await?;
        let messages = got["messages"].as_array().context("messages")?;
        let tokens = messages.iter().filter_map(|one| one["lease"]["token"].as_str());
        leases.extend(tokens.map(str::to_owned));
    }
    Ok(leases)
}

/// Produces one message and acks another that was delivered before, so that neither waits for
/// deliveries.
async fn produce_and_ack(wire: &mut Wire, lease: &String) -> anyhow::Result<()> {
    wire.json(&post("/v1/produce", &next())).await?;
    wire.json(&post("/v1/ack", &json!({ "token": lease }))).await?;
    Ok(())
}

async fn begin_and_finish(wire: &mut Wire, key: &String) -> anyhow::Result<()> {
    let begun = wire.json(&begin(key)).await?;
    let finish =
        json!({ "token": begun["token"], "status": "SUCCEEDED", "result": { "charge": key } });
    wire.json(&post("/v1/effects/finish", &finish)).await?;
    Ok(())
}

fn begin(key: &str) -> Vec<u8> {
    let begin = json!({ "scope": "op/charge", "key": key, "request": "12 EUR", "on_doubt": "park",
                        "lease_ms": 43_200_000 });
    post("/v1/effects/begin", &begin)
}

/// A delivery with an effect begun under it.
struct Work {
    lease: String,
    effect: String,
}

async fn prepared(server: &Server, round: usize, what: &str) -> anyhow::Result<Vec<Work>> {
    let leases = leased(server, COMMITS).await?;
    let chunks: Vec<Vec<String>> =
        leases.chunks(COMMITS / CONNECTIONS).map(<[_]>::to_vec).collect();
    let begun = chunks.into_iter().enumerate().map(|(chunk, leases)| async move {
        let mut wire = server.connect().await?;
        let mut work = Vec::new();
        for (at, lease) in leases.into_iter().enumerate() {
            let key = format!("{what}-{round}-{chunk}-{at}");
            let begin = json!({ "lease_token": lease, "key": key });
            let begun = wire.json(&post("/v1/effects/begin", &begin)).await?;
            let effect = begun["token"].as_str().context("a token")?.to_owned();
            work.push(Work { lease, effect });
        }
        anyhow::Ok(work)
    });
    Ok(try_join_all(begun).await?.into_iter().flatten().collect())
}

/// Runs `one` for all work over all connections. Returns the seconds it took.
async fn each<Work>(
    server: &Server,
    work: Vec<Work>,
    one: impl AsyncFn(&mut Wire, &Work) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let one = &one;
    let wires = try_join_all((0..CONNECTIONS).map(|_| server.connect())).await?;
    let began = Instant::now();
    let chunks = work.chunks(work.len() / CONNECTIONS).zip(wires);
    try_join_all(chunks.map(|(mine, mut wire)| async move {
        for work in mine {
            one(&mut wire, work).await?;
        }
        anyhow::Ok(())
    }))
    .await?;
    Ok(began.elapsed().as_secs_f64())
}

fn next() -> Value {
    json!({ "topic": NEXT, "key": "k", "value": "v".repeat(256) })
}

async fn apart(wire: &mut Wire, work: &Work) -> anyhow::Result<()> {
    let finish =
        json!({ "token": work.effect, "status": "SUCCEEDED", "result": { "charge": "ch_1" } });
    wire.json(&post("/v1/effects/finish", &finish)).await?;
    wire.json(&post("/v1/produce", &next())).await?;
    wire.json(&post("/v1/ack", &json!({ "token": work.lease }))).await?;
    Ok(())
}

async fn commit(wire: &mut Wire, work: &Work) -> anyhow::Result<()> {
    let finish =
        json!({ "token": work.effect, "status": "SUCCEEDED", "result": { "charge": "ch_1" } });
    let commit = json!({ "token": work.lease, "effects": [finish], "produce": [next()] });
    wire.json(&post("/v1/commit", &commit)).await?;
    Ok(())
}

/// Compares begins with many live records and with few.
async fn records(driftq: &str, verdict: &mut Verdict) -> anyhow::Result<()> {
    let few = Server::start(Side::Sqlite(driftq.to_owned())).await?;
    let many = Server::start(Side::Sqlite(driftq.to_owned())).await?;
    load(&few, FEW).await?;
    let began = Instant::now();
    load(&many, MANY).await?;
    println!("{MANY} begun, {:.0}/s", MANY as f64 / began.elapsed().as_secs_f64());
    let mut ratios = Vec::new();
    for round in 0..=ROUNDS {
        let at_few = begins(&few, round).await?;
        let at_many = begins(&many, round).await?;
        println!(
            "round {round}: begin {:.0}/s with many records, {:.0}/s with few",
            WINDOW as f64 / at_many,
            WINDOW as f64 / at_few
        );
        if round > 0 {
            ratios.push(at_few / at_many);
        }
    }
    let (small, large) = (memory(few.pid()?)?, memory(many.pid()?)?);
    verdict.at_least("begin with 5 000 000 records", median(ratios), 0.8, "");
    verdict.under("memory for the records", large.peak - small.peak, 100.0, " MB");
    verdict.under("commits over 100 ms", long_commits(&many).await?, 1.0, "");
    Ok(())
}

async fn load(server: &Server, count: usize) -> anyhow::Result<()> {
    try_join_all((0..LOADERS).map(|number| async move {
        let mut wire = server.connect().await?;
        for at in (number..count).step_by(LOADERS) {
            let answer = wire.ask(&begin(&format!("live-{at}"))).await?;
            anyhow::ensure!(answer.status == 200, "begin returned {}", answer.status);
        }
        anyhow::Ok(())
    }))
    .await?;
    Ok(())
}

/// Returns the seconds for a window of begins.
async fn begins(server: &Server, round: usize) -> anyhow::Result<f64> {
    let keys = (0..WINDOW).map(|at| format!("more-{round}-{at}")).collect();
    each(server, keys, async |wire: &mut Wire, key: &String| {
        let answer = wire.ask(&begin(key)).await?;
        anyhow::ensure!(answer.status == 200, "begin returned {}", answer.status);
        Ok(())
    })
    .await
}

/// Returns the number of commits over 100 ms since the server started, from its metrics.
async fn long_commits(server: &Server) -> anyhow::Result<f64> {
    let mut wire = server.connect().await?;
    let answer = wire.ask(&get("/metrics")).await?;
    let text = String::from_utf8_lossy(answer.body).into_owned();
    let within = |bound: &str| {
        let start = format!("driftq_commit_seconds_bucket{{le=\"{bound}\"}} ");
        let count = text.lines().find_map(|line| line.strip_prefix(&start));
        anyhow::Ok(count.context("no histogram of commits")?.parse::<f64>()?)
    };
    Ok(within("+Inf")? - within("0.1")?)
}
