//! The stream of deliveries.

use std::net::SocketAddr;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderValue, Response, header};
use driftq_api::message::{Consume, Delivery};
use driftq_api::number::{LeaseMs, Prefetch};
use driftq_core::command::{Join, Peer, PeerKind};
use driftq_core::{Line, Session};
use tokio::sync::{mpsc, oneshot, watch};

use super::api_error::ApiError;
use super::app::{App, group_name};
use super::convert;
use super::counted::Counted;
use super::input::Input;
use super::operation::{Missing, Query, QueryForm};
use super::profile;
use super::request::{ApiRequest, Param, alias, field};
use super::session::ConsumerConnection;
use crate::node::Node;

/// The default number of unsettled deliveries that a stream may hold.
const PREFETCH: u32 = 2;
/// Approximate maximum of the bytes per chunk.
const CHUNK_BYTES: usize = 64 * 1024;

impl ApiRequest for Consume {
    const IS_OF_V1: bool = true;
    const MAY_LEASE_0: bool = true;
    const QUERY: &'static [Param] = &[
        field("topic"),
        field("group"),
        field("owner"),
        field("lease_ms"),
        field("prefetch"),
        alias("credit", "prefetch"),
        field("start"),
    ];

    fn names(&self) -> (Option<&str>, Option<&str>) {
        (Some(&self.topic), Some(&self.group))
    }
}

/// Streams deliveries, one per line.
#[utoipa::path(
    get, path = "/v1/consume", operation_id = "consume_by_query", tag = "messages",
    params(Query<Consume>),
    responses((status = 200, description = "one delivery per line", body = Delivery<'static>, content_type = "application/x-ndjson"), Missing),
)]
pub(crate) async fn by_query(
    State(app): State<App>,
    ConnectInfo(remote): ConnectInfo<SocketAddr>,
    input: Input<Consume>,
) -> Result<Response<Body>, ApiError> {
    stream(&app, remote, input.body).await
}

/// Streams deliveries, one per line.
#[utoipa::path(
    post, path = "/v1/consume", operation_id = "consume", tag = "messages",
    params(QueryForm<Consume>),
    request_body = Consume,
    responses((status = 200, description = "one delivery per line", body = Delivery<'static>, content_type = "application/x-ndjson"), Missing),
)]
pub(crate) async fn by_body(
    State(app): State<App>,
    ConnectInfo(remote): ConnectInfo<SocketAddr>,
    input: Input<Consume>,
) -> Result<Response<Body>, ApiError> {
    stream(&app, remote, input.body).await
}

async fn stream(
    app: &App,
    remote: SocketAddr,
    request: Consume,
) -> Result<Response<Body>, ApiError> {
    let Consume { topic, group, owner, lease_ms, prefetch, start, worker } = request;
    let start = convert::start(start);
    let share = app.consumer_share()?;
    let credit_bytes = share.credit_bytes(app.limits.stream_bytes);
    let default_prefetch = if app.is_v1 { profile::PREFETCH } else { PREFETCH };
    let join = |consumer| Join {
        consumer,
        name: group_name(&topic, &group),
        owner: owner.into(),
        lease_ms: lease_ms.map(LeaseMs::get),
        credit: share.credit(prefetch.map_or(default_prefetch, Prefetch::get)),
        credit_bytes,
        start,
        peer: Peer {
            kind: PeerKind::Stream,
            remote: remote.to_string().into(),
            worker: convert::named_worker(worker),
        },
    };
    let connection = ConsumerConnection::open(app, share.clone(), join, Session::stream).await?;
    let chunk_bytes = CHUNK_BYTES.min(credit_bytes as usize);
    let (node, draining) = (app.node.clone(), app.draining.clone());
    let is_v1 = app.is_v1;
    let stream = Stream { connection, node, draining, chunk_bytes, is_v1 };
    let (demands, demanded) = mpsc::channel(1);
    tokio::spawn(stream.run(demanded));
    let body = Body::from_stream(futures_util::stream::unfold(demands, next_chunk));
    // A chunk may still be queued in the HTTP layer after the stream has ended.
    let mut response = Response::new(Body::new(Counted { body, _held: share }));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-ndjson; charset=utf-8"),
    );
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// A demand for the next chunk: the channel to send it to.
type Demand = oneshot::Sender<Bytes>;

/// Requests a chunk. The HTTP layer does this after it has written the previous chunk. Over HTTP/2,
/// that is when the client has granted window for it.
async fn next_chunk(
    demands: mpsc::Sender<Demand>,
) -> Option<(Result<Bytes, std::convert::Infallible>, mpsc::Sender<Demand>)> {
    let (demand, chunk) = oneshot::channel();
    demands.send(demand).await.ok()?;
    Some((Ok(chunk.await.ok()?), demands))
}

/// Waits for the next line. Without blank lines, for the next delivery.
async fn next_line(connection: &mut ConsumerConnection, is_v1: bool) -> Option<Line> {
    loop {
        match connection.next().await {
            Some(Line::Heartbeat) if is_v1 => {}
            line => return line,
        }
    }
}

/// A stream of deliveries in its own task, which keeps running, and so detects it, while the client
/// reads nothing.
struct Stream {
    connection: ConsumerConnection,
    node: Node,
    draining: watch::Receiver<bool>,
    /// Approximate bytes per chunk.
    chunk_bytes: usize,
    /// Whether blank lines are left out.
    is_v1: bool,
}

impl Stream {
    /// Answers demands one after the other. Ends when the client disconnects, when the server
    /// drains, or when the client has read nothing for too long.
    async fn run(mut self, mut demanded: mpsc::Receiver<Demand>) {
        loop {
            let mut demand = tokio::select! {
                demand = demanded.recv() => match demand {
                    Some(demand) => demand,
                    // The HTTP layer could not accept another chunk, so the client has not received
                    // the last one.
                    None => return self.connection.give_back_unconfirmed(),
                },
                () = self.connection.stalled() => return self.connection.give_back_unconfirmed(),
            };
            self.connection.confirm();
            let line = tokio::select! {
                biased;
                _ = self.draining.wait_for(|is_draining| *is_draining) => None,
                () = demand.closed() => None,
                line = next_line(&mut self.connection, self.is_v1) => line,
            };
            let Some(line) = line else { return };
            if demand.send(self.chunk(line)).is_err() {
                return self.connection.give_back_unconfirmed();
            }
        }
    }

    /// Writes a line, and the deliveries that are available without waiting.
    fn chunk(&mut self, line: Line) -> Bytes {
        let mut chunk = Vec::new();
        match line {
            Line::Heartbeat => chunk.push(b'\n'),
            Line::Delivery(delivery) => {
                self.write(&mut chunk, &delivery);
                while chunk.len() < self.chunk_bytes
                    && let Some(delivery) = self.connection.next_at_once()
                {
                    self.write(&mut chunk, &delivery);
                }
            }
        }
        Bytes::from(chunk)
    }

    fn write(&self, chunk: &mut Vec<u8>, delivery: &driftq_core::change::Delivery) {
        let line = convert::delivery(delivery, self.node.minter());
        serde_json::to_writer(&mut *chunk, &line).expect("a delivery always serializes");
        chunk.push(b'\n');
    }
}
