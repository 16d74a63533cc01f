//! Clients that make the server hold memory for them, all at once, with a budget of 512 MiB:
//!
//! - streams that are not read,
//! - bodies that do not end,
//! - bodies with millions of empty items,
//! - polls over a thousand partitions,
//! - a hundred thousand group names.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::http2::Stalled;
use driftq_e2e::usage::memory;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use crate::attack::Attack;
use crate::edge::raise_handles;
use crate::load::Drive;
use crate::server::{Server, Side};
use crate::verdict::{Verdict, median};
use crate::wire::{Answer, Wire, get, post, request};

const BUDGET: u64 = 512 << 20;
/// 110 % of the budget, in megabytes.
const PEAK_MAX: f64 = BUDGET as f64 / 1e6 * 1.1;
const STREAMS: usize = 500;
const UNFINISHED: usize = 1_000;
const UNFINISHED_BYTES: usize = 7 << 20;
const LISTS: usize = 50;
const LIST_BYTES: usize = (8 << 20) - 64;
const POLLERS: usize = 8;
const PARTITIONS: u32 = 1_000;
const NAMES: usize = 100_000;
const NAMERS: usize = 32;
/// Messages offered to streams that are not read.
const MESSAGES: usize = 40_000;
const MESSAGE_BYTES: usize = 4_096;
/// Size of the message in each of the many partitions.
const LARGE_BYTES: usize = 200_000;
/// Longer than a lease, and longer than the server keeps a connection whose answer is not read.
const ATTACK: Duration = Duration::from_secs(75);
const LEASE_MS: u64 = 10_000;
/// Pause before a client reconnects.
const PAUSE: Duration = Duration::from_secs(1);
const OTHERS: usize = 16;
const ROUNDS: usize = 5;
const DRIVE: Drive = Drive {
    warm_up: Duration::from_millis(500),
    window: Duration::from_secs(3),
    pause: Duration::from_millis(5),
    is_good,
};

fn is_good(answer: &Answer<'_>) -> bool {
    answer.status == 200
}

pub(crate) async fn run(driftq: &str, verdict: &mut Verdict) -> anyhow::Result<()> {
    raise_handles(2 * STREAMS + UNFINISHED + 1_000)?;
    let side = Side::Budgeted { driftq: driftq.to_owned(), bytes: BUDGET };
    let server = Server::start(side).await?;
    let pid = server.pid()?;
    fill(&server).await?;
    let produce = post("/v1/produce", &json!({ "topic": "work", "value": "v".repeat(256) }));
    let requests = vec![produce; OTHERS];
    let mut alone = Vec::new();
    for _ in 0..ROUNDS {
        alone.push(DRIVE.run(server.address, &requests).await?.p99().as_secs_f64() * 1e3);
    }
    let before = memory(pid)?;
    let (address, counts) = (server.address, Arc::new(Counts::default()));
    let counted = counts.clone();
    let attack = Attack::start(move || begin(address, &counted))?;
    let began = Instant::now();
    let mut beside = Vec::new();
    while began.elapsed() < ATTACK || counts.names.load(Ordering::Relaxed) < NAMES {
        anyhow::ensure!(began.elapsed() < 4 * ATTACK, "the groups were not created in time");
        beside.push(DRIVE.run(server.address, &requests).await?.p99().as_secs_f64() * 1e3);
        let resident = memory(pid)?.resident;
        let (at, p99) = (began.elapsed().as_secs(), beside[beside.len() - 1]);
        println!("      after {at} s: {resident:.0} MB, p99 of others {p99:.1} ms");
    }
    attack.stop()?;
    let peak = memory(pid)?.peak;
    println!("      {counts}");
    verdict.note("memory before", before.peak, " MB");
    verdict.under("peak memory under attack", peak, PEAK_MAX, " MB");
    let (alone, beside) = (median(alone), median(beside));
    println!("      p99 of others {alone:.2} ms alone, {beside:.2} ms under attack");
    verdict.under("p99 under attack", beside / alone, 2.0, " × that without");
    verdict.must(counts.to_string(), counts.is_all());
    sleep(Duration::from_millis(2 * LEASE_MS)).await;
    let mut wire = server.connect().await?;
    let topic = wire.json(&get("/v1/topics/stalled2")).await?;
    let dead = topic["dead_letters"].as_u64().context("dead_letters is missing")?;
    verdict.must(format!("{dead} dead letters that were never sent over HTTP/2"), dead == 0);
    let complaints = server.complaints()?;
    verdict.must(format!("no error in the log{complaints}"), complaints.is_empty());
    Ok(())
}

async fn fill(server: &Server) -> anyhow::Result<()> {
    let mut wire = server.connect().await?;
    let once = json!({ "max_attempts": 1, "backoff_ms": 250, "max_backoff_ms": 250 });
    let settings = json!({ "lease_ms": LEASE_MS, "max_in_flight": 10_000 });
    let mut strict = settings.clone();
    strict["retry_policy"] = once;
    for (name, partitions, settings) in [
        ("work", 1, json!({})),
        ("names", 1, json!({})),
        ("wide", PARTITIONS, settings.clone()),
        ("stalled1", 4, settings),
        // A single counted attempt dead-letters the message.
        ("stalled2", 4, strict),
    ] {
        let topic = json!({ "name": name, "partitions": partitions, "settings": settings });
        wire.json(&post("/v1/topics", &topic)).await?;
    }
    let batch = |messages: Vec<Value>| post("/v1/produce/batch", &json!({ "messages": messages }));
    for topic in ["stalled1", "stalled2"] {
        for first in (0..MESSAGES).step_by(1_000) {
            let message = |number| json!({ "topic": topic, "key": format!("k{number}"), "value": "x".repeat(MESSAGE_BYTES) });
            wire.json(&batch((first..first + 1_000).map(message).collect())).await?;
        }
    }
    for first in (0..PARTITIONS).step_by(20) {
        let message = |partition| {
            let envelope = json!({ "partition_override": partition });
            json!({ "topic": "wide", "value": "x".repeat(LARGE_BYTES), "envelope": envelope })
        };
        wire.json(&batch((first..first + 20).map(message).collect())).await?;
    }
    Ok(())
}

/// How often each kind of client has completed its operation.
#[derive(Default)]
struct Counts {
    http2: AtomicUsize,
    http1: AtomicUsize,
    bodies: AtomicUsize,
    lists: AtomicUsize,
    polls: AtomicUsize,
    names: AtomicUsize,
}

impl Counts {
    fn all(&self) -> [(&'static str, usize, usize); 6] {
        let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        [
            ("streams of HTTP/2", count(&self.http2), STREAMS),
            ("streams of HTTP/1.1", count(&self.http1), STREAMS),
            ("unfinished bodies", count(&self.bodies), UNFINISHED),
            ("long lists", count(&self.lists), LISTS),
            ("polls over many partitions", count(&self.polls), POLLERS),
            ("names", count(&self.names), NAMES),
        ]
    }

    /// Whether every client has done so at least once.
    fn is_all(&self) -> bool {
        self.all().iter().all(|(_, count, wanted)| count >= wanted)
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = self.all().map(|(what, count, _)| format!("{count} {what}"));
        f.write_str(&all.join(", "))
    }
}

fn begin(address: SocketAddr, counts: &Arc<Counts>) {
    for number in 0..STREAMS {
        tokio::spawn(stall_http2(address, number, counts.clone()));
        tokio::spawn(stall_http1(address, number, counts.clone()));
    }
    let body: Arc<[u8]> = vec![b'x'; UNFINISHED_BYTES].into();
    for _ in 0..UNFINISHED {
        tokio::spawn(send_unfinished(address, body.clone(), counts.clone()));
    }
    tokio::spawn(send_lists(address, counts.clone()));
    for number in 0..POLLERS {
        tokio::spawn(poll(address, number, counts.clone()));
    }
    for number in 0..NAMERS {
        tokio::spawn(name(address, number, counts.clone()));
    }
}

async fn stall_http2(address: SocketAddr, number: usize, counts: Arc<Counts>) {
    let path = format!("/v1/consume?topic=stalled2&group=g&owner=w{number}&credit=10000");
    // Half of them let the server send a few bytes, less than a line.
    let window = if number.is_multiple_of(2) { 0 } else { 16 };
    loop {
        if let Ok(mut stalled) = Stalled::get(address, &path, window).await {
            counts.http2.fetch_add(1, Ordering::Relaxed);
            stalled.closed().await;
        }
        sleep(PAUSE).await;
    }
}

async fn stall_http1(address: SocketAddr, number: usize, counts: Arc<Counts>) {
    let path = format!("/v1/consume?topic=stalled1&group=g&owner=w{number}&credit=10000");
    loop {
        if let Ok(mut stream) = connect_small(address).await
            && stream.write_all(&get(&path)).await.is_ok()
        {
            counts.http1.fetch_add(1, Ordering::Relaxed);
            // The server closes it within this time.
            sleep(Duration::from_secs(40)).await;
        }
        sleep(PAUSE).await;
    }
}

/// Connects with a tiny receive buffer.
async fn connect_small(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4_096)?;
    socket.connect(address).await
}

async fn send_unfinished(address: SocketAddr, body: Arc<[u8]>, counts: Arc<Counts>) {
    let head = "POST /v1/produce HTTP/1.1\r\nhost: localhost\r\ncontent-length: 8000000\r\n\r\n{\"topic\":\"work\",\"value\":\"";
    loop {
        if let Ok(mut stream) = TcpStream::connect(address).await {
            counts.bodies.fetch_add(1, Ordering::Relaxed);
            let (mut from, mut to) = stream.split();
            let send = async {
                to.write_all(head.as_bytes()).await?;
                to.write_all(&body).await?;
                std::future::pending::<std::io::Result<()>>().await
            };
            let mut answer = [0; 1_024];
            tokio::select! {
                _ = send => {}
                _ = from.read(&mut answer) => {}
            }
        }
        sleep(PAUSE).await;
    }
}

async fn send_lists(address: SocketAddr, counts: Arc<Counts>) {
    let items = vec!["{}"; LIST_BYTES / 3 - 8].join(",");
    let list = request("POST", "/v1/settle", format!("{{\"items\":[{items}]}}").as_bytes());
    while counts.lists.load(Ordering::Relaxed) < LISTS {
        let sent = async { Wire::connect(address).await?.status(&list).await };
        if let Ok(Ok(400)) = timeout(Duration::from_secs(20), sent).await {
            counts.lists.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn poll(address: SocketAddr, number: usize, counts: Arc<Counts>) {
    let poll = json!({ "topic": "wide", "group": format!("r{number}"), "owner": "w", "max": 1_000, "wait_ms": 1_000 });
    let poll = post("/v1/receive", &poll);
    loop {
        let asked = async { Wire::connect(address).await?.status(&poll).await };
        if let Ok(Ok(200)) = timeout(Duration::from_secs(20), asked).await {
            counts.polls.fetch_add(1, Ordering::Relaxed);
        }
        sleep(PAUSE).await;
    }
}

async fn name(address: SocketAddr, number: usize, counts: Arc<Counts>) {
    let mut wire = None;
    for at in (number..NAMES).step_by(NAMERS) {
        let poll =
            json!({ "topic": "names", "group": format!("g{at}"), "owner": "w", "wait_ms": 0 });
        let poll = post("/v1/receive", &poll);
        loop {
            if wire.is_none() {
                wire = Wire::connect(address).await.ok();
            }
            let Some(open) = &mut wire else { continue };
            match open.ask(&poll).await {
                Ok(answer) if answer.status == 200 => break,
                // Too many consumers, so retry.
                Ok(_) => sleep(Duration::from_millis(100)).await,
                Err(_) => wire = None,
            }
        }
        counts.names.fetch_add(1, Ordering::Relaxed);
    }
}
