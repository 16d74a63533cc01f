//! What this node asks others: commands for shards that they serve.

use std::time::Duration;

use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use driftq_core::command::Join;
use driftq_core::travel::{open_answer, open_deliveries, pack_call};
use driftq_core::{Answered, Command, Epoch, ShardId, Text};
use futures_util::Stream;
use tokio::sync::oneshot;

use super::frames::next_frame;
use crate::node::{Answer, Deliver, Handed, Lost};

/// Says that the request comes from a node. What only nodes know is in it.
pub(crate) const SECRET: &str = "driftq-peer";
/// The shard that is meant.
pub(crate) const SHARD: &str = "driftq-shard";
/// The epoch under which it is expected to be served.
pub(crate) const EPOCH: &str = "driftq-epoch";

/// A peer that does not take a connection by then is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// What is not answered by then is unknown.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection on which nothing comes for so long is asked whether it lives, and has as long to say so.
const KEEP_ALIVE: Duration = Duration::from_secs(3);

/// Where a shard is served by another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct There {
    pub(crate) address: Text,
    pub(crate) shard: ShardId,
    pub(crate) epoch: Epoch,
}

/// Asks other nodes.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    secret: String,
}

impl Client {
    pub(crate) fn new(secret: String) -> Client {
        let http = reqwest::Client::builder()
            .http2_prior_knowledge()
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_timeout(KEEP_ALIVE)
            .http2_keep_alive_while_idle(true)
            .no_proxy();
        Client { http: http.build().expect("it needs nothing of the system"), secret }
    }

    async fn post(&self, what: &str, to: &There, body: Vec<u8>) -> Result<reqwest::Response, Lost> {
        let request = self.http.post(format!("{}/internal/v1/{what}", to.address));
        let request = request
            .header(SECRET, &self.secret)
            .header(SHARD, to.shard.0)
            .header(EPOCH, to.epoch.0)
            .body(body);
        let sent = tokio::time::timeout(ANSWER_TIMEOUT, request.send()).await;
        let response = match sent {
            // Nobody was there to take it.
            Ok(Err(error)) if error.is_connect() => return Err(Lost::NotServing),
            Ok(Err(_)) | Err(_) => return Err(Lost::Unknown),
            Ok(Ok(response)) => response,
        };
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::CONFLICT => Err(Lost::NotServing),
            StatusCode::TOO_MANY_REQUESTS => Err(Lost::Overloaded),
            _ => Err(Lost::Unknown),
        }
    }

    async fn ask(&self, to: &There, command: &Command) -> Result<Answered, Lost> {
        let response = self.post("call", to, pack_call(command)).await?;
        let body = response.bytes().await.map_err(|_| Lost::Unknown)?;
        open_answer(&body).map_err(|error| {
            // It was done there, whatever it was.
            tracing::error!(peer = %to.address, %error, "the answer of a node cannot be read");
            Lost::Unknown
        })
    }

    /// Has a command decided there.
    pub(crate) fn call(&self, to: There, command: Command, answer: Answer) {
        let client = self.clone();
        tokio::spawn(async move {
            // Whoever asked may be gone.
            let _gone = answer.send(client.ask(&to, &command).await);
        });
    }

    /// Lets a consumer take part there, until its stream ends or nobody takes what it is given.
    pub(crate) fn join(&self, to: There, join: Join, deliver: Deliver, answer: Answer) {
        let client = self.clone();
        tokio::spawn(async move {
            let response = match client.post("join", &to, pack_call(&Command::Join(join))).await {
                Ok(response) => response,
                Err(lost) => return drop(answer.send(Err(lost))),
            };
            follow(response.bytes_stream(), &deliver, answer).await;
        });
    }
}

/// The first frame is the answer; each other is what a batch gave, or, without content, the end.
async fn follow<E>(
    stream: impl Stream<Item = Result<Bytes, E>>,
    deliver: &Deliver,
    answer: oneshot::Sender<Result<Answered, Lost>>,
) {
    let mut stream = std::pin::pin!(stream);
    let mut seen = BytesMut::new();
    let first = next_frame(&mut stream, &mut seen).await;
    let answered = first.and_then(|frame| open_answer(&frame).ok()).ok_or(Lost::Unknown);
    let is_in = matches!(answered, Ok(Ok(_)));
    if answer.send(answered).is_err() || !is_in {
        return;
    }
    loop {
        let frame = tokio::select! {
            frame = next_frame(&mut stream, &mut seen) => frame,
            () = deliver.closed() => return,
        };
        let Some(frame) = frame else { return };
        let handed = match frame.is_empty() {
            true => Handed::Dismissed,
            false => match open_deliveries(&frame) {
                Ok(given) => Handed::Given(given),
                Err(_) => return,
            },
        };
        if deliver.send(handed).is_err() {
            return;
        }
    }
}
