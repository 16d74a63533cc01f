//! Unfinished request bodies share one memory limit, however many connections send them.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::scene::{Fixture, MEMORY_MAX, Seen};

const BODIES: usize = 80;
const BYTES: usize = 7 * 1024 * 1024;
/// A server at its limit may stop reading or close the connection.
const SENT_WITHIN: Duration = Duration::from_secs(8);

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let scene = Fixture::start(driftq).await?;
    scene.topic("t", 1, json!({})).await?;
    let (before, _) = scene.memory()?;
    let head = "POST /v1/produce HTTP/1.1\r\nhost: localhost\r\ncontent-length: 8000000\r\n\r\n{\"topic\":\"t\",\"value\":\"";
    let body: &'static [u8] = vec![b'x'; BYTES].leak();
    let mut senders = JoinSet::new();
    for _ in 0..BODIES {
        let mut stream = TcpStream::connect(scene.server.address).await?;
        senders.spawn(async move {
            let send = async {
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(body).await
            };
            let sent = tokio::time::timeout(SENT_WITHIN, send).await;
            // Kept open until all senders are done.
            (stream, matches!(sent, Ok(Ok(()))))
        });
    }
    let streams = senders.join_all().await;
    let sent = streams.iter().filter(|(_, is_sent)| *is_sent).count();
    let (_, peak) = scene.memory()?;
    let health = scene.api.get("healthz").await?;
    anyhow::ensure!(health.status == 200, "the server is not healthy: {health}");
    Ok(Seen::kept_if(peak < MEMORY_MAX, || {
        format!("{sent} unfinished bodies raise memory from {before:.0} to {peak:.0} MB")
    }))
}
