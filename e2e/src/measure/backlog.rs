//! Two million messages that wait: what they cost in memory, at a restart and in speed.
//!
//! Two servers, one with a long backlog and one with a short one, take turns: some thousand messages are
//! produced, then as many are consumed and acked, so each keeps the backlog it has. What is acked is
//! trimmed at once, in the same window.

use std::cell::Cell;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::{Server, Side};
use crate::verdict::{Verdict, median};
use crate::wire::{Wire, get, post, request};
use driftq_e2e::usage::{Memory, memory};

const LONG: u64 = 2_000_000;
const SHORT: u64 = 10_000;
const PARTITIONS: u32 = 2;
const VALUE_BYTES: usize = 256;
const TOPIC: &str = "work";
const GROUP: &str = "workers";

/// Messages that are produced, then consumed and acked, and how often in one window: so long that trimming,
/// which looks once a second, falls into it.
const PASS: u64 = 20_000;
const PASSES: u64 = 10;
const WINDOW: u64 = PASSES * PASS;
const ROUNDS: usize = 7;
/// Rounds that do not count: caches fill, plans are made.
const WARM_UP: usize = 1;
const CONNECTIONS: u64 = 8;
/// Messages of a request, when measured.
const BATCH: u64 = 100;
/// … and when loading.
const LOAD_BATCH: u64 = 1_000;

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Verdict> {
    let short = Waiting::start(driftq, "short", SHORT).await?;
    let mut long = Waiting::start(driftq, "long", LONG).await?;
    let loaded = memory(long.server.pid()?)?;
    say("loaded", loaded);
    let restart = long.server.kill_and_restart().await?;
    println!("ready {:.2} s after a start that follows a kill", restart.as_secs_f64());

    let first_offsets = long.first_offsets().await?;
    let (mut produced, mut consumed, mut trimmed) = (Vec::new(), Vec::new(), 0);
    for round in 0..WARM_UP + ROUNDS {
        // Who is first has it easier or harder: they take turns in that, too.
        let (at_short, at_long) = if round % 2 == 0 {
            let first = short.window().await?;
            (first, long.window().await?)
        } else {
            let first = long.window().await?;
            (short.window().await?, first)
        };
        let produce = at_short.produce.as_secs_f64() / at_long.produce.as_secs_f64();
        let consume = at_short.consume.as_secs_f64() / at_long.consume.as_secs_f64();
        println!(
            "round {round}: produce {:.0}/s against {:.0}/s: {produce:.2}, \
             consume {:.0}/s against {:.0}/s: {consume:.2}, trimmed {}",
            at_long.produce_rate(),
            at_short.produce_rate(),
            at_long.consume_rate(),
            at_short.consume_rate(),
            at_long.trimmed,
        );
        if round >= WARM_UP {
            produced.push(produce);
            consumed.push(consume);
            trimmed += at_long.trimmed;
        }
    }
    let end = memory(long.server.pid()?)?;
    say("at the end", end);
    println!(
        "first offsets of the long one: {first_offsets:?}, at the end {:?}",
        long.first_offsets().await?
    );

    let mut verdict = Verdict::new("backlog");
    verdict.under("memory", loaded.peak.max(end.peak), 300.0, " MB");
    verdict.under("restart", restart.as_secs_f64(), 2.0, " s");
    verdict.at_least("produce", median(produced), 0.8, "");
    verdict.at_least("consume", median(consumed), 0.8, "");
    // Half of it: what is acked at the very end of a window is trimmed after it.
    let trimmed = trimmed as f64 / (ROUNDS as u64 * WINDOW) as f64;
    verdict.at_least("trimmed inside the windows", trimmed, 0.5, " of what was acked");
    for side in [&short, &long] {
        let waits = side.waiting().await?;
        verdict.must(format!("{waits} wait as before, none lost"), waits == side.waits);
    }
    Ok(verdict)
}

fn say(when: &str, memory: Memory) {
    println!("{when}: {:.0} MB resident, {:.0} MB at most", memory.resident, memory.peak);
}

/// A server with a backlog.
struct Waiting {
    server: Server,
    waits: u64,
}

/// How long a side took for its window.
struct Window {
    produce: Duration,
    consume: Duration,
    /// Messages that went from the disk meanwhile.
    trimmed: u64,
}

impl Window {
    fn produce_rate(&self) -> f64 {
        WINDOW as f64 / self.produce.as_secs_f64()
    }

    fn consume_rate(&self) -> f64 {
        WINDOW as f64 / self.consume.as_secs_f64()
    }
}

impl Waiting {
    async fn start(driftq: &str, name: &str, waits: u64) -> anyhow::Result<Waiting> {
        let server = Server::start(Side::Sqlite(driftq.to_owned())).await?;
        let mut wire = server.connect().await?;
        // Room for all of them, and nothing is kept once it is acked.
        let settings = json!({
            "max_backlog_messages": 2 * LONG, "max_backlog_bytes": 1_u64 << 40, "retention_ms": 0,
        });
        let topic = json!({ "name": TOPIC, "partitions": PARTITIONS, "settings": settings });
        wire.json(&post("/v1/topics", &topic)).await?;
        wire.json(&request("PUT", &group_path(), b"")).await?;
        let waiting = Waiting { server, waits };
        let took = waiting.produce(waits, LOAD_BATCH).await?;
        println!("{name}: {waits} loaded, {:.0}/s", waits as f64 / took.as_secs_f64());
        Ok(waiting)
    }

    async fn window(&self) -> anyhow::Result<Window> {
        let (mut produce, mut consume) = (Duration::ZERO, Duration::ZERO);
        let before = self.first_offsets().await?;
        for _ in 0..PASSES {
            produce += self.produce(PASS, BATCH).await?;
            consume += self.consume().await?;
        }
        let after = self.first_offsets().await?;
        let trimmed = after.iter().sum::<u64>() - before.iter().sum::<u64>();
        Ok(Window { produce, consume, trimmed })
    }

    /// Produces so many, as fast as they are taken.
    async fn produce(&self, count: u64, batch: u64) -> anyhow::Result<Duration> {
        let wires = self.connect().await?;
        let request = &batch_of(batch);
        let began = Instant::now();
        let each = count / batch / CONNECTIONS;
        let rest = count / batch % CONNECTIONS;
        let produces = (0..).zip(wires).map(|(number, mut wire)| async move {
            for _ in 0..each + u64::from(number < rest) {
                let answer = wire.ask(request).await?;
                let is_stored = answer.body.ends_with(b"\"refused\":0}");
                let says = String::from_utf8_lossy;
                anyhow::ensure!(is_stored, "{}: {}", answer.status, says(answer.body));
            }
            Ok(())
        });
        try_join_all(produces).await?;
        Ok(began.elapsed())
    }

    /// Consumes and acks as many as a window produced.
    async fn consume(&self) -> anyhow::Result<Duration> {
        let wires = self.connect().await?;
        let left = &Cell::new(PASS);
        let began = Instant::now();
        let consumers = wires.into_iter().map(|mut wire| async move {
            while left.get() > 0 {
                let share = left.get().min(BATCH);
                left.set(left.get() - share);
                let acked = receive_and_ack(&mut wire, share).await?;
                left.set(left.get() + share - acked);
            }
            anyhow::Ok(())
        });
        try_join_all(consumers).await?;
        Ok(began.elapsed())
    }

    async fn connect(&self) -> anyhow::Result<Vec<Wire>> {
        try_join_all((0..CONNECTIONS).map(|_| self.server.connect())).await
    }

    async fn first_offsets(&self) -> anyhow::Result<Vec<u64>> {
        let topic = self.server.connect().await?.json(&get(&format!("/v1/topics/{TOPIC}"))).await?;
        let partitions = topic["partitions_detail"].as_array().cloned().unwrap_or_default();
        Ok(partitions.iter().map(|of| of["first_offset"].as_u64().unwrap_or_default()).collect())
    }

    async fn waiting(&self) -> anyhow::Result<u64> {
        let group = self.server.connect().await?.json(&get(&group_path())).await?;
        Ok(group["backlog"].as_u64().unwrap_or_default())
    }
}

fn group_path() -> String {
    format!("/v1/topics/{TOPIC}/groups/{GROUP}")
}

fn batch_of(count: u64) -> Vec<u8> {
    let value = "v".repeat(VALUE_BYTES);
    let message = |at: u64| json!({ "topic": TOPIC, "key": format!("key-{at}"), "value": value });
    let messages: Vec<Value> = (0..count).map(message).collect();
    post("/v1/produce/batch", &json!({ "messages": messages }))
}

#[derive(Deserialize)]
struct Received<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    lease: Lease<'a>,
}

#[derive(Deserialize)]
struct Lease<'a> {
    token: &'a str,
}

/// Takes up to `most` and acks them. Says how many there were.
async fn receive_and_ack(wire: &mut Wire, most: u64) -> anyhow::Result<u64> {
    let receive = json!({ "topic": TOPIC, "group": GROUP, "owner": "worker", "max": most });
    let answer = wire.ask(&post("/v1/receive", &receive)).await?;
    let received: Received<'_> = serde_json::from_slice(answer.body)?;
    let ack = |message: &Message<'_>| json!({ "op": "ack", "token": message.lease.token });
    let items: Vec<Value> = received.messages.iter().map(ack).collect();
    let count = items.len() as u64;
    if count > 0 {
        let settled = wire.json(&post("/v1/settle", &json!({ "items": items }))).await?;
        anyhow::ensure!(settled["refused"] == 0, "an ack was refused: {settled}");
    }
    Ok(count)
}
