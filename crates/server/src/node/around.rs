//! What a shard cannot see by itself: topics on other shards.

use driftq_core::command::{Missing, Seen};
use driftq_core::placement::Place;
use driftq_core::{Answered, Command, Rejection, Reply};

use super::{Lost, Node};

impl Node {
    /// Looks at the topics of a command's messages that are on other shards than the one which decides. A
    /// shard that does not answer is not waited for: what it would say is said later, by itself.
    pub(super) async fn look_around(&self, command: &mut Command) {
        let Place::Shard(shard) = command.place(self.shards()) else { return };
        for produce in command.produces() {
            for name in produce.beyond(shard, self.shards()) {
                match self.decide(Command::ViewTopic(name)).await {
                    Ok(Err(Rejection::NotFound(Missing::Topic))) => {
                        produce.seen = Some(Seen::Absent);
                        break;
                    }
                    Ok(Ok(Reply::Topic(view))) => {
                        produce.seen = Some(Seen::Partitions(view.partitions.len() as u32));
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
    }

    /// Asks the shard that another one has named. It answers for itself: there is no third.
    pub(super) async fn follow(&self, answered: Answered) -> Result<Answered, Lost> {
        match answered {
            Ok(Reply::Elsewhere(ask)) => self.decide(*ask).await,
            answered => Ok(answered),
        }
    }
}
