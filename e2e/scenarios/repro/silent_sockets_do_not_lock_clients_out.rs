//! When the server is at its connection limit, connections that send nothing or an incomplete
//! request line are closed in favour of new clients.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::raw::{exchange, status};
use crate::scene::{Fixture, Seen};

const CONNECTIONS: usize = 50;
const CLIENTS: usize = 10;
const SERVED_WITHIN: Duration = Duration::from_secs(1);
const BEGINNINGS: [&[u8]; 4] = [b"", b"P", b"PRI * HTTP", b"GET / HT"];
const HEALTH: &[u8] = b"GET /v1/healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let limit = CONNECTIONS.to_string();
    let scene = Fixture::start_with(driftq, &["--limits-connections", &limit]).await?;
    let address = scene.server.address;
    let mut silent = Vec::new();
    for number in 0..2 * CONNECTIONS {
        let mut stream = TcpStream::connect(address).await?;
        // A connection that is rejected already is silent too.
        let _sent = stream.write_all(BEGINNINGS[number % BEGINNINGS.len()]).await;
        silent.push(stream);
    }
    let mut rejected = Vec::new();
    for _ in 0..CLIENTS {
        let began = Instant::now();
        let answer = exchange(address, HEALTH, SERVED_WITHIN).await?;
        let status = status(&answer);
        if status != Some(200) || began.elapsed() >= SERVED_WITHIN {
            rejected.push(status);
        }
    }
    Ok(Seen::kept_if(rejected.is_empty(), || {
        format!(
            "{} of {CLIENTS} clients get {:?} while silent sockets are open",
            rejected.len(),
            rejected[0]
        )
    }))
}
