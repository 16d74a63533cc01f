//! What the effect ledger costs: against the queue beside it, a commit against its parts, and with five
//! million records against ten thousand.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use crate::server::{Server, Side};
use crate::usage::memory;
use crate::verdict::{Verdict, median};
use crate::wire::{Wire, get, post};

const TOPIC: &str = "work";
const NEXT: &str = "next";
const CONNECTIONS: usize = 64;
const ROUNDS: usize = 5;
/// Units of work of a window, over all connections.
const WINDOW: usize = 12_800;
/// Commits are slower to prepare: each needs a delivery and a begin.
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

/// Begin and finish against produce and ack; a commit against its parts sent apart.
async fn pairs(driftq: &str, verdict: &mut Verdict) -> anyhow::Result<()> {
    let server = Server::start(Side::Sqlite(driftq.to_owned())).await?;
    create(&server).await?;
    let (mut effects, mut commits) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let queue = produce_and_ack(&server).await?;
        let ledger = begin_and_finish(&server, round).await?;
        let apart = prepared(&server, round, "apart").await?;
        let apart = each(&server, apart, |wire, work| Box::pin(apart_one(wire, work))).await?;
        let together = prepared(&server, round, "together").await?;
        let together =
            each(&server, together, |wire, work| Box::pin(commit_one(wire, work))).await?;
        println!(
            "round {round}: produce+ack {:.0}/s, begin+finish {:.0}/s, apart {:.0}/s, commit {:.0}/s",
            WINDOW as f64 / queue,
            WINDOW as f64 / ledger,
            COMMITS as f64 / apart,
            COMMITS as f64 / together
        );
        // The first fills caches.
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

/// Tokens of deliveries, for whoever acks next.
type Tokens = Rc<RefCell<VecDeque<String>>>;

async fn receive(wire: &mut Wire, max: usize) -> anyhow::Result<Vec<String>> {
    let wanted = json!({ "topic": TOPIC, "group": "g", "owner": "o", "max": max, "wait_ms": 200,
                         "lease_ms": 600_000 });
    let got = wire.json(&post("/v1/receive", &wanted)).await?;
    let messages = got["messages"].as_array().context("messages")?;
    Ok(messages.iter().filter_map(|one| Some(one["lease"]["token"].as_str()?.to_owned())).collect())
}

/// Seconds for a window in which every connection produces one and acks one.
async fn produce_and_ack(server: &Server) -> anyhow::Result<f64> {
    let tokens = Tokens::default();
    let feeding = {
        let (tokens, mut wire) = (tokens.clone(), server.connect().await?);
        async move {
            let mut left = WINDOW;
            while left > 0 {
                let more = receive(&mut wire, 256).await?;
                left = left.saturating_sub(more.len());
                tokens.borrow_mut().extend(more);
            }
            anyhow::Ok(())
        }
    };
    let working = (0..CONNECTIONS).map(|number| {
        let tokens = tokens.clone();
        async move {
            let mut wire = server.connect().await?;
            for _ in 0..WINDOW / CONNECTIONS {
                wire.json(&post("/v1/produce", &message(number))).await?;
                let token = loop {
                    let next = tokens.borrow_mut().pop_front();
                    match next {
                        Some(token) => break token,
                        None => tokio::time::sleep(Duration::from_micros(200)).await,
                    }
                };
                wire.json(&post("/v1/ack", &json!({ "token": token }))).await?;
            }
            anyhow::Ok(())
        }
    });
    let began = Instant::now();
    let (fed, worked) = tokio::join!(feeding, try_join_all(working));
    fed?;
    worked?;
    Ok(began.elapsed().as_secs_f64())
}

async fn begin_and_finish(server: &Server, round: usize) -> anyhow::Result<f64> {
    let began = Instant::now();
    try_join_all((0..CONNECTIONS).map(|number| async move {
        let mut wire = server.connect().await?;
        for at in 0..WINDOW / CONNECTIONS {
            let key = format!("{round}-{number}-{at}");
            let begun = wire.json(&begin(&key)).await?;
            let finish = json!({ "token": begun["token"], "status": "SUCCEEDED", "result": { "charge": key } });
            wire.json(&post("/v1/idempotency/finish", &finish)).await?;
        }
        anyhow::Ok(())
    }))
    .await?;
    Ok(began.elapsed().as_secs_f64())
}

fn begin(key: &str) -> Vec<u8> {
    let begin = json!({ "scope": "op/charge", "key": key, "request": "12 EUR", "on_doubt": "park",
                        "lease_ms": 43_200_000 });
    post("/v1/idempotency/begin", &begin)
}

/// A delivery with an effect begun under it.
struct Work {
    lease: String,
    effect: String,
}

async fn prepared(server: &Server, round: usize, what: &str) -> anyhow::Result<Vec<Work>> {
    let mut wire = server.connect().await?;
    for at in 0..COMMITS / 100 {
        let messages: Vec<Value> = (0..100).map(|number| message(at * 100 + number)).collect();
        wire.json(&post("/v1/produce/batch", &json!({ "messages": messages }))).await?;
    }
    let mut leases = Vec::new();
    while leases.len() < COMMITS {
        leases.extend(receive(&mut wire, 1_000).await?);
    }
    let chunks: Vec<Vec<String>> =
        leases.chunks(COMMITS / CONNECTIONS).map(<[_]>::to_vec).collect();
    let begun = chunks.into_iter().enumerate().map(|(chunk, leases)| async move {
        let mut wire = server.connect().await?;
        let mut work = Vec::new();
        for (at, lease) in leases.into_iter().enumerate() {
            let key = format!("{what}-{round}-{chunk}-{at}");
            let begin = json!({ "lease_token": lease, "key": key });
            let begun = wire.json(&post("/v1/idempotency/begin", &begin)).await?;
            let effect = begun["token"].as_str().context("a token")?.to_owned();
            work.push(Work { lease, effect });
        }
        anyhow::Ok(work)
    });
    Ok(try_join_all(begun).await?.into_iter().flatten().collect())
}

type Doing<'a> = std::pin::Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;

/// Seconds until everything is done, by all connections.
async fn each(
    server: &Server,
    work: Vec<Work>,
    one: impl for<'a> Fn(&'a mut Wire, &'a Work) -> Doing<'a>,
) -> anyhow::Result<f64> {
    let one = &one;
    let began = Instant::now();
    try_join_all(work.chunks(COMMITS / CONNECTIONS).map(|mine| async move {
        let mut wire = server.connect().await?;
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

async fn apart_one(wire: &mut Wire, work: &Work) -> anyhow::Result<()> {
    let finish =
        json!({ "token": work.effect, "status": "SUCCEEDED", "result": { "charge": "ch_1" } });
    wire.json(&post("/v1/idempotency/finish", &finish)).await?;
    wire.json(&post("/v1/produce", &next())).await?;
    wire.json(&post("/v1/ack", &json!({ "token": work.lease }))).await?;
    Ok(())
}

async fn commit_one(wire: &mut Wire, work: &Work) -> anyhow::Result<()> {
    let finish =
        json!({ "token": work.effect, "status": "SUCCEEDED", "result": { "charge": "ch_1" } });
    let commit = json!({ "token": work.lease, "effects": [finish], "produce": [next()] });
    wire.json(&post("/v1/commit", &commit)).await?;
    Ok(())
}

/// Begin with many live records against begin with few.
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
            "round {round}: begin {:.0}/s against {:.0}/s",
            WINDOW as f64 / at_many,
            WINDOW as f64 / at_few
        );
        if round > 0 {
            ratios.push(at_few / at_many);
        }
    }
    let (small, large) = (memory(few.pid()?)?, memory(many.pid()?)?);
    verdict.at_least("begin beside 5 000 000", median(ratios), 0.8, "");
    verdict.under("memory for them", large.peak - small.peak, 100.0, " MB");
    verdict.under("longest commit", longest_commit(&many).await?, 0.1, " s");
    Ok(())
}

async fn load(server: &Server, count: usize) -> anyhow::Result<()> {
    try_join_all((0..LOADERS).map(|number| async move {
        let mut wire = server.connect().await?;
        for at in (number..count).step_by(LOADERS) {
            let answer = wire.ask(&begin(&format!("live-{at}"))).await?;
            anyhow::ensure!(answer.status == 200, "begin is answered {}", answer.status);
        }
        anyhow::Ok(())
    }))
    .await?;
    Ok(())
}

async fn begins(server: &Server, round: usize) -> anyhow::Result<f64> {
    let began = Instant::now();
    try_join_all((0..CONNECTIONS).map(|number| async move {
        let mut wire = server.connect().await?;
        for at in 0..WINDOW / CONNECTIONS {
            let answer = wire.ask(&begin(&format!("more-{round}-{number}-{at}"))).await?;
            anyhow::ensure!(answer.status == 200, "begin is answered {}", answer.status);
        }
        anyhow::Ok(())
    }))
    .await?;
    Ok(began.elapsed().as_secs_f64())
}

/// The least bound of the histogram of commits that none is above, in seconds.
async fn longest_commit(server: &Server) -> anyhow::Result<f64> {
    let mut wire = server.connect().await?;
    let answer = wire.ask(&get("/metrics")).await?;
    let text = String::from_utf8_lossy(answer.body).into_owned();
    let buckets = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("driftq_commit_seconds_bucket{")?;
        let (labels, count) = rest.split_once("} ")?;
        let bound = labels.split("le=\"").nth(1)?.split('"').next()?;
        Some((bound.parse::<f64>().ok()?, count.parse::<f64>().ok()?))
    });
    let buckets: Vec<(f64, f64)> = buckets.collect();
    let all = buckets.iter().map(|(_, count)| *count).fold(0.0, f64::max);
    let within = buckets.iter().filter(|(_, count)| *count >= all).map(|(bound, _)| *bound);
    let longest = within.fold(f64::INFINITY, f64::min);
    anyhow::ensure!(longest.is_finite() || !buckets.is_empty(), "there is no histogram of commits");
    Ok(longest)
}
