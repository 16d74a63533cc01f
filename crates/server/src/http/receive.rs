//! The long poll.

use axum::body::Body;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{ConnectInfo, State};
use axum::http::{Response, StatusCode, Version};
use driftq_api::message::{Receive, Received};
use driftq_api::number::{LeaseMs, Limit, WaitMs};
use driftq_api::worker::Leave;
use driftq_core::Session;
use driftq_core::change::Delivery;
use driftq_core::command::{GroupName, Join, LeaveWorker, Peer, PeerKind, ViewGroup};
use driftq_core::view::Blocked;

use super::answer::of_json;
use super::api_error::ApiError;
use super::app::{App, group_name};
use super::counted::Counted;
use super::input::Input;
use super::operation::{Missing, QueryForm};
use super::poll_answer::PollAnswer;
use super::request::{ApiRequest, Param, field};
use super::session::ConsumerConnection;
use super::{convert, off_runtime};
use crate::node::Node;

const MAX: u32 = 1;
const WAIT_MS: u64 = 20_000;
/// How long a poll whose wait has ended still waits for messages that are being loaded.
const LOADING: Duration = Duration::from_secs(1);

impl ApiRequest for Receive {
    const QUERY: &'static [Param] = &[
        field("topic"),
        field("group"),
        field("owner"),
        field("lease_ms"),
        field("max"),
        field("wait_ms"),
        field("start"),
    ];

    fn names(&self) -> (Option<&str>, Option<&str>) {
        (Some(&self.topic), Some(&self.group))
    }
}

/// Waits for messages and leases them.
#[utoipa::path(
    post, path = "/v1/receive", operation_id = "receive", tag = "messages",
    params(QueryForm<Receive>),
    request_body = Receive,
    responses((status = 200, description = "the messages leased within the wait, possibly none", body = Received<'static>), Missing),
)]
pub(crate) async fn receive(
    State(app): State<App>,
    ConnectInfo(remote): ConnectInfo<SocketAddr>,
    version: Version,
    input: Input<Receive>,
) -> Result<Response<Body>, ApiError> {
    let Receive { topic, group, owner, lease_ms, max, wait_ms, start, worker } = input.into_body();
    let (max, wait_ms) = (max.map_or(MAX, Limit::get), wait_ms.map_or(WAIT_MS, WaitMs::get));
    let start = convert::start(start);
    let share = app.consumer_share()?;
    let credit_bytes = share.credit_bytes(app.limits.stream_bytes);
    let name = group_name(&topic, &group);
    let join = |consumer| Join {
        consumer,
        name: name.clone(),
        owner: owner.into(),
        lease_ms: lease_ms.map(LeaseMs::get),
        credit: share.credit(max),
        credit_bytes,
        start,
        peer: Peer {
            kind: PeerKind::Poll,
            remote: remote.to_string().into(),
            worker: convert::named_worker(worker),
        },
    };
    let poll = |consumer, now| Session::poll(consumer, now, wait_ms);
    let mut connection = ConsumerConnection::open(&app, share.clone(), join, poll).await?;
    let mut draining = app.draining.clone();
    tokio::select! {
        () = connection.answered() => {}
        _ = draining.wait_for(|is_draining| *is_draining) => {}
    }
    // Leaving now would only give back messages that are being loaded or committed.
    if connection.is_empty() {
        let loaded = async {
            if is_loading(&app, name).await {
                connection.wait_for_some().await;
            }
        };
        let _in_vain = tokio::time::timeout(LOADING, loaded).await;
    }
    if connection.is_empty() {
        connection.leave().await;
    }
    let mut deliveries = Vec::new();
    while deliveries.len() < max as usize
        && let Some(delivery) = connection.next_at_once()
    {
        deliveries.push(delivery);
    }
    // The deliveries are given back if the client disconnects while the answer is written.
    let unconfirmed = connection.unconfirmed();
    let is_empty = deliveries.is_empty();
    let bytes = deliveries.iter().map(|delivery| delivery.message.size() as usize).sum();
    let write = move || written(&app.node, &deliveries, bytes);
    let answer = off_runtime::WRITERS.run(bytes, write).await?;
    let body = if version == Version::HTTP_2 && !is_empty {
        PollAnswer::body(answer, unconfirmed)
    } else {
        unconfirmed.confirm();
        Body::from(answer)
    };
    Ok(of_json(Body::new(Counted { body, _held: share })))
}

impl ApiRequest for Leave {
    const QUERY: &'static [Param] = &[field("worker")];
}

/// Stops deliveries to a worker that is about to end, on every node.
#[utoipa::path(
    post, path = "/v1/leave", operation_id = "leave", tag = "messages",
    params(QueryForm<Leave>),
    request_body = Leave,
    responses((status = 204, description = "every shard knows it")),
)]
pub(crate) async fn leave(
    State(app): State<App>,
    input: Input<Leave>,
) -> Result<StatusCode, ApiError> {
    app.call(LeaveWorker { worker: input.body.worker.into() }).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn written(node: &Node, deliveries: &[Box<Delivery>], bytes: usize) -> Vec<u8> {
    let minter = node.minter();
    let messages = deliveries.iter().map(|delivery| convert::delivery(delivery, minter)).collect();
    off_runtime::json(&Received { messages }, deliveries.len(), bytes)
}

/// Whether messages for a group are being loaded.
async fn is_loading(app: &App, name: GroupName) -> bool {
    let Ok(view) = app.call(ViewGroup(name)).await else { return false };
    view.partitions.iter().any(|cursor| cursor.blocked == Some(Blocked::Loading))
}
