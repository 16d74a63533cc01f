//! Looks up topics on other shards before a shard decides, because a shard sees only its own
//! topics.

use std::collections::BTreeMap;
use std::time::Duration;

use driftq_core::command::CommandTarget;
use driftq_core::command::{Missing, Produce, Seen, TopicName};
use driftq_core::limits::PRODUCES_MAX;
use driftq_core::{Command, CommandResult, Rejection, Reply};
use futures_util::future::join_all;

use super::{CallError, Node};

/// How long a lookup may take. If it takes longer, the command is decided without its result.
const LOOK_WITHIN: Duration = Duration::from_millis(500);

impl Node {
    /// Looks up the topics of messages that live on other shards than the deciding one. Each topic
    /// is looked up once, and all in parallel, because the lease of the committing worker is
    /// running.
    pub(super) async fn check_remote_topics(&self, commands: &mut [Command]) {
        let mut names: BTreeMap<TopicName, Option<Seen>> = BTreeMap::new();
        let shards = self.shards();
        for command in commands.iter() {
            let CommandTarget::Shard(shard) = command.place(shards) else { continue };
            if command.produces().len() > PRODUCES_MAX {
                // The shard rejects a command with too many messages.
                continue;
            }
            for produce in command.produces() {
                names.extend(
                    produce.remote_topics(shard, shards).into_iter().map(|name| (name, None)),
                );
                if produce.routing.is_some() {
                    let unrouted = produce.unrouted().remote_topics(shard, shards);
                    names.extend(unrouted.into_iter().map(|name| (name, None)));
                }
            }
        }
        let looks = names.iter_mut().map(|(name, seen)| async {
            *seen = self.look_at(name.clone()).await;
        });
        join_all(looks).await;
        for command in commands {
            let CommandTarget::Shard(shard) = command.place(shards) else { continue };
            for produce in command.produces_mut().iter_mut().take(PRODUCES_MAX) {
                let seen_of = |produce: &Produce| {
                    let topics = produce.remote_topics(shard, shards);
                    let seen = topics.iter().map(|name| names.get(name).copied().flatten());
                    seen.reduce(later).flatten()
                };
                produce.seen = seen_of(produce);
                if !produce.can_follow_routing() {
                    *produce = produce.unrouted();
                    produce.seen = seen_of(produce);
                }
            }
        }
    }

    async fn look_at(&self, name: TopicName) -> Option<Seen> {
        let look = self.decide(Command::ViewTopic(name));
        match tokio::time::timeout(LOOK_WITHIN, look).await {
            Ok(Ok(Err(Rejection::NotFound(Missing::Topic)))) => Some(Seen::Absent),
            Ok(Ok(Ok(Reply::Topic(view)))) => Some(Seen::Partitions(view.partitions.len() as u32)),
            Ok(Ok(_) | Err(_)) | Err(_) => None,
        }
    }

    /// Follows one redirect. A redirect never leads to another.
    pub(super) async fn follow_redirect(
        &self,
        answered: CommandResult,
    ) -> Result<CommandResult, CallError> {
        match answered {
            Ok(Reply::Elsewhere(ask)) => self.decide(*ask).await,
            answered => Ok(answered),
        }
    }

    /// Follows the redirects among many answers.
    pub(super) async fn follow_redirects(
        &self,
        mut answers: Vec<Result<CommandResult, CallError>>,
    ) -> Vec<Result<CommandResult, CallError>> {
        let (mut places, mut asks) = (Vec::new(), Vec::new());
        for (at, answered) in answers.iter_mut().enumerate() {
            if let Ok(Ok(Reply::Elsewhere(ask))) = answered {
                places.push(at);
                asks.push(Command::clone(ask));
            }
        }
        for (at, answered) in places.into_iter().zip(self.decide_all(asks).await) {
            answers[at] = answered;
        }
        answers
    }
}

/// Combines the lookups of one route: the result of the last topic, unless an earlier topic does
/// not exist.
fn later(before: Option<Seen>, then: Option<Seen>) -> Option<Seen> {
    match before {
        Some(Seen::Absent) => before,
        _ => then,
    }
}
