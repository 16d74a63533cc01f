//! HTTP around the node: one file per resource.

mod accept;
mod bulk;
mod consume;
mod convert;
mod dlq;
mod explain;
mod failure;
mod groups;
mod guard;
mod health;
mod input;
mod pages;
mod peek;
mod produce;
mod receive;
mod session;
mod settle;
mod topics;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use driftq_core::command::{GroupName, TopicName};

use crate::node::Node;
use failure::Failure;

pub use accept::{Listener, serve};
pub use guard::Guard;

/// The one namespace of a server without credentials of its own.
pub(crate) const NAMESPACE: &str = "default";

/// What requests may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Unsettled bytes one stream may hold.
    pub stream_bytes: u64,
    /// Connections at a time.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { body_bytes: 8 << 20, stream_bytes: 8 << 20, connections: 10_000 }
    }
}

/// What the server says of itself.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// `memory` or `sqlite`.
    pub engine: &'static str,
    /// What survives.
    pub durability: &'static str,
    /// When it was started.
    pub started_at: driftq_api::Time,
    /// The build.
    pub commit: &'static str,
}

/// What every request is served with.
#[derive(Clone)]
pub struct App {
    /// The shards.
    pub node: Node,
    /// Bounds.
    pub limits: Limits,
    /// What it says of itself.
    pub about: About,
    /// Who may come in.
    pub guard: Arc<Guard>,
    /// Set when the server drains.
    pub draining: tokio::sync::watch::Receiver<bool>,
    /// Numbers.
    pub metrics: Arc<crate::metrics::Metrics>,
}

pub(crate) fn topic_name(topic: &str) -> TopicName {
    TopicName { namespace: NAMESPACE.into(), topic: topic.into() }
}

fn group_name(topic: &str, group: &str) -> GroupName {
    GroupName { topic: topic_name(topic), group: group.into() }
}

/// Every route.
pub fn router(app: App) -> Router {
    let group = "/v1/topics/{topic}/groups/{group}";
    Router::new()
        .route("/v1/healthz", get(health::alive))
        .route("/v1/readyz", get(health::ready))
        .route("/v1/version", get(health::version))
        .route("/v1/topics", get(topics::list).post(topics::create))
        .route("/v1/topics/{topic}", get(topics::show).patch(topics::patch).delete(topics::delete))
        .route("/v1/topics/{topic}/messages", get(peek::messages))
        .route("/v1/topics/{topic}/groups", get(groups::list))
        .route(group, get(groups::show).put(groups::create).delete(groups::delete))
        .route(&format!("{group}/pause"), post(groups::pause))
        .route(&format!("{group}/resume"), post(groups::resume))
        .route(&format!("{group}/seek"), post(groups::seek))
        .route("/v1/produce", post(produce::one))
        .route("/v1/produce/batch", post(produce::batch))
        .route("/v1/consume", get(consume::stream).post(consume::stream))
        .route("/v1/receive", post(receive::receive))
        .route("/v1/ack", post(settle::ack))
        .route("/v1/nack", post(settle::nack))
        .route("/v1/extend", post(settle::extend))
        .route("/v1/settle", post(settle::many))
        .route("/v1/dlq/{topic}", get(dlq::list))
        .route("/v1/dlq/{topic}/redrive", post(dlq::redrive))
        .route("/v1/dlq/{topic}/purge", post(dlq::purge))
        .route("/v1/explain", get(explain::explain))
        .route("/metrics", get(health::metrics))
        .fallback(no_route)
        .layer(tower_http::catch_panic::CatchPanicLayer::custom(guard::panicked))
        .layer(axum::middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}

impl App {
    /// Has a command decided; what is refused or lost is told the caller.
    async fn ask(&self, command: driftq_core::Command) -> Result<driftq_core::Reply, Failure> {
        Ok(self.node.call(command).await??)
    }
}

/// The core answered another question: a defect of ours.
fn unexpected() -> Failure {
    tracing::error!("an answer to another question");
    Failure::new(driftq_api::ErrorCode::Internal, "a defect of the server; it is in its log")
        .with("outcome", "unknown")
}

/// A body that borrows what it shows.
fn json<T: serde::Serialize>(body: &T) -> axum::http::Response<axum::body::Body> {
    let body = serde_json::to_vec(body).expect("answers are plain");
    let mut response = axum::http::Response::new(axum::body::Body::from(body));
    let kind = axum::http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(axum::http::header::CONTENT_TYPE, kind);
    response
}

async fn no_route() -> Failure {
    Failure::new(driftq_api::ErrorCode::NotFound, "no such path: every path begins with /v1")
        .with("kind", "route")
}
