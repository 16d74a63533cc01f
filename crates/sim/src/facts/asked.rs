//! What the answers of a batch are about.

use driftq_checker::history::{Fact, Name};
use driftq_core::{Command, TopicId};

use super::body_in;

/// What must be known of a command to say what its answer means.
#[derive(Debug, Clone)]
pub(crate) enum Asked {
    /// The keyed part of a produce.
    Keyed { topic: Name, tenant: Name, idem: Name, body: u64 },
    /// Something about an effect.
    OfTheLedger,
    /// A commit under a delivery of that topic.
    Commit(TopicId),
    /// What an operator asks for, where it matters when it was decided.
    Operator,
    /// A consumer joins: what becomes true if it may.
    Join(Fact),
}

impl Asked {
    pub(crate) fn of(command: &Command) -> Option<Asked> {
        if let Command::Begin(_)
        | Command::Finish(_)
        | Command::ExtendEffect(_)
        | Command::Resolve(_) = command
        {
            return Some(Asked::OfTheLedger);
        }
        if let Command::CreateGroup(..)
        | Command::Seek(_)
        | Command::Purge(_)
        | Command::WouldPurge(_)
        | Command::PatchTopic(_)
        | Command::ViewTopic(_)
        | Command::Explain(_)
        | Command::Peek(_)
        | Command::ViewPointer(_) = command
        {
            return Some(Asked::Operator);
        }
        if let Command::Join(join) = command {
            return Some(Asked::Join(Fact::Joined {
                consumer: join.consumer.0,
                topic: join.name.topic.topic.clone(),
                group: join.name.group.clone(),
            }));
        }
        if let Command::Commit(commit) = command {
            return Some(Asked::Commit(commit.token.topic));
        }
        let Command::Produce(produce) = command else {
            return None;
        };
        let idem = produce.envelope.idempotency_key.clone()?;
        let tenant = produce.envelope.tenant_id.clone().unwrap_or_else(|| "default".into());
        let body = body_in(std::str::from_utf8(&produce.value).unwrap_or(""));
        Some(Asked::Keyed { topic: produce.topic.topic.clone(), tenant, idem, body })
    }
}
