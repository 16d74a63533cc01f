//! What nodes ask each other. Not for clients: it takes what only nodes of this storage know.
//!
//! Nothing is passed on: what is not served here, under the epoch that the asker expects, is refused, and
//! nothing has happened.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use axum::routing::post;
use axum::{Router, middleware};
use driftq_core::node_codec::{open_call, pack_answer, pack_deliveries};
use driftq_core::{Command, CommandResult, ConsumerId, Epoch, ShardId};

use super::access::is_same_secret;
use super::api_error::no_route;
use super::app::App;
use crate::node::{
    CallError, ConsumerEvent, Deliveries, EPOCH, Node, SECRET, SHARD, frame, frames, pack_lost,
};

/// The largest batch, and what it takes to say it.
const BODY_BYTES: usize = 64 << 20;

pub(super) fn router(app: &App) -> Router<App> {
    Router::new()
        .route("/internal/v1/call", post(call))
        .route("/internal/v1/calls", post(calls))
        .route("/internal/v1/join", post(join))
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

/// The shard that is meant, if it is served here as the asker expects.
fn meant(app: &App, headers: &HeaderMap) -> Option<ShardId> {
    let number = |name| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    let shard = ShardId(u32::try_from(number(SHARD)?).ok()?);
    app.node.serves(shard, Epoch(number(EPOCH)?)).then_some(shard)
}

fn told(lost: CallError) -> Response<Body> {
    match lost {
        CallError::NotServing => StatusCode::CONFLICT,
        CallError::Overloaded => StatusCode::TOO_MANY_REQUESTS,
        CallError::Unknown => StatusCode::SERVICE_UNAVAILABLE,
    }
    .into_response()
}

async fn call(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let Some(shard) = meant(&app, &headers) else { return told(CallError::NotServing) };
    let Ok(command) = open_call(&body) else {
        // It was not taken: nothing happened. A node of an older version cannot serve it.
        return told(CallError::NotServing);
    };
    match app.node.call_here(shard, command).await {
        Ok(answered) => Response::new(Body::from(pack_answer(&answered))),
        Err(lost) => told(lost),
    }
}

/// Commands one after the other, so that a batch can decide them together.
async fn calls(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let Some(shard) = meant(&app, &headers) else { return told(CallError::NotServing) };
    let commands = frames(&body).iter().map(|frame| open_call(frame)).collect::<Result<_, _>>();
    let Ok(commands) = commands else { return told(CallError::NotServing) };
    let answers = app.node.call_all_here(shard, commands).await;
    if answers.iter().all(|answered| matches!(answered, Err(CallError::NotServing))) {
        return told(CallError::NotServing);
    }
    let frames = answers.iter().map(|answered| match answered {
        Ok(answered) => frame(&pack_answer(answered)),
        Err(lost) => frame(pack_lost(*lost)),
    });
    let body: Vec<u8> = frames.flatten().collect();
    Response::new(Body::from(body))
}

async fn join(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let Some(shard) = meant(&app, &headers) else { return told(CallError::NotServing) };
    let Ok(Command::Join(mut join)) = open_call(&body) else { return told(CallError::NotServing) };
    // Numbers of consumers are of a process. The answer says which it is.
    join.consumer = app.node.next_consumer();
    let mut guest = Guest {
        node: app.node.clone(),
        shard,
        consumer: join.consumer,
        deliveries: None,
        first: None,
    };
    match app.node.join_here(shard, join).await {
        Ok((answered, deliveries)) => {
            (guest.first, guest.deliveries) = (Some(answered), Some(deliveries));
            Response::new(Body::from_stream(futures_util::stream::unfold(guest, Guest::next)))
        }
        Err(lost) => told(lost),
    }
}

/// A consumer of another node. Dropped, it leaves, and what was not sent goes back.
struct Guest {
    node: Node,
    shard: ShardId,
    consumer: ConsumerId,
    deliveries: Option<Deliveries>,
    first: Option<CommandResult>,
}

impl Guest {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Guest)> {
        if let Some(answered) = self.first.take() {
            return Some((Ok(frame(&pack_answer(&answered))), self));
        }
        let content = match self.deliveries.as_mut()?.recv().await? {
            ConsumerEvent::Deliveries(given) => frame(&pack_deliveries(&given)),
            ConsumerEvent::Dismissed => frame(&[]),
        };
        Some((Ok(content), self))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(deliveries) = &mut self.deliveries {
            deliveries.close();
            while let Ok(handed) = deliveries.try_recv() {
                for hold in handed.holds() {
                    self.node.send(self.shard, Command::GiveBack(hold));
                }
            }
        }
        self.node.send(self.shard, Command::Leave(self.consumer));
    }
}
