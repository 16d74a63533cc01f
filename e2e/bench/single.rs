//! One request per message: the cost of durability, the cost of the queue, and the gain from
//! batches.

use std::time::Duration;

use serde_json::{Value, json};

use crate::load::{Drive, Load};
use crate::server::{Server, Side};
use crate::verdict::{Verdict, median};
use crate::wire::{Answer, post};
use driftq_e2e::usage::cpu;

const TOPIC: &str = "bench";
const ROUNDS: usize = 7;
const FEW: usize = 64;
const MANY: usize = 512;
const BATCH: usize = 100;
const VALUE_BYTES: usize = 256;
const DRIVE: Drive = Drive {
    warm_up: Duration::from_millis(500),
    window: Duration::from_millis(2_000),
    pause: Duration::ZERO,
    is_good: is_stored,
};

/// Whether everything was stored. A batch returns 200 even if some of its items were rejected.
pub(crate) fn is_stored(answer: &Answer<'_>) -> bool {
    let is_all = answer.body.starts_with(b"{\"status\":\"produced\"")
        || answer.body.ends_with(b"\"refused\":0}");
    answer.status == 200 && is_all
}

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Verdict> {
    let memory = Server::start(Side::Memory(driftq.to_owned())).await?;
    let sqlite = Server::start(Side::Sqlite(driftq.to_owned())).await?;
    let bare = Server::start(Side::Bare).await?;
    create(&memory).await?;
    create(&sqlite).await?;
    println!("a flush takes {:.1} ms here", sqlite.flush_time()?.as_secs_f64() * 1e3);
    let (few, many, batches) = (singles(FEW), singles(MANY), batches(FEW));
    let mut ratios = [(); 3].map(|()| Vec::with_capacity(ROUNDS));
    for round in 1..=ROUNDS {
        let in_memory = window("memory, 64", &memory, &few).await?;
        let on_disk = window("sqlite, 64", &sqlite, &few).await?;
        let batched = window("sqlite, 64, batches of 100", &sqlite, &batches).await?;
        let of_nothing = window("bare, 512", &bare, &many).await?;
        let crowded = window("sqlite, 512", &sqlite, &many).await?;
        let [durable, handler, batch] = &mut ratios;
        durable.push(on_disk.per_second / in_memory.per_second);
        handler.push(crowded.per_second / of_nothing.per_second);
        batch.push(batched.per_second * BATCH as f64 / on_disk.per_second);
        println!(
            "round {round}: sqlite/memory {:.2}, sqlite/bare {:.2}, batch/single {:.2}",
            durable[round - 1],
            handler[round - 1],
            batch[round - 1]
        );
    }
    let [durable, handler, batch] = ratios.map(median);
    let mut verdict = Verdict::new("bench-http");
    verdict.at_least("sqlite/memory at 64", durable, 0.4, "");
    verdict.at_least("sqlite/bare at 512", handler, 0.5, "");
    verdict.at_least("batch/single", batch, 5.0, "");
    Ok(verdict)
}

async fn create(server: &Server) -> anyhow::Result<()> {
    // Nothing is consumed here, so the backlog must not be limited.
    let room = json!({ "max_backlog_messages": 1_u64 << 40, "max_backlog_bytes": 1_u64 << 50 });
    let topic = json!({ "name": TOPIC, "partitions": 4, "settings": room });
    server.connect().await?.json(&post("/v1/topics", &topic)).await?;
    Ok(())
}

async fn window(what: &str, server: &Server, requests: &[Vec<u8>]) -> anyhow::Result<Load> {
    let pids = [server.pid()?, std::process::id()];
    let before = pids.map(cpu);
    let load = DRIVE.run(server.address, requests).await?;
    let [server_cpu, client_cpu] = [0, 1].map(|at| {
        let used = cpu(pids[at]).ok()?.checked_sub(*before[at].as_ref().ok()?)?;
        Some(used.as_secs_f64() / (DRIVE.warm_up + DRIVE.window).as_secs_f64())
    });
    println!(
        "{what}: {:.0} requests/s, p99 {:.1} ms, cores: server {:.2}, client {:.2}",
        load.per_second,
        load.p99().as_secs_f64() * 1e3,
        server_cpu.unwrap_or_default(),
        client_cpu.unwrap_or_default()
    );
    Ok(load)
}

/// One request per connection, each with its own key.
fn singles(connections: usize) -> Vec<Vec<u8>> {
    (0..connections).map(|number| post("/v1/produce", &message(number))).collect()
}

fn batches(connections: usize) -> Vec<Vec<u8>> {
    let batch = |number: usize| {
        let messages: Vec<Value> = (0..BATCH).map(|at| message(number * BATCH + at)).collect();
        post("/v1/produce/batch", &json!({ "messages": messages }))
    };
    (0..connections).map(batch).collect()
}

fn message(number: usize) -> Value {
    json!({ "topic": TOPIC, "key": format!("key-{number}"), "value": "v".repeat(VALUE_BYTES) })
}
