//! A server with one topic whose group has a backlog.

use std::cell::Cell;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use serde::Deserialize;
use serde_json::{Value, json};

use super::part::{Fill, Requests};
use crate::server::{Server, Side};
use crate::single::is_stored;
use crate::wire::{Wire, get, post, request};

const TOPIC: &str = "work";
const GROUP: &str = "workers";
/// Number of connections for batches and for consumers.
const CONNECTIONS: u32 = 8;
/// Messages that a consumer receives and acks at a time.
const RECEIVE_MAX: u64 = 100;
/// How long a restarted server may take until its group answers.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Queue {
    pub(crate) server: Server,
    pub(crate) backlog: u64,
    fill: Fill,
}

/// The result of a window.
pub(crate) struct Window {
    pub(crate) produce: Duration,
    pub(crate) consume: Duration,
    /// Messages that were deleted from the storage meanwhile.
    pub(crate) trimmed: u64,
}

impl Queue {
    /// Starts a server and loads its backlog.
    pub(crate) async fn start(side: Side, fill: Fill, backlog: u64) -> anyhow::Result<Queue> {
        let server = Server::start(side).await?;
        let mut wire = server.connect().await?;
        // No backlog limit, and no retention of acked messages.
        let settings = json!({
            "max_backlog_messages": 2 * fill.long, "max_backlog_bytes": 1_u64 << 40, "retention_ms": 0,
        });
        let topic = json!({ "name": TOPIC, "partitions": fill.partitions, "settings": settings });
        wire.json(&post("/v1/topics", &topic)).await?;
        wire.json(&request("PUT", &group_path(), b"")).await?;
        let queue = Queue { server, backlog, fill };
        let load = match fill.requests {
            Requests::Batches { load, .. } => load,
            Requests::Singles => 1,
        };
        let took = queue.produce(backlog, load).await?;
        println!("{backlog} loaded, {:.0}/s", backlog as f64 / took.as_secs_f64());
        Ok(queue)
    }

    /// Sends SIGKILL and starts the server on the same data. Returns the time until the group
    /// answers.
    pub(crate) async fn restart(&mut self) -> anyhow::Result<Duration> {
        let ready = self.server.kill_and_restart().await?;
        let began = Instant::now();
        while let Err(error) = self.waiting().await {
            anyhow::ensure!(
                began.elapsed() < RESTART_TIMEOUT,
                "the group does not answer: {error}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(ready + began.elapsed())
    }

    pub(crate) async fn window(&self) -> anyhow::Result<Window> {
        let batch = match self.fill.requests {
            Requests::Batches { window, .. } => window,
            Requests::Singles => 1,
        };
        let (mut produce, mut consume) = (Duration::ZERO, Duration::ZERO);
        let before = self.first_offsets().await?;
        for _ in 0..self.fill.passes {
            produce += self.produce(self.fill.pass, batch).await?;
            consume += self.consume().await?;
        }
        let after = self.first_offsets().await?;
        let trimmed = after.iter().sum::<u64>() - before.iter().sum::<u64>();
        Ok(Window { produce, consume, trimmed })
    }

    /// Produces `count` messages as fast as they are accepted.
    async fn produce(&self, count: u64, batch: u64) -> anyhow::Result<Duration> {
        let connections = match self.fill.requests {
            Requests::Batches { .. } => CONNECTIONS,
            Requests::Singles => self.fill.partitions,
        };
        let wires = self.connect(connections).await?;
        let began = Instant::now();
        let each = count / batch / u64::from(connections);
        let rest = count / batch % u64::from(connections);
        let produces = (0..connections).zip(wires).map(|(number, mut wire)| async move {
            let request = self.request(number, batch);
            for _ in 0..each + u64::from(u64::from(number) < rest) {
                let answer = wire.ask(&request).await?;
                let message = String::from_utf8_lossy;
                anyhow::ensure!(is_stored(&answer), "{}: {}", answer.status, message(answer.body));
            }
            Ok(())
        });
        try_join_all(produces).await?;
        Ok(began.elapsed())
    }

    /// The request that a connection repeats.
    fn request(&self, connection: u32, batch: u64) -> Vec<u8> {
        let value = "v".repeat(self.fill.value_bytes);
        match self.fill.requests {
            Requests::Batches { .. } => {
                let message =
                    |at: u64| json!({ "topic": TOPIC, "key": format!("key-{at}"), "value": value });
                let messages: Vec<Value> = (0..batch).map(message).collect();
                post("/v1/produce/batch", &json!({ "messages": messages }))
            }
            Requests::Singles => {
                let envelope = json!({ "partition_override": connection });
                post(
                    "/v1/produce",
                    &json!({ "topic": TOPIC, "value": value, "envelope": envelope }),
                )
            }
        }
    }

    /// Consumes and acks as many messages as one pass produces.
    async fn consume(&self) -> anyhow::Result<Duration> {
        let wires = self.connect(CONNECTIONS).await?;
        let left = &Cell::new(self.fill.pass);
        let began = Instant::now();
        let consumers = wires.into_iter().map(|mut wire| async move {
            while left.get() > 0 {
                let share = left.get().min(RECEIVE_MAX);
                left.set(left.get() - share);
                let acked = receive_and_ack(&mut wire, share).await?;
                left.set(left.get() + share - acked);
            }
            anyhow::Ok(())
        });
        try_join_all(consumers).await?;
        Ok(began.elapsed())
    }

    async fn connect(&self, count: u32) -> anyhow::Result<Vec<Wire>> {
        try_join_all((0..count).map(|_| self.server.connect())).await
    }

    pub(crate) async fn first_offsets(&self) -> anyhow::Result<Vec<u64>> {
        let topic = self.server.connect().await?.json(&get(&format!("/v1/topics/{TOPIC}"))).await?;
        let partitions = topic["partitions_detail"].as_array().cloned().unwrap_or_default();
        Ok(partitions.iter().map(|of| of["first_offset"].as_u64().unwrap_or_default()).collect())
    }

    /// Messages that the group has not settled.
    pub(crate) async fn waiting(&self) -> anyhow::Result<u64> {
        let group = self.server.connect().await?.json(&get(&group_path())).await?;
        Ok(group["backlog"].as_u64().unwrap_or_default())
    }
}

fn group_path() -> String {
    format!("/v1/topics/{TOPIC}/groups/{GROUP}")
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

/// Receives up to `most` messages and acks them. Returns how many there were.
async fn receive_and_ack(wire: &mut Wire, most: u64) -> anyhow::Result<u64> {
    let receive = json!({ "topic": TOPIC, "group": GROUP, "owner": "worker", "max": most });
    let answer = wire.ask(&post("/v1/receive", &receive)).await?;
    let received: Received<'_> = serde_json::from_slice(answer.body)?;
    let ack = |message: &Message<'_>| json!({ "op": "ack", "token": message.lease.token });
    let items: Vec<Value> = received.messages.iter().map(ack).collect();
    let count = items.len() as u64;
    if count > 0 {
        let settled = wire.json(&post("/v1/settle", &json!({ "items": items }))).await?;
        anyhow::ensure!(settled["refused"] == 0, "an ack was rejected: {settled}");
    }
    Ok(count)
}
