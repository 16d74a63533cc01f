//! The API between nodes. It requires a secret that only nodes of this storage know.
//!
//! Requests are never forwarded. If the shard is not served here under the expected epoch, the
//! request is rejected and nothing is stored.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use axum::routing::post;
use axum::{Json, Router, middleware};
use driftq_core::command::LeaseId;
use driftq_core::node_codec::{open_call, pack_answer, pack_deliveries};
use driftq_core::{Command, CommandResult, ConsumerId, Epoch, ShardId};

use super::access::is_same_secret;
use super::api_error::no_route;
use super::app::App;
use crate::node::{
    CODEC, CallError, ConsumerEvent, Deliveries, EPOCH, Node, SECRET, SHARD, frame, frames,
    pack_lost,
};

/// The largest batch, with its encoding overhead.
const BODY_BYTES: usize = 64 << 20;

/// The paths of this API.
pub(super) const PATHS: [&str; 4] =
    ["/internal/v1/call", "/internal/v1/calls", "/internal/v1/join", "/internal/v1/series"];

pub(super) fn router(app: &App) -> Router<App> {
    let [path_of_call, path_of_calls, path_of_join, path_of_series] = PATHS;
    Router::new()
        .route(path_of_call, post(call))
        .route(path_of_calls, post(calls))
        .route(path_of_join, post(join))
        .route(path_of_series, post(series))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(middleware::from_fn_with_state(app.clone(), from_a_node))
}

async fn from_a_node(State(app): State<App>, request: Request, next: Next) -> Response<Body> {
    if is_from_a_node(&app, request.uri(), request.headers()) {
        next.run(request).await
    } else {
        no_route().into_response()
    }
}

pub(super) fn is_from_a_node(app: &App, uri: &Uri, headers: &HeaderMap) -> bool {
    let Some(given) = headers.get(SECRET).filter(|_| uri.path().starts_with("/internal/")) else {
        return false;
    };
    is_same_secret(given.as_bytes(), app.node.peer_secret().as_bytes())
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// The shard of the request, if it is served here under the expected epoch.
fn target_shard(app: &App, headers: &HeaderMap) -> Option<ShardId> {
    let shard = ShardId(u32::try_from(number(headers, SHARD)?).ok()?);
    app.node.serves(shard, Epoch(number(headers, EPOCH)?)).then_some(shard)
}

fn error_response(lost: CallError) -> Response<Body> {
    match lost {
        CallError::NotServing => StatusCode::CONFLICT,
        CallError::Overloaded => StatusCode::TOO_MANY_REQUESTS,
        CallError::Unknown => StatusCode::SERVICE_UNAVAILABLE,
    }
    .into_response()
}

async fn call(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let Some(shard) = target_shard(&app, &headers) else {
        return error_response(CallError::NotServing);
    };
    let Ok(command) = open_call(&body) else {
        // The command was not accepted, so nothing was stored. A node of an older version cannot
        // serve it.
        return error_response(CallError::NotServing);
    };
    match app.node.call_here(shard, command).await {
        Ok(answered) => Response::new(Body::from(pack_answer(&answered))),
        Err(lost) => error_response(lost),
    }
}

/// Runs commands one after the other, so that one batch can decide them together.
async fn calls(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let Some(shard) = target_shard(&app, &headers) else {
        return error_response(CallError::NotServing);
    };
    let commands = frames(&body).iter().map(|frame| open_call(frame)).collect::<Result<_, _>>();
    let Ok(commands) = commands else { return error_response(CallError::NotServing) };
    let answers = app.node.call_all_here(shard, commands).await;
    if answers.iter().all(|answered| matches!(answered, Err(CallError::NotServing))) {
        return error_response(CallError::NotServing);
    }
    let frames = answers.iter().map(|answered| match answered {
        Ok(answered) => frame(&pack_answer(answered)),
        Err(lost) => frame(pack_lost(*lost)),
    });
    let body: Vec<u8> = frames.flatten().collect();
    Response::new(Body::from(body))
}

async fn series(State(app): State<App>, body: Bytes) -> Response<Body> {
    match serde_json::from_slice(&body) {
        Ok(request) => Json(app.node.series_here(&request)).into_response(),
        // A later release asks for something that this one does not count.
        Err(_) => error_response(CallError::NotServing),
    }
}

async fn join(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let Some(shard) = target_shard(&app, &headers) else {
        return error_response(CallError::NotServing);
    };
    let Ok(Command::Join(mut join)) = open_call(&body) else {
        return error_response(CallError::NotServing);
    };
    // Consumer numbers are unique per process. The answer contains the new number.
    join.consumer = app.node.next_consumer();
    let mut guest = RemoteConsumer {
        node: app.node.clone(),
        shard,
        consumer: join.consumer,
        readable: number(&headers, CODEC).and_then(|version| version.try_into().ok()).unwrap_or(1),
        deliveries: None,
        first: None,
    };
    match app.node.join_here(shard, join).await {
        Ok((answered, deliveries)) => {
            (guest.first, guest.deliveries) = (Some(answered), Some(deliveries));
            Response::new(Body::from_stream(futures_util::stream::unfold(
                guest,
                RemoteConsumer::next,
            )))
        }
        Err(lost) => error_response(lost),
    }
}

/// A consumer of another node. When it is dropped, it leaves, and deliveries that were not sent are
/// given back.
struct RemoteConsumer {
    node: Node,
    shard: ShardId,
    consumer: ConsumerId,
    /// The newest version of the node codec that its node reads.
    readable: u32,
    deliveries: Option<Deliveries>,
    first: Option<CommandResult>,
}

impl RemoteConsumer {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, RemoteConsumer)> {
        if let Some(answered) = self.first.take() {
            return Some((Ok(frame(&pack_answer(&answered))), self));
        }
        let content = match self.deliveries.as_mut()?.recv().await? {
            ConsumerEvent::Deliveries(given) => {
                let Some(packed) = pack_deliveries(&given, self.readable) else {
                    tracing::warn!(
                        shard = self.shard.0,
                        "a consumer is connected to a node of an older release, which cannot read labels and headers; its deliveries are given back: upgrade that node"
                    );
                    let unsent = ConsumerEvent::Deliveries(given);
                    unsent.holds().for_each(|hold| self.give_back(hold));
                    return None;
                };
                frame(&packed)
            }
            ConsumerEvent::Dismissed => frame(&[]),
        };
        Some((Ok(content), self))
    }

    fn give_back(&self, hold: LeaseId) {
        self.node.send(self.shard, Command::GiveBack(hold));
    }
}

impl Drop for RemoteConsumer {
    fn drop(&mut self) {
        let mut unsent = Vec::new();
        if let Some(deliveries) = &mut self.deliveries {
            deliveries.close();
            while let Ok(handed) = deliveries.try_recv() {
                unsent.extend(handed.holds());
            }
        }
        unsent.into_iter().for_each(|hold| self.give_back(hold));
        self.node.send(self.shard, Command::Leave(self.consumer));
    }
}
