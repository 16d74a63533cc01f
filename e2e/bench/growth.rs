//! How the cost of a server on PostgreSQL grows with its shards, topics, groups, backlog and
//! waiting consumers. Each case is compared with the same plain server on the same PostgreSQL in
//! the same run.

use std::time::Duration;

use driftq_e2e::postgres::Cluster;
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::lifecycle_load::{Keys, Life, PARTITIONS, create};
use crate::postgres::another;
use crate::server::{Server, Side};
use crate::verdict::Verdict;
use crate::wire::{Wire, get, post};
use driftq_e2e::usage::{cpu, memory};

const WORKERS: usize = 8;
/// Wait after setup, before the measurement.
const SETTLE: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(10);
const BUSY: Duration = Duration::from_secs(10);
/// Minimum speed relative to a plain server.
const SPEED_MIN: f64 = 0.7;
/// One membership query per second, plus PostgreSQL's own activity.
const IDLE_QUERIES_MAX: f64 = 5.0;

/// What a server has in addition to one topic with eight partitions.
#[derive(Clone, Copy)]
struct Has {
    what: &'static str,
    shards: u32,
    topics: usize,
    groups: usize,
    waiting: usize,
    consumers: usize,
}

const PLAIN: Has =
    Has { what: "16 shards", shards: 16, topics: 0, groups: 0, waiting: 0, consumers: 0 };

const ALL: [Has; 6] = [
    Has { what: "1 shard", shards: 1, ..PLAIN },
    Has { what: "256 shards", shards: 256, ..PLAIN },
    Has { what: "1 000 topics", topics: 1_000, ..PLAIN },
    Has { what: "100 groups that wait", groups: 100, ..PLAIN },
    Has { what: "1 000 000 messages that wait", waiting: 1_000_000, ..PLAIN },
    Has { what: "1 000 idle consumers", consumers: 1_000, ..PLAIN },
];

/// The measured costs.
struct Costs {
    memory: f64,
    /// In thousandths of a core.
    idle_cpu: f64,
    /// Transactions per second without load.
    idle_queries: f64,
    lives: f64,
    /// WAL bytes per message.
    log: f64,
}

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new("growth");
    let database = Cluster::start(15).await?;
    println!(
        "{:<30} {:>9} {:>14} {:>14} {:>9} {:>11}",
        "", "memory MB", "idle, ‰ core", "idle queries/s", "lives/s", "log B/life"
    );
    for (at, has) in ALL.into_iter().enumerate() {
        // Measured next to each case, so that noise of the machine affects both.
        let plain = costs(driftq, &database, PLAIN, &format!("plain{at}")).await?;
        let costs = costs(driftq, &database, has, &format!("has{at}")).await?;
        print(PLAIN.what, &plain);
        print(has.what, &costs);
        verdict.at_least(
            &format!("speed with {}", has.what),
            costs.lives / plain.lives,
            SPEED_MIN,
            "",
        );
        verdict.under(
            &format!("idle queries with {}", has.what),
            costs.idle_queries,
            IDLE_QUERIES_MAX,
            "/s",
        );
    }
    Ok(verdict)
}

fn print(what: &str, costs: &Costs) {
    let Costs { memory, idle_cpu, idle_queries, lives, log } = costs;
    println!(
        "{what:<30} {memory:>9.0} {idle_cpu:>14.1} {idle_queries:>14.1} {lives:>9.0} {log:>11.0}"
    );
}

async fn costs(driftq: &str, database: &Cluster, has: Has, name: &str) -> anyhow::Result<Costs> {
    let (driftq, url) = (driftq.to_owned(), another(database, name).await?);
    let server = Server::start(Side::Postgres { driftq, url, shards: has.shards }).await?;
    create(server.address, PARTITIONS).await?;
    let consumers = prepare_case(&server, has).await?;
    sleep(SETTLE).await;
    let pid = server.pid()?;
    let (queries, used, began) = (transactions(database, name).await?, cpu(pid)?, Instant::now());
    sleep(IDLE).await;
    let idle = began.elapsed().as_secs_f64();
    let idle_cpu = (cpu(pid)? - used).as_secs_f64() / idle * 1e3;
    let idle_queries = (transactions(database, name).await? - queries) / idle;
    let memory = memory(pid)?.resident;
    let life = Life::start(&[server.address], WORKERS, Keys::Many).await?;
    life.go_on(Duration::from_secs(2)).await?;
    let (logged, settled) = (log_bytes(database).await?, life.settled());
    let lives = life.window(BUSY).await?.per_second;
    let log = (log_bytes(database).await? - logged) / (life.settled() - settled) as f64;
    life.stop().await?;
    drop(consumers);
    Ok(Costs { memory, idle_cpu, idle_queries, lives, log })
}

/// Creates the state of a case. The returned consumers wait until they are dropped.
async fn prepare_case(server: &Server, has: Has) -> anyhow::Result<Vec<Wire>> {
    let mut wire = server.connect().await?;
    for number in 0..has.topics {
        let topic = json!({ "name": format!("other-{number}"), "partitions": 4 });
        wire.json(&post("/v1/topics", &topic)).await?;
    }
    if has.groups + has.waiting + has.consumers > 0 {
        wire.json(&post("/v1/topics", &json!({ "name": "other", "partitions": 8 }))).await?;
    }
    for number in 0..has.groups {
        let path = format!("/v1/topics/other/groups/group-{number}");
        wire.json(&crate::wire::request("PUT", &path, b"")).await?;
    }
    for _ in 0..has.waiting / 1_000 {
        let message = |at: usize| json!({ "topic": "other", "key": format!("k{at}"), "value": "v".repeat(100) });
        let messages: Vec<Value> = (0..1_000).map(message).collect();
        wire.json(&post("/v1/produce/batch", &json!({ "messages": messages }))).await?;
    }
    try_join_all((0..has.consumers).map(|number| async move {
        let mut wire = server.connect().await?;
        let path = format!("/v1/consume?topic=other&group=idle&owner=worker-{number}");
        let status = wire.ask(&get(&path)).await?.status;
        anyhow::ensure!(status == 200, "a stream is rejected with {status}");
        Ok(wire)
    }))
    .await
}

/// Transactions of a database since it was created. The statistics lag slightly, and the query runs
/// in another database.
async fn transactions(database: &Cluster, name: &str) -> anyhow::Result<f64> {
    let count = format!(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{name}'"
    );
    Ok(database.sql(&count).await?.trim().parse()?)
}

async fn log_bytes(database: &Cluster) -> anyhow::Result<f64> {
    let bytes = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')";
    Ok(database.sql(bytes).await?.trim().parse()?)
}
