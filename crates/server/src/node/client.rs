//! What this node asks others: commands for shards that they serve.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use driftq_core::command::{Join, LeaseId};
use driftq_core::node_codec::{open_answer, open_deliveries, pack_call};
use driftq_core::{CallError, Command, CommandResult, Epoch, Reply, ShardId, Text};
use futures_util::Stream;

use super::frames::{frame, next_frame, open_lost};
use super::mailbox::{Answer, ConsumerEvent, Deliver};

/// Says that the request comes from a node. What only nodes know is in it.
pub(crate) const SECRET: &str = "driftq-peer";
/// The shard that is meant.
pub(crate) const SHARD: &str = "driftq-shard";
/// The epoch under which it is expected to be served.
pub(crate) const EPOCH: &str = "driftq-epoch";

/// How long what was on its way to a consumer that is gone may take.
const REST_WITHIN: Duration = Duration::from_secs(5);
/// The wait before a node that is full is told again that a consumer is gone.
const LEAVE_AGAIN: Duration = Duration::from_millis(200);
/// A peer that does not take a connection by then is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// What is not answered by then is unknown.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two log lines about a peer that takes no connection.
const UNREACHABLE_EVERY: Duration = Duration::from_secs(10);
/// A connection on which nothing comes for so long is asked whether it lives, and has as long to say so.
const KEEP_ALIVE: Duration = Duration::from_secs(3);

/// Where a shard is served by another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteShard {
    pub(crate) address: Text,
    pub(crate) shard: ShardId,
    pub(crate) epoch: Epoch,
}

/// Asks other nodes.
#[derive(Clone)]
pub(crate) struct Client {
    calls: reqwest::Client,
    /// Consumers stay for long: they must not take the places of calls.
    joins: reqwest::Client,
    secret: Arc<str>,
    /// When the log last named each peer that takes no connection.
    unreachable: Arc<Mutex<HashMap<Text, Instant>>>,
}

impl Client {
    pub(crate) fn new(secret: Arc<str>) -> Client {
        let http = || {
            let http = reqwest::Client::builder()
                .http2_prior_knowledge()
                .connect_timeout(CONNECT_TIMEOUT)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .http2_keep_alive_timeout(KEEP_ALIVE)
                .http2_keep_alive_while_idle(true)
                .no_proxy();
            http.build().expect("it needs nothing of the system")
        };
        Client { calls: http(), joins: http(), secret, unreachable: Arc::default() }
    }

    async fn post(
        &self,
        what: &str,
        to: &RemoteShard,
        body: Vec<u8>,
    ) -> Result<reqwest::Response, CallError> {
        let http = if what == "join" { &self.joins } else { &self.calls };
        let request = http.post(format!("{}/internal/v1/{what}", to.address));
        let request = request
            .header(SECRET, &*self.secret)
            .header(SHARD, to.shard.0)
            .header(EPOCH, to.epoch.0)
            .body(body);
        let sent = tokio::time::timeout(ANSWER_TIMEOUT, request.send()).await;
        let response = match sent {
            // Nobody was there to take it.
            Ok(Err(error)) if error.is_connect() => {
                self.report_unreachable(&to.address, &error);
                return Err(CallError::NotServing);
            }
            Ok(Err(_)) | Err(_) => return Err(CallError::Unknown),
            Ok(Ok(response)) => response,
        };
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::CONFLICT => Err(CallError::NotServing),
            StatusCode::TOO_MANY_REQUESTS => Err(CallError::Overloaded),
            _ => Err(CallError::Unknown),
        }
    }

    /// Without this line, an address that other nodes cannot reach shows only in their answers to clients.
    fn report_unreachable(&self, peer: &Text, error: &reqwest::Error) {
        let mut unreachable = self.unreachable.lock().unwrap_or_else(|error| error.into_inner());
        unreachable.retain(|_, at| at.elapsed() < UNREACHABLE_EVERY);
        if let Entry::Vacant(first) = unreachable.entry(peer.clone()) {
            first.insert(Instant::now());
            let error = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            tracing::warn!(%peer, error, "a node cannot be reached: check its cluster.advertise, and the network");
        }
    }

    async fn ask(&self, to: &RemoteShard, command: &Command) -> Result<CommandResult, CallError> {
        let response = self.post("call", to, pack_call(command)).await?;
        let body = response.bytes().await.map_err(|_| CallError::Unknown)?;
        open_answer(&body).map_err(|error| {
            // It was done there, whatever it was.
            tracing::error!(peer = %to.address, %error, "the answer of a node cannot be read");
            CallError::Unknown
        })
    }

    /// Has a command decided there.
    pub(crate) fn call(&self, to: RemoteShard, command: Command, answer: Answer) {
        let client = self.clone();
        tokio::spawn(async move {
            // Whoever asked may be gone.
            answer.send(client.ask(&to, &command).await);
        });
    }

    /// Has commands decided there, in their order.
    pub(crate) fn call_all(&self, to: RemoteShard, commands: Vec<Command>, answers: Vec<Answer>) {
        let client = self.clone();
        tokio::spawn(async move {
            let all = client.ask_all(&to, &commands).await;
            for (at, answer) in answers.into_iter().enumerate() {
                let answered = match &all {
                    Ok(all) => all.get(at).cloned().unwrap_or(Err(CallError::Unknown)),
                    Err(lost) => Err(*lost),
                };
                // Whoever asked may be gone.
                answer.send(answered);
            }
        });
    }

    async fn ask_all(
        &self,
        to: &RemoteShard,
        commands: &[Command],
    ) -> Result<Vec<Result<CommandResult, CallError>>, CallError> {
        let body = commands.iter().flat_map(|command| frame(&pack_call(command))).collect();
        let response = self.post("calls", to, body).await?;
        let mut stream = std::pin::pin!(response.bytes_stream());
        let (mut seen, mut answers) = (BytesMut::new(), Vec::with_capacity(commands.len()));
        while let Some(frame) = next_frame(&mut stream, &mut seen).await {
            answers.push(match open_lost(&frame) {
                Some(lost) => Err(lost),
                None => open_answer(&frame).map_err(|_| CallError::Unknown),
            });
        }
        Ok(answers)
    }

    /// Lets a consumer take part there, until its stream ends or nobody takes what it is given. Then what is
    /// still on its way is handed to `unseen`.
    pub(crate) fn join(
        &self,
        to: RemoteShard,
        join: Join,
        deliver: Deliver,
        answer: Answer,
        unseen: impl Fn(LeaseId) + Send + Sync + 'static,
    ) {
        let client = self.clone();
        tokio::spawn(async move {
            let response = match client.post("join", &to, pack_call(&Command::Join(join))).await {
                Ok(response) => response,
                Err(lost) => return answer.send(Err(lost)),
            };
            let mut stream = std::pin::pin!(response.bytes_stream());
            let mut seen = BytesMut::new();
            let first = next_frame(&mut stream, &mut seen).await;
            let answered =
                first.and_then(|frame| open_answer(&frame).ok()).ok_or(CallError::Unknown);
            let consumer = match &answered {
                Ok(Ok(Reply::Joined { consumer, .. })) => Some(*consumer),
                _ => None,
            };
            // Whoever asked may be gone; then nobody takes anything.
            answer.send(answered);
            let Some(consumer) = consumer else { return };
            while let Some(handed) = tokio::select! {
                handed = next_handed(&mut stream, &mut seen) => handed,
                () = deliver.closed() => None,
            } {
                if let Err(unsent) = deliver.send(handed) {
                    unsent.0.holds().for_each(&unseen);
                }
            }
            if !deliver.is_closed() {
                return;
            }
            // It leaves, and the stream is read to its end: what is in it was leased for nobody.
            let leave = async {
                while let Err(CallError::Overloaded) =
                    client.ask(&to, &Command::Leave(consumer)).await
                {
                    tokio::time::sleep(LEAVE_AGAIN).await;
                }
            };
            let rest = async {
                while let Some(handed) = next_handed(&mut stream, &mut seen).await {
                    handed.holds().for_each(&unseen);
                }
            };
            let _cut = tokio::time::timeout(REST_WITHIN, async { tokio::join!(leave, rest) }).await;
        });
    }
}

/// What a batch gave, or, without content, the end. None: the stream is over, or cannot be read.
async fn next_handed<E>(
    stream: &mut Pin<&mut impl Stream<Item = Result<Bytes, E>>>,
    seen: &mut BytesMut,
) -> Option<ConsumerEvent> {
    let frame = next_frame(stream, seen).await?;
    if frame.is_empty() {
        return Some(ConsumerEvent::Dismissed);
    }
    open_deliveries(&frame).ok().map(ConsumerEvent::Deliveries)
}
