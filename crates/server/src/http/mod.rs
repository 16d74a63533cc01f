//! HTTP around the node: one file per resource.

mod accept;
mod answer;
mod api_error;
mod audit;
mod body;
mod bulk;
mod clock;
mod cluster;
mod commit;
mod connections;
mod consume;
mod convert;
mod cors;
mod counted;
mod dlq;
mod effect_view;
mod effects;
mod explain;
#[cfg(test)]
mod forms;
mod groups;
mod guard;
mod health;
mod host;
mod input;
mod internal;
mod json_error;
mod off_runtime;
mod openapi;
mod outcome;
mod pages;
mod peek;
mod pointers;
mod poll_answer;
mod produce;
mod query;
mod receive;
mod refusals;
mod repair;
mod session;
mod settings;
mod settle;
mod topics;
mod words;

use std::sync::Arc;

use axum::Router;
use driftq_api::error::details::{Internal, NotFound};
use driftq_api::words::{MissingKind, Outcome};
use driftq_core::command::{Call, GroupName, Pause, Seek, TopicName};
use driftq_core::{Answered, Command, EffectToken, LeaseToken, Rejection, Text, Token as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::node::{Lost, Node};
use api_error::{ApiError, Invalid, Subject};

pub use accept::{Listener, serve};
pub use cors::AllowedOrigins;
pub use guard::Guard;
pub use host::AllowedHosts;
pub use openapi::document;
pub use refusals::Refusals;

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

/// What every request is served with. One pointer: it is cloned several times for each of them.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// What an [`App`] holds.
pub struct Parts {
    /// The shards.
    pub node: Node,
    /// Bounds.
    pub limits: Limits,
    /// Memory that requests may use together.
    pub budget: Arc<crate::budget::Budget>,
    /// What it says of itself.
    pub about: About,
    /// Who may come in.
    pub guard: Guard,
    /// Set when the server drains.
    pub draining: tokio::sync::watch::Receiver<bool>,
    /// Numbers.
    pub metrics: Arc<crate::metrics::Metrics>,
    /// Refusals that the log has not told yet.
    pub refusals: Arc<Refusals>,
    /// The clock of this process.
    pub(crate) clock: crate::clock::NodeClock,
    /// Its place among other nodes, if there are any.
    pub(crate) seat: Option<crate::cluster::Seat>,
}

impl From<Parts> for App {
    fn from(parts: Parts) -> App {
        App(Arc::new(parts))
    }
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

pub(crate) fn topic_name(topic: &str) -> TopicName {
    TopicName { namespace: NAMESPACE.into(), topic: topic.into() }
}

fn group_name(topic: &str, group: &str) -> GroupName {
    GroupName { topic: topic_name(topic), group: group.into() }
}

/// Every route, and what the document says of it.
fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(health::version))
        .routes(routes!(topics::list, topics::create))
        .routes(routes!(topics::show, topics::patch, topics::delete))
        .routes(routes!(repair::repair))
        .routes(routes!(peek::messages))
        .routes(routes!(groups::list))
        .routes(routes!(groups::show, groups::create, groups::delete))
        .routes(routes!(groups::pause))
        .routes(routes!(groups::resume))
        .routes(routes!(groups::seek))
        .routes(routes!(produce::one))
        .routes(routes!(produce::batch))
        .routes(routes!(consume::by_query, consume::by_body))
        .routes(routes!(receive::receive))
        .routes(routes!(settle::ack))
        .routes(routes!(settle::nack))
        .routes(routes!(settle::extend))
        .routes(routes!(settle::many))
        .routes(routes!(dlq::list))
        .routes(routes!(dlq::redrive))
        .routes(routes!(dlq::purge))
        .routes(routes!(explain::explain))
        .routes(routes!(commit::commit))
        .routes(routes!(pointers::pointers))
        .routes(routes!(effects::begin))
        .routes(routes!(effects::finish))
        .routes(routes!(effects::reacquire))
        .routes(routes!(effects::extend))
        .routes(routes!(effects::resolve))
        .routes(routes!(effects::look))
        .routes(routes!(audit::chains))
        .routes(routes!(audit::records))
        .routes(routes!(clock::confirm))
        .routes(routes!(cluster::nodes))
        .routes(routes!(cluster::drain))
        .routes(routes!(cluster::undrain))
        .routes(routes!(cluster::shards))
        .routes(routes!(cluster::put))
        .routes(routes!(health::metrics))
}

/// Every route, ready to serve.
pub fn router(app: App) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .merge(internal::router(&app))
        .fallback(no_route)
        .layer(tower_http::catch_panic::CatchPanicLayer::custom(guard::panicked))
        .layer(axum::middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}

impl App {
    /// Sends a command to its shard.
    async fn call<C: Call>(&self, call: C) -> Result<C::Reply, ApiError> {
        let command = call.into_command();
        let named = named(&command);
        let answered = typed::<C>(self.node.call(command).await)?;
        answered.map_err(|rejection| match &named {
            Some((topic, group)) => {
                let subject = Subject { topic: Some(topic), group: group.as_deref() };
                ApiError::rejected(rejection, subject)
            }
            None => rejection.into(),
        })
    }

    /// As [`App::call`], for a caller that handles the rejection.
    async fn try_call<C: Call>(&self, call: C) -> Result<Result<C::Reply, Rejection>, ApiError> {
        typed::<C>(self.node.call(call.into_command()).await)
    }

    /// The token of a text, if it was minted here for this namespace.
    fn token<T: driftq_core::Token>(&self, field: &str, text: &str) -> Result<T, Invalid> {
        let token: Result<T, _> = self.node.keys().verify(text);
        let token = token.map_err(|error| match other_kind(T::PREFIX, text) {
            Some(reason) => Invalid::new(field, reason),
            None => Invalid::new(field, error.to_string()),
        })?;
        if token.namespace() != NAMESPACE {
            return Err(Invalid::new(field, "the token belongs to another namespace"));
        }
        Ok(token)
    }

    /// What a consumer that joins may hold.
    fn consumer_share(&self) -> Result<Arc<crate::budget::ConsumerShare>, ApiError> {
        let says = "too many streams and polls for the memory of the server: try again later";
        self.budget.consumer().ok_or_else(|| body::memory_short(says))
    }

    /// Counts a refusal, of a whole request or of one item among others.
    fn refused(&self, error: &ApiError) {
        if let Some(reason) = error.exhausted() {
            self.metrics.refused(reason);
        }
        self.refusals.count(error.0.code());
    }
}

/// The topic, and the group if there is one, that a command is about by name.
fn named(command: &Command) -> Option<(Text, Option<Text>)> {
    if let Command::ViewTopic(name)
    | Command::DeleteTopic(name)
    | Command::WouldDeleteTopic(name)
    | Command::ListGroups(name) = command
    {
        return Some((name.topic.clone(), None));
    }
    if let Command::PatchTopic(patch) = command {
        return Some((patch.name.topic.clone(), None));
    }
    let group = |name: &GroupName| Some((name.topic.topic.clone(), Some(name.group.clone())));
    if let Command::ViewGroup(name)
    | Command::CreateGroup(name, _)
    | Command::DeleteGroup(name)
    | Command::WouldDeleteGroup(name)
    | Command::Resume(name)
    | Command::Pause(Pause { name, .. })
    | Command::Seek(Seek { name, .. }) = command
    {
        return group(name);
    }
    None
}

/// What to say of a token of another kind than is wanted.
fn other_kind(wanted: &str, text: &str) -> Option<&'static str> {
    if wanted == EffectToken::PREFIX && text.starts_with(LeaseToken::PREFIX) {
        return Some("this is a lease token: here goes the effect token that begin gave, et_…");
    }
    if wanted == LeaseToken::PREFIX && text.starts_with(EffectToken::PREFIX) {
        return Some("this is an effect token: here goes the lease token of the delivery, lt_…");
    }
    None
}

/// The answer to a call, with the type of its reply.
fn typed<C: Call>(
    answered: Result<Answered, Lost>,
) -> Result<Result<C::Reply, Rejection>, ApiError> {
    match answered? {
        Ok(reply) => C::reply(reply).map(Ok).ok_or_else(|| internal_error(WRONG_REPLY)),
        Err(rejection) => Ok(Err(rejection)),
    }
}

const WRONG_REPLY: &str = "a shard answered with the reply to another command";

/// A bug in the server.
fn internal_error(what: &str) -> ApiError {
    tracing::error!(what, "internal error");
    ApiError::new(Internal { outcome: Outcome::Unknown }, "internal error; see the server log")
}

/// An answer whose body is JSON.
fn of_json(body: axum::body::Body) -> axum::http::Response<axum::body::Body> {
    let mut response = axum::http::Response::new(body);
    let kind = axum::http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(axum::http::header::CONTENT_TYPE, kind);
    response
}

async fn no_route() -> ApiError {
    let message = "this path does not exist; docs/reference/api.md lists the routes";
    ApiError::new(NotFound { kind: MissingKind::Route }, message)
}
