//! The client for other nodes: sends commands to the shards that they serve.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use driftq_core::command::{Join, LeaseId};
use driftq_core::node_codec::{NODE_CODEC_VERSION, open_answer, open_deliveries, pack_call};
use driftq_core::{CallError, Command, CommandResult, Epoch, Reply, ShardId, Text};
use futures_util::Stream;
use reqwest::Certificate;
use rustls::pki_types::CertificateDer;

use crate::series::{CountedSeries, SeriesRequest};

use super::frames::{frame, next_frame, open_lost};
use super::mailbox::{ConsumerEvent, Deliver, ReplySender};

/// The header that proves that a request comes from a node. Its value is known only to nodes of
/// this storage.
pub(crate) const SECRET: &str = "driftq-peer";
/// The header with the number of the shard.
pub(crate) const SHARD: &str = "driftq-shard";
/// The header with the epoch under which the shard is expected to be served.
pub(crate) const EPOCH: &str = "driftq-epoch";

/// The header with the newest version of the node codec that the sender reads. The first release
/// does not send it.
pub(crate) const CODEC: &str = "driftq-codec";

/// Time limit for reading the remaining deliveries of a consumer that has left.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before an overloaded node is sent the `Leave` of a consumer again.
const LEAVE_AGAIN: Duration = Duration::from_millis(200);
/// A peer that does not accept a connection within this time is unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// If a call is not answered within this time, its outcome is unknown.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// A node that does not send its series within this time is left out.
const SERIES_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two log lines about an unreachable peer.
const UNREACHABLE_EVERY: Duration = Duration::from_secs(10);
/// A connection that is silent for this long is pinged, and is closed if the ping is not answered
/// within the same time.
const KEEP_ALIVE: Duration = Duration::from_secs(3);

/// A shard that another node serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteShard {
    pub(crate) address: Text,
    pub(crate) shard: ShardId,
    pub(crate) epoch: Epoch,
}

/// Sends requests to other nodes.
#[derive(Clone)]
pub(crate) struct Client {
    calls: reqwest::Client,
    /// Consumers stay connected for long, so they must not use up the streams of calls.
    joins: reqwest::Client,
    secret: Arc<str>,
    /// When each unreachable peer was last logged.
    unreachable: Arc<Mutex<HashMap<Text, Instant>>>,
}

impl Client {
    /// A client that trusts these certificates of other nodes.
    pub(crate) fn new(secret: Arc<str>, trusted: &[CertificateDer<'static>]) -> Client {
        let http = || {
            let trusted = trusted.iter().map(|der| Certificate::from_der(der));
            let http = reqwest::Client::builder()
                .tls_certs_only(trusted.map(|parsed| parsed.expect("DER is not parsed here")))
                .http2_prior_knowledge()
                .connect_timeout(CONNECT_TIMEOUT)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .http2_keep_alive_timeout(KEEP_ALIVE)
                .http2_keep_alive_while_idle(true)
                .no_proxy();
            http.build().expect("the builder loads nothing from the system")
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
            .header(CODEC, NODE_CODEC_VERSION)
            .body(body);
        let sent = tokio::time::timeout(ANSWER_TIMEOUT, request.send()).await;
        let response = match sent {
            // No connection was made, so the request was not received.
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

    /// Logs an unreachable peer. Without this line, an address that other nodes cannot reach shows
    /// only in their answers to clients.
    fn report_unreachable(&self, peer: &Text, error: &reqwest::Error) {
        let mut unreachable = self.unreachable.lock().unwrap_or_else(|error| error.into_inner());
        unreachable.retain(|_, at| at.elapsed() < UNREACHABLE_EVERY);
        if let Entry::Vacant(first) = unreachable.entry(peer.clone()) {
            first.insert(Instant::now());
            let error = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            tracing::warn!(%peer, error, "cannot connect to a node; check its cluster.advertise and the network");
        }
    }

    async fn ask(&self, to: &RemoteShard, command: &Command) -> Result<CommandResult, CallError> {
        let response = self.post("call", to, pack_call(command)).await?;
        let body = response.bytes().await.map_err(|_| CallError::Unknown)?;
        open_answer(&body).map_err(|error| {
            // The command was executed, but its result is lost.
            tracing::error!(peer = %to.address, %error, "cannot decode the answer of a node");
            CallError::Unknown
        })
    }

    /// Sends a command to the other node.
    pub(crate) fn call(&self, to: RemoteShard, command: Command, answer: ReplySender) {
        let client = self.clone();
        tokio::spawn(async move {
            // The caller may have disconnected.
            answer.send(client.ask(&to, &command).await);
        });
    }

    /// Returns what the node at `address` counted. `None` if it does not answer, or is too old.
    pub(crate) async fn series(
        &self,
        address: &Text,
        request: &SeriesRequest,
    ) -> Option<CountedSeries> {
        // The request is not for a shard, so the node does not look at its epoch.
        let to = RemoteShard { address: address.clone(), shard: ShardId(0), epoch: Epoch(0) };
        let body = serde_json::to_vec(request).ok()?;
        let answer = async { self.post("series", &to, body).await.ok()?.json().await.ok() };
        tokio::time::timeout(SERIES_TIMEOUT, answer).await.ok().flatten()
    }

    /// Sends commands to the other node, which decides them in order.
    pub(crate) fn call_all(
        &self,
        to: RemoteShard,
        commands: Vec<Command>,
        answers: Vec<ReplySender>,
    ) {
        let client = self.clone();
        tokio::spawn(async move {
            let all = client.ask_all(&to, &commands).await;
            for (at, answer) in answers.into_iter().enumerate() {
                let answered = match &all {
                    Ok(all) => all.get(at).cloned().unwrap_or(Err(CallError::Unknown)),
                    Err(lost) => Err(*lost),
                };
                // The caller may have disconnected.
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

    /// Joins a consumer on the other node, until its stream ends or `deliver` is closed. Deliveries
    /// that are then still under way are passed to `unseen`.
    pub(crate) fn join(
        &self,
        to: RemoteShard,
        join: Join,
        deliver: Deliver,
        answer: ReplySender,
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
            // If the caller has disconnected, `deliver` is closed.
            answer.send(answered);
            let Some(consumer) = consumer else { return };
            while let Some(handed) = tokio::select! {
                handed = next_event(&mut stream, &mut seen) => handed,
                () = deliver.closed() => None,
            } {
                if let Err(unsent) = deliver.send(handed) {
                    unsent.0.holds().for_each(&unseen);
                }
            }
            if !deliver.is_closed() {
                return;
            }
            // The consumer leaves, and the stream is read to its end, because the deliveries in it
            // are leased and reached no client.
            let leave = async {
                while let Err(CallError::Overloaded) =
                    client.ask(&to, &Command::Leave(consumer)).await
                {
                    tokio::time::sleep(LEAVE_AGAIN).await;
                }
            };
            let rest = async {
                while let Some(handed) = next_event(&mut stream, &mut seen).await {
                    handed.holds().for_each(&unseen);
                }
            };
            let _cut =
                tokio::time::timeout(DRAIN_TIMEOUT, async { tokio::join!(leave, rest) }).await;
        });
    }
}

/// Reads the deliveries of one batch; an empty frame means `Dismissed`. Returns `None` if the
/// stream has ended or cannot be decoded.
async fn next_event<E>(
    stream: &mut Pin<&mut impl Stream<Item = Result<Bytes, E>>>,
    seen: &mut BytesMut,
) -> Option<ConsumerEvent> {
    let frame = next_frame(stream, seen).await?;
    if frame.is_empty() {
        return Some(ConsumerEvent::Dismissed);
    }
    open_deliveries(&frame).ok().map(ConsumerEvent::Deliveries)
}
