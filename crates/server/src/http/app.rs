//! What every request is served with, and how a request calls its shard.

use std::sync::Arc;

use driftq_core::command::{Call, GroupName, Pause, Seek, TopicName};
use driftq_core::{Command, CommandResult, EffectToken, LeaseToken, Rejection, Text, Token as _};

use super::access::AccessRules;
use super::api_error::{ApiError, Invalid, Subject, internal_error};
use super::body::memory_short;
use super::rejection_log::RejectionLog;
use crate::budget::{Budget, ConsumerShare};
use crate::clock::NodeClock;
use crate::config::Limits;
use crate::metrics::Metrics;
use crate::node::{CallError, MembershipHandle, Node};

/// The one namespace of a server without credentials of its own.
pub(crate) const NAMESPACE: &str = "default";

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
    pub budget: Arc<Budget>,
    /// What it says of itself.
    pub about: About,
    /// Who may come in.
    pub access: AccessRules,
    /// Set when the server drains.
    pub draining: tokio::sync::watch::Receiver<bool>,
    /// Numbers.
    pub metrics: Arc<Metrics>,
    /// RejectionLog that the log has not told yet.
    pub rejections: Arc<RejectionLog>,
    /// The clock of this process.
    pub(crate) clock: NodeClock,
    /// Its place among other nodes, if there are any.
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
    /// Sends a command to its shard.
    pub(super) async fn call<C: Call>(&self, call: C) -> Result<C::Reply, ApiError> {
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
    pub(super) async fn try_call<C: Call>(
        &self,
        call: C,
    ) -> Result<Result<C::Reply, Rejection>, ApiError> {
        typed::<C>(self.node.call(call.into_command()).await)
    }

    /// The token of a text, if it was minted here for this namespace.
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

    /// What a consumer that joins may hold.
    pub(super) fn consumer_share(&self) -> Result<Arc<ConsumerShare>, ApiError> {
        let message = "too many streams and polls for the memory of the server: try again later";
        self.budget.consumer().ok_or_else(|| memory_short(message))
    }

    /// Counts a refusal, of a whole request or of one item among others.
    pub(super) fn refused(&self, error: &ApiError) {
        if let Some(reason) = error.exhausted() {
            self.metrics.refused(reason);
        }
        self.rejections.count(error.0.code());
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
pub(super) fn typed<C: Call>(
    answered: Result<CommandResult, CallError>,
) -> Result<Result<C::Reply, Rejection>, ApiError> {
    match answered? {
        Ok(reply) => C::reply(reply).map(Ok).ok_or_else(|| internal_error(WRONG_REPLY)),
        Err(rejection) => Ok(Err(rejection)),
    }
}

pub(super) const WRONG_REPLY: &str = "a shard answered with the reply to another command";
