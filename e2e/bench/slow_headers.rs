//! Clients that send their headers byte by byte. They must not slow other clients down, and must be
//! disconnected.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::load::Drive;
use crate::server::{Server, Side};
use crate::verdict::{Verdict, median};
use crate::wire::{Answer, post};

const SOCKETS: usize = 500;
/// Pause between two bytes of a connection.
const DRIP: Duration = Duration::from_millis(100);
/// How long the server may keep such a connection: its header timeout and some slack.
const TIMEOUT: Duration = Duration::from_secs(35);
const OTHERS: usize = 16;
const ROUNDS: usize = 7;
const DRIVE: Drive = Drive {
    warm_up: Duration::from_millis(500),
    window: Duration::from_secs(3),
    // A client with a steady load, not a flood, because only the effect of the slow connections on
    // it is measured.
    pause: Duration::from_millis(5),
    is_good,
};

fn is_good(answer: &Answer<'_>) -> bool {
    answer.status == 200
}

pub(crate) async fn run(driftq: &str, verdict: &mut Verdict) -> anyhow::Result<()> {
    let server = Server::start(Side::Sqlite(driftq.to_owned())).await?;
    server.connect().await?.json(&post("/v1/topics", &json!({ "name": "work" }))).await?;
    let produce = post("/v1/produce", &json!({ "topic": "work", "value": "v".repeat(256) }));
    let requests = vec![produce; OTHERS];
    let mut ratios = Vec::with_capacity(ROUNDS);
    for round in 1..=ROUNDS {
        let alone = DRIVE.run(server.address, &requests).await?;
        let slow = open(server.address).await?;
        let beside = DRIVE.run(server.address, &requests).await?;
        // Dropping them closes the connections.
        anyhow::ensure!(slow.len() == SOCKETS, "some were disconnected too early");
        drop(slow);
        let [alone, beside] = [alone, beside].map(|load| load.p99().as_secs_f64() * 1e3);
        println!(
            "round {round}: p99 {alone:.2} ms alone, {beside:.2} ms with {SOCKETS} slow sockets"
        );
        ratios.push(beside / alone);
    }
    verdict.under("p99 with 500 slow sockets", median(ratios), 2.0, " × that without");

    let began = Instant::now();
    let mut slow = open(server.address).await?;
    let mut wait_exited = 0;
    while let Ok(Some(_)) = timeout(TIMEOUT.saturating_sub(began.elapsed()), slow.join_next()).await
    {
        wait_exited += 1;
    }
    let is_all = wait_exited == SOCKETS;
    verdict.must(
        format!("{wait_exited} of {SOCKETS} slow sockets were disconnected within 35 s"),
        is_all,
    );
    let complaints = server.complaints()?;
    verdict.must(format!("no error in the log{complaints}"), complaints.is_empty());
    Ok(())
}

async fn open(address: SocketAddr) -> anyhow::Result<JoinSet<()>> {
    let mut slow = JoinSet::new();
    for _ in 0..SOCKETS {
        let stream = TcpStream::connect(address).await?;
        slow.spawn(drip(stream));
    }
    Ok(slow)
}

/// Sends endless headers one byte at a time until the server disconnects.
async fn drip(mut stream: TcpStream) {
    let begin = b"POST /v1/produce HTTP/1.1\r\nhost: localhost\r\nx-slow: ";
    for byte in begin.iter().copied().chain(std::iter::repeat(b'a')) {
        if stream.write_all(&[byte]).await.is_err() {
            return;
        }
        sleep(DRIP).await;
    }
}
