//! The router: decides to which topic a message goes, and with which label.
//!
//! 1. It is asked when a produce request or a commit is accepted, once for all its messages. It is not
//!    asked again at a redrive, or when a message arrives from another shard.
//! 2. It only advises. The shard stores its decision with the message, pins it under the idempotency
//!    key or the nonce, and ignores a decision that cannot be followed.
//! 3. A message about which the router fails goes where its producer sent it, or is rejected
//!    ([`OnRouterError`]). A message of a commit is never rejected, because its effects have happened.

mod breaker;
mod hook;
mod rules;

use std::sync::Arc;

use driftq_api::router::RoutingDecision;
use driftq_core::command::Produce;
use driftq_core::{CallError, CommandResult, Rejection, Reply, Routing};
use serde::{Deserialize, Serialize};

pub(crate) use hook::Render;
pub use hook::{HookConfig, HookError};
pub use rules::{Match, RoutingRule};

use crate::metrics::Metrics;
use hook::Hook;

/// What happens to a message that is to be produced if the router fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnRouterError {
    /// It goes where its producer sent it.
    Accept,
    /// It is rejected, and the producer may retry.
    Reject,
}

/// What the router decided about a message. `None`: it goes where its producer sent it.
type Decided = Result<Option<Box<Routing>>, HookError>;

/// The router of a server.
pub(crate) struct MessageRouter {
    kind: Kind,
    on_error: OnRouterError,
    metrics: Arc<Metrics>,
}

enum Kind {
    Rules(Vec<RoutingRule>),
    Hook(Hook),
}

impl MessageRouter {
    pub(crate) fn of_rules(
        rules: Vec<RoutingRule>,
        on_error: OnRouterError,
        metrics: Arc<Metrics>,
    ) -> MessageRouter {
        MessageRouter { kind: Kind::Rules(rules), on_error, metrics }
    }

    pub(crate) fn of_hook(
        hook: &HookConfig,
        on_error: OnRouterError,
        render: Render,
        metrics: Arc<Metrics>,
    ) -> Result<MessageRouter, HookError> {
        let hook = Hook::new(hook, render, metrics.clone())?;
        Ok(MessageRouter { kind: Kind::Hook(hook), on_error, metrics })
    }

    pub(crate) fn is_hook(&self) -> bool {
        matches!(self.kind, Kind::Hook(_))
    }

    /// Sets the decisions for the messages of a produce request that are `waiting` for one.
    pub(crate) async fn route(&self, messages: &mut [Produce], waiting: &[usize]) {
        let asked: Vec<&Produce> = waiting.iter().map(|at| &messages[*at]).collect();
        let decisions = self.decide(&asked).await;
        let is_strict = self.on_error == OnRouterError::Reject;
        for (at, decision) in waiting.iter().zip(decisions) {
            let message = &mut messages[*at];
            // Without a decision, a message that needs one stays rejected.
            message.needs_routing = is_strict && !matches!(decision, Ok(None));
            message.routing = decision.ok().flatten();
        }
    }

    /// Sets the decisions for the messages of a commit.
    pub(crate) async fn advise(&self, messages: &mut [Produce]) {
        if messages.is_empty() {
            return;
        }
        let decisions = self.decide(&messages.iter().collect::<Vec<_>>()).await;
        for (message, decision) in messages.iter_mut().zip(decisions) {
            message.routing = decision.ok().flatten();
        }
    }

    /// Counts a decision about a message for `topic` that the shard has not followed.
    pub(crate) fn sent(
        &self,
        topic: &str,
        routing: &Routing,
        answer: &Result<CommandResult, CallError>,
    ) {
        let is_ignored = match answer {
            Ok(Ok(Reply::Produced(receipt))) if !receipt.deduplicated => {
                let stored_in = receipt.final_topic.as_deref().unwrap_or(topic);
                routing.target_topic.as_deref().is_some_and(|target| target != stored_in)
                    || routing.partition_override.is_some_and(|of| of != receipt.partition)
            }
            Ok(Err(Rejection::Unrouted)) => true,
            _ => false,
        };
        if is_ignored {
            self.metrics.routed("ignored");
        }
    }

    /// Whether a message is rejected if the router fails.
    pub(crate) fn rejects(&self) -> bool {
        self.on_error == OnRouterError::Reject
    }

    /// One decision for each message.
    pub(crate) async fn decide(&self, messages: &[&Produce]) -> Vec<Decided> {
        let decisions = match &self.kind {
            Kind::Rules(rules) => {
                messages.iter().map(|message| Ok(rules::decide(rules, message))).collect()
            }
            Kind::Hook(hook) => hook.decide(messages).await,
        };
        for decision in &decisions {
            self.metrics.routed(match decision {
                Ok(Some(_)) => "routed",
                Ok(None) => "unrouted",
                Err(_) => "failed",
            });
        }
        decisions
    }
}

/// A decision in the form that is stored. `None` if it decides nothing.
pub(crate) fn stored(decision: RoutingDecision) -> Option<Box<Routing>> {
    let target_topic = decision.target_topic.filter(|topic| !topic.is_empty());
    let decision = RoutingDecision { target_topic, ..decision };
    if decision == RoutingDecision::default() {
        return None;
    }
    let RoutingDecision { label, target_topic, partition_override, meta } = decision;
    let target_topic = target_topic.map(Into::into);
    let meta = meta.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    Some(Box::new(Routing { label: label.into(), target_topic, partition_override, meta }))
}

/// A decision in the form of the API.
pub(crate) fn to_view(routing: &Routing) -> RoutingDecision {
    let Routing { label, target_topic, partition_override, meta } = routing;
    RoutingDecision {
        label: label.to_string(),
        target_topic: target_topic.as_ref().map(ToString::to_string),
        partition_override: *partition_override,
        meta: meta.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
    }
}
