//! The state shared by all requests, and how a request calls its shard.

use std::sync::Arc;

use driftq_api::Details;
use driftq_api::overview::Overview;
use driftq_core::command::{
    Act, Call, Explain, GroupName, Pause, Recorded, Seek, TopicName, ViewAll,
};
use driftq_core::view::AllViews;
use driftq_core::{Command, CommandResult, EffectToken, LeaseToken, Rejection, Text, Token as _};
use driftq_storage::Engine;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::access::AccessRules;
use super::api_error::{ApiError, Invalid, Subject, internal_error};
use super::body::memory_short;
use super::rejection_log::RejectionLog;
use super::request_log;
use crate::budget::{Budget, ConsumerShare};
use crate::clock::NodeClock;
use crate::config::Limits;
use crate::message_router::MessageRouter;
use crate::metrics::Metrics;
use crate::node::{CallError, MembershipHandle, Node};
use crate::traces::Traces;

/// The only namespace of a server without credentials per namespace.
pub(crate) const NAMESPACE: &str = "default";

/// Information about the server.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// `memory`, `sqlite` or `postgres`.
    pub engine: &'static str,
    /// The durability of an acknowledged write.
    pub durability: &'static str,
    /// When the server was started.
    pub started_at: driftq_api::Time,
    /// The commit that the server was built from.
    pub commit: &'static str,
}

/// The state shared by all requests. A single pointer, because it is cloned several times per
/// request.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The contents of an [`App`].
pub struct Parts {
    /// The shards.
    pub node: Node,
    /// The router of messages.
    pub(crate) router: Option<MessageRouter>,
    /// Limits on requests and connections.
    pub limits: Limits,
    /// Whether fields that DriftQ-Core v1 does not have are rejected.
    pub is_v1: bool,
    /// Whether clients may advance the clock.
    pub has_test_clock: bool,
    /// The memory budget that requests share.
    pub budget: Arc<Budget>,
    /// Information about the server.
    pub about: About,
    /// The rules by which requests are admitted.
    pub access: AccessRules,
    /// Set when the server drains.
    pub draining: tokio::sync::watch::Receiver<bool>,
    /// The metrics of the server.
    pub metrics: Arc<Metrics>,
    /// The exporter of spans.
    pub traces: Arc<Traces>,
    /// Counts rejections for the log.
    pub rejections: Arc<RejectionLog>,
    /// The last overview.
    pub overview: Mutex<Option<(Instant, Arc<Overview>)>>,
    /// The storage of the shards.
    pub storage: Arc<dyn Engine>,
    /// The clock of this process.
    pub(crate) clock: NodeClock,
    /// The cluster membership, if the engine is shared.
    pub(crate) membership: Option<MembershipHandle>,
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

pub(super) fn group_name(topic: &str, group: &str) -> GroupName {
    GroupName { topic: topic_name(topic), group: group.into() }
}

impl App {
    /// Sends a command to its shard. Converts a rejection into an error.
    pub(super) async fn call<C: Call>(&self, call: C) -> Result<C::Reply, ApiError> {
        let command = call.into_command();
        let named = named(command.unrecorded());
        let answered = typed::<C>(self.node.call(command).await)?;
        answered.map_err(|rejection| match &named {
            Some((topic, group)) => {
                let subject = Subject { topic: Some(topic), group: group.as_deref() };
                ApiError::rejected(rejection, subject)
            }
            None => rejection.into(),
        })
    }

    /// Like [`App::call`], for a call that is part of an administrative act. It is recorded in the
    /// commit that it changes something with.
    pub(super) async fn act<C: Call>(&self, act: &Act, call: C) -> Result<C::Reply, ApiError> {
        self.call(Recorded { act: act.clone(), call }).await
    }

    /// Returns all topics and groups.
    pub(super) async fn view_all(&self) -> Result<Box<AllViews>, ApiError> {
        self.call(ViewAll { namespace: NAMESPACE.into() }).await
    }

    /// Like [`App::call`], for a caller that handles the rejection.
    pub(super) async fn try_call<C: Call>(
        &self,
        call: C,
    ) -> Result<Result<C::Reply, Rejection>, ApiError> {
        typed::<C>(self.node.call(call.into_command()).await)
    }

    /// Verifies a token. It must have been minted by this storage for this namespace.
    pub(super) fn token<T: driftq_core::Token>(
        &self,
        field: &str,
        text: &str,
    ) -> Result<T, Invalid> {
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

    /// Returns the budget share of a consumer that joins.
    pub(super) fn consumer_share(&self) -> Result<Arc<ConsumerShare>, ApiError> {
        let message = "too many streams and polls for the server's memory; retry later";
        self.budget.consumer().ok_or_else(|| memory_short(message))
    }

    /// Counts a rejection of a request, or of one item of a batch. Logs it if it is a fault of the
    /// server.
    pub(super) fn refused(&self, error: &ApiError) {
        if let Some(reason) = error.exhausted() {
            self.metrics.refused(reason);
        }
        if let Details::Internal(_) = &error.0.details {
            tracing::error!(request_id = %request_log::current_id(), "{}", error.0.message);
        }
        self.rejections.count(error.0.code());
    }
}

/// The topic that a command names, and the group if it names one.
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
    if let Command::Explain(explain) = command
        && let Explain::Group(name) = &**explain
    {
        return group(name);
    }
    None
}

/// Explains that a token of the wrong kind was sent.
fn other_kind(wanted: &str, text: &str) -> Option<&'static str> {
    if wanted == EffectToken::PREFIX && text.starts_with(LeaseToken::PREFIX) {
        return Some("is a lease token; send the effect token that begin returned (et_…)");
    }
    if wanted == LeaseToken::PREFIX && text.starts_with(EffectToken::PREFIX) {
        return Some("is an effect token; send the lease token of the delivery (lt_…)");
    }
    None
}

/// Converts the answer of a call to the type of its reply.
pub(super) fn typed<C: Call>(
    answered: Result<CommandResult, CallError>,
) -> Result<Result<C::Reply, Rejection>, ApiError> {
    match answered? {
        Ok(reply) => C::reply(reply).map(Ok).ok_or_else(|| internal_error(WRONG_REPLY)),
        Err(rejection) => Ok(Err(rejection)),
    }
}

pub(super) const WRONG_REPLY: &str = "a shard answered with the reply to another command";
