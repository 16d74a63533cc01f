//! What a shard cannot see by itself: topics on other shards.

use std::collections::BTreeMap;
use std::time::Duration;

use driftq_core::command::Place;
use driftq_core::command::{Missing, Seen, TopicName};
use driftq_core::limits::PRODUCES_MAX;
use driftq_core::{Command, CommandResult, Rejection, Reply};
use futures_util::future::join_all;

use super::{CallError, Node};

/// How long a shard is looked at. One that is slower says what it would have said later, by itself.
const LOOK_WITHIN: Duration = Duration::from_millis(500);

impl Node {
    /// Looks at the topics of messages that are on other shards than the one which decides: each once, and all at
    /// the same time, for the lease of who commits is running.
    pub(super) async fn check_remote_topics(&self, commands: &mut [Command]) {
        let mut names: BTreeMap<TopicName, Option<Seen>> = BTreeMap::new();
        let shards = self.shards();
        for command in commands.iter_mut() {
            let Place::Shard(shard) = command.place(shards) else { continue };
            if command.produces().len() > PRODUCES_MAX {
                // It is refused for that.
                continue;
            }
            let beyond =
                command.produces().iter().flat_map(|produce| produce.beyond(shard, shards));
            names.extend(beyond.map(|name| (name, None)));
        }
        let looks = names.iter_mut().map(|(name, seen)| async {
            *seen = self.look_at(name.clone()).await;
        });
        join_all(looks).await;
        for command in commands {
            let Place::Shard(shard) = command.place(shards) else { continue };
            for produce in command.produces().iter_mut().take(PRODUCES_MAX) {
                let beyond = produce.beyond(shard, shards);
                let seen = beyond.iter().map(|name| names.get(name).copied().flatten());
                produce.seen = seen.reduce(later).flatten();
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

    /// Asks the shard that another one has named. It answers for itself: there is no third.
    pub(super) async fn follow_redirect(
        &self,
        answered: CommandResult,
    ) -> Result<CommandResult, CallError> {
        match answered {
            Ok(Reply::Elsewhere(ask)) => self.decide(*ask).await,
            answered => Ok(answered),
        }
    }

    /// The same for many.
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

/// What is seen of a way: of its last topic, unless one of them is not there.
fn later(before: Option<Seen>, then: Option<Seen>) -> Option<Seen> {
    match before {
        Some(Seen::Absent) => before,
        _ => then,
    }
}
