//! Connections that send requests as fast as they are answered, or with a pause.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::wire::{Answer, Wire};

/// The result of a window.
pub(crate) struct Load {
    pub(crate) per_second: f64,
    /// The latency of every answer in the window, sorted.
    took: Vec<Duration>,
}

/// How a load is driven.
pub(crate) struct Drive {
    /// Time before the window starts.
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    /// Pause between an answer and the next request of a connection.
    pub(crate) pause: Duration,
    /// Whether an answer is the expected one. Any other fails the run.
    pub(crate) is_good: fn(&Answer<'_>) -> bool,
}

impl Load {
    /// The 99th percentile of the latency.
    pub(crate) fn p99(&self) -> Duration {
        self.took.get(self.took.len() * 99 / 100).copied().unwrap_or_default()
    }
}

impl Drive {
    /// Opens one connection for each of `requests`, which it repeats.
    pub(crate) async fn run(
        &self,
        address: SocketAddr,
        requests: &[Vec<u8>],
    ) -> anyhow::Result<Load> {
        let wires = try_join_all(requests.iter().map(|_| Wire::connect(address))).await?;
        let begin = Instant::now() + self.warm_up;
        let asking = wires.into_iter().zip(requests);
        let tasks = asking.map(|(wire, request)| {
            tokio::spawn(ask(wire, request.clone(), begin, self.window, self.pause, self.is_good))
        });
        let mut took = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            took.extend(task.await??);
        }
        took.sort_unstable();
        Ok(Load { per_second: took.len() as f64 / self.window.as_secs_f64(), took })
    }
}

async fn ask(
    mut wire: Wire,
    request: Vec<u8>,
    begin: Instant,
    window: Duration,
    pause: Duration,
    is_good: fn(&Answer<'_>) -> bool,
) -> anyhow::Result<Vec<Duration>> {
    let mut took = Vec::new();
    loop {
        let asked = Instant::now();
        let answer = wire.ask(&request).await?;
        let message = String::from_utf8_lossy;
        anyhow::ensure!(is_good(&answer), "{}: {}", answer.status, message(answer.body));
        let answered = Instant::now();
        if answered >= begin + window {
            return Ok(took);
        }
        if answered >= begin {
            took.push(answered - asked);
        }
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}
