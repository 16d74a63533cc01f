//! Tests of DriftQ workers.
//!
//! A [`Broker`] is a real server in the process of the test. It stores in memory, and the test
//! advances its clock, so a retry after an hour takes no hour.
//!
//! ```
//! use driftq_client::{Context, Fail, Message, Worker};
//! use driftq_testing::Broker;
//!
//! async fn greet(name: String, ctx: Context) -> Result<(), Fail> {
//!     if ctx.delivery().attempts == 1 {
//!         return Err(Fail::retry("try later"));
//!     }
//!     ctx.commit().produce("greetings", &format!("hello {name}"))?.send().await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let broker = Broker::start(["names", "greetings"]).await?;
//! broker.client().produce(Message::json("names", &"Ada")?).await?;
//! broker.settle(Worker::new(broker.client().clone()).handler("names", "greeter", greet)).await?;
//! assert_eq!(broker.values("greetings").await?, ["\"hello Ada\""]);
//! # Ok(()) }
//! ```

use std::time::{Duration, Instant};

use driftq_api::Time;
use driftq_client::{Client, Worker, WorkerError};
use driftq_server::config::{Config, EngineConfig};
use driftq_server::{Server, StartError};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// How long a worker may take to settle its messages, in real time.
const SETTLE_TIME: Duration = Duration::from_secs(30);
/// How often the state of the groups is read.
const INTERVAL: Duration = Duration::from_millis(2);

/// A server in memory, with a clock that the test advances.
pub struct Broker {
    server: Server,
    client: Client,
}

/// Why a test cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The server rejected a request of the test.
    #[error("{0}")]
    Refused(String),
    /// A request of the test failed.
    #[error(transparent)]
    Client(#[from] driftq_client::Error),
    /// A request of the test got no answer.
    #[error(transparent)]
    Send(#[from] driftq_client::SendError),
    /// The worker ended with an error.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The worker did not settle its messages in 30 seconds.
    #[error("not settled in {SETTLE_TIME:?}: {0}")]
    NotSettled(String),
}

impl Broker {
    /// Starts a server that has these topics, with one partition each.
    pub async fn start(topics: impl IntoIterator<Item = &str>) -> Result<Broker, Error> {
        let listen = ([127, 0, 0, 1], 0).into();
        let config = Config { listen, test_clock: true, ..Config::local(EngineConfig::Memory) };
        let server = Server::start(config).await?;
        let client = Client::connect(&server.url())?;
        for topic in topics {
            server.create_topic(topic, 1).await.map_err(Error::Refused)?;
        }
        Ok(Broker { server, client })
    }

    /// A client of the server.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Advances the clock. Leases that end and retries that become due take effect before it returns.
    pub async fn advance(&self, time: Duration) -> Result<(), Error> {
        self.advance_ms(time.as_millis() as u64).await.map(drop)
    }

    /// Runs the worker until every message of its topics is settled, and stops it. While every open
    /// message waits for a retry, the clock is advanced to the next one.
    pub async fn settle(&self, worker: Worker) -> Result<(), Error> {
        let groups: Vec<String> = worker
            .handles()
            .map(|(topic, group)| format!("topics/{topic}/groups/{group}"))
            .collect();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(worker.run(async {
            let _told = stopped.await;
        }));
        let began = Instant::now();
        let settled = loop {
            match self.are_settled(&groups).await {
                Ok(None) => break Ok(()),
                Ok(Some(open)) if began.elapsed() > SETTLE_TIME => {
                    break Err(Error::NotSettled(open.to_string()));
                }
                Ok(Some(_)) => tokio::time::sleep(INTERVAL).await,
                Err(error) => break Err(error),
            }
        };
        let _running = stop.send(());
        // A panic of the worker, not of a handler.
        let ended = running.await.map_err(|error| Error::NotSettled(error.to_string()))?;
        settled?;
        Ok(ended?)
    }

    /// The values of the messages that are stored in a topic, as text.
    pub async fn values(&self, topic: &str) -> Result<Vec<String>, Error> {
        let path = format!("topics/{topic}/messages?limit=1000");
        let text = |message: &Value| message["value"].as_str().unwrap_or_default().to_owned();
        Ok(items(&self.get(&path).await?, "messages").map(text).collect())
    }

    /// The dead letters of a topic, as in `GET /v1/dlq/{topic}`.
    pub async fn dead_letters(&self, topic: &str) -> Result<Vec<Value>, Error> {
        let page = self.get(&format!("dlq/{topic}")).await?;
        Ok(items(&page, "dead_letters").cloned().collect())
    }

    /// Stops the server.
    pub async fn stop(self) {
        self.server.stop().await;
    }

    /// A group that has open messages, if there is one.
    async fn are_settled(&self, groups: &[String]) -> Result<Option<Value>, Error> {
        let stored = self.server.messages().await;
        let (mut open, mut retries) = (None, Vec::new());
        let mut is_working = false;
        for path in groups {
            let reply = self.client.get(path).await?;
            if reply.status == 404 {
                // It exists from the first receive on.
                (open, is_working) = (Some(reply.body), true);
                continue;
            }
            let group = reply.ok()?;
            if group["backlog"] == 0 {
                continue;
            }
            is_working |= group["leased"] != 0 || group["waiting"] != group["backlog"];
            let due = items(&group, "partitions")
                .filter_map(|partition| partition["next_retry_at"].as_str()?.parse::<Time>().ok());
            retries.extend(due);
            open = Some(group);
        }
        if let (false, Some(next)) = (is_working, retries.into_iter().min()) {
            let now = self.advance_ms(1).await?;
            if now < next {
                self.advance_ms(next.0 - now.0).await?;
            }
        }
        // A handler may have produced a message for a group that was read before.
        if open.is_none() && self.server.messages().await != stored {
            return Ok(Some(Value::Null));
        }
        Ok(open)
    }

    async fn advance_ms(&self, ms: u64) -> Result<Time, Error> {
        let reply = self.client.post("dev/clock", &json!({ "advance_ms": ms })).await?;
        let now = reply.ok()?["now"].as_str().and_then(|now| now.parse().ok());
        now.ok_or_else(|| Error::Refused("the server has no test clock".to_owned()))
    }

    async fn get(&self, path: &str) -> Result<Value, Error> {
        Ok(self.client.get(path).await?.ok()?)
    }
}

fn items<'a>(page: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    page[name].as_array().into_iter().flatten()
}
