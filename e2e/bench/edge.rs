//! More sockets than the connection limit, none of which ever sends a request. A client that does
//! send one is served at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::attack::Attack;
use crate::server::{Server, Side};
use crate::verdict::Verdict;
use crate::wire::{Wire, get, post};

const CONNECTIONS: usize = 1_000;
const SOCKETS: usize = 5_000;
/// Longer than the header timeout, so that every deadline passes.
const WINDOW: Duration = Duration::from_secs(40);
/// Pause between two requests of a client, each on a new connection.
const PAUSE: Duration = Duration::from_millis(20);
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
const SERVED_MS: f64 = 100.0;
const HEALTH_P99_MS: f64 = 50.0;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// What each kind of socket sends before it waits for the server to close the connection.
const KINDS: [(&str, &[&[u8]]); 4] = [
    ("silent", &[]),
    ("half preface", &[b"PRI * HTTP"]),
    ("half headers", &[b"POST /v1/produce HTTP/1.1\r\nhost: localhost\r\nx-slow: "]),
    ("idle HTTP/2", &[PREFACE, SETTINGS]),
];

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new("edge");
    raise_handles(SOCKETS + CONNECTIONS)?;
    let side = Side::Limited { driftq: driftq.to_owned(), connections: CONNECTIONS };
    let server = Server::start(side).await?;
    server.connect().await?.json(&post("/v1/topics", &json!({ "name": "work" }))).await?;
    let (address, counts) = (server.address, Arc::new(Counts::default()));
    let seen = counts.clone();
    let attack = Attack::start(move || {
        for number in 0..SOCKETS {
            tokio::spawn(attack(address, number % KINDS.len(), seen.clone()));
        }
    })?;
    let produce = post("/v1/produce", &json!({ "topic": "work", "value": "v" }));
    let health = get("/v1/healthz");
    let (served, health) =
        tokio::join!(clients(server.address, &produce), clients(server.address, &health));
    let held = counts.alive.load(Ordering::Relaxed);
    attack.stop()?;
    let opened = counts.opened.each_ref().map(|count| count.load(Ordering::Relaxed));
    for ((kind, _), opened) in KINDS.iter().zip(&opened) {
        println!("      {kind}: {opened} connections opened");
    }
    let total: usize = opened.iter().sum();
    verdict.note("connections of the attack", total as f64, "");
    verdict.must(format!("{held} sockets were open or connecting at the end"), held == SOCKETS);
    verdict.must(
        format!("{total} connections: every socket reconnected after it was closed"),
        total > 2 * SOCKETS,
    );
    for (what, times) in [("produce", &served), ("health", &health)] {
        let failed = times.failed;
        let count = times.took.len();
        verdict.must(format!("{failed} of {count} requests for {what} failed"), failed == 0);
    }
    verdict.under("slowest produce on a new connection", served.slowest_ms(), SERVED_MS, " ms");
    verdict.under("p99 of health on a new connection", health.p99_ms(), HEALTH_P99_MS, " ms");
    let complaints = server.complaints()?;
    verdict.must(format!("no error in the log{complaints}"), complaints.is_empty());
    Ok(verdict)
}

/// Raises the file limit of this process, and of the server, which inherits it.
pub(crate) fn raise_handles(count: usize) -> anyhow::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let is_enough = maximum.is_none_or(|most| most > count as u64);
    anyhow::ensure!(is_enough, "needs more than {count} file handles; raise `ulimit -n`");
    Ok(())
}

/// Latencies of one client that opens a new connection for each request.
struct Times {
    took: Vec<Duration>,
    failed: usize,
}

impl Times {
    fn ms(&self, at: usize) -> f64 {
        self.took.get(at).map_or(f64::INFINITY, |took| took.as_secs_f64() * 1e3)
    }

    fn slowest_ms(&self) -> f64 {
        self.ms(self.took.len().saturating_sub(1))
    }

    fn p99_ms(&self) -> f64 {
        self.ms(self.took.len() * 99 / 100)
    }
}

/// Sends requests one after another for [`WINDOW`].
async fn clients(address: SocketAddr, request: &[u8]) -> Times {
    let until = Instant::now() + WINDOW;
    let mut times = Times { took: Vec::new(), failed: 0 };
    while Instant::now() < until {
        let began = Instant::now();
        let asked = timeout(TIMEOUT, async {
            let status = Wire::connect(address).await?.ask(request).await?.status;
            anyhow::ensure!(status == 200, "{status}");
            anyhow::Ok(())
        });
        if let Err(error) = asked.await.context("no answer").flatten() {
            if times.failed == 0 {
                println!("      the first failure: {error:#}");
            }
            times.failed += 1;
        }
        times.took.push(began.elapsed());
        sleep(PAUSE).await;
    }
    times.took.sort_unstable();
    times
}

#[derive(Default)]
struct Counts {
    opened: [AtomicUsize; KINDS.len()],
    alive: AtomicUsize,
}

/// One attacking socket, which reconnects whenever it is closed.
async fn attack(address: SocketAddr, kind: usize, counts: Arc<Counts>) {
    counts.alive.fetch_add(1, Ordering::Relaxed);
    loop {
        if let Ok(stream) = TcpStream::connect(address).await {
            counts.opened[kind].fetch_add(1, Ordering::Relaxed);
            // Reconnects in every case.
            let _closed = wait(stream, KINDS[kind].1).await;
        } else {
            sleep(PAUSE).await;
        }
    }
}

/// Sends `bytes`, then only acknowledges PING and SETTINGS frames until the server closes the
/// connection.
async fn wait(mut stream: TcpStream, bytes: &[&[u8]]) -> std::io::Result<()> {
    const ACK: u8 = 1;
    const SETTINGS_KIND: u8 = 4;
    const PING_KIND: u8 = 6;
    for part in bytes {
        stream.write_all(part).await?;
    }
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await?;
        if [SETTINGS_KIND, PING_KIND].contains(&head[3]) && head[4] & ACK == 0 {
            let kept = if head[3] == PING_KIND { payload } else { Vec::new() };
            head[4] |= ACK;
            head[2] = u8::try_from(kept.len()).unwrap_or_default();
            (head[0], head[1]) = (0, 0);
            stream.write_all(&[&head[..], &kept].concat()).await?;
        }
    }
}
