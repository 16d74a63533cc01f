//! The commands behind the replies of a batch.

use driftq_checker::history::{Fact, Name};
use driftq_core::command::PeerKind;
use driftq_core::{Command, TopicId};

use super::body_in;

/// The part of a command that is needed to interpret its reply.
#[derive(Debug, Clone)]
pub(crate) enum CommandContext {
    /// A produce with an idempotency key.
    Keyed { topic: Name, tenant: Name, idem: Name, body: u64 },
    /// A call to the ledger.
    OfTheLedger,
    /// A commit under a delivery of this topic.
    Commit(TopicId),
    /// A request of an operator for which the time of its decision matters.
    Operator,
    /// A join, with the fact that holds if it succeeds.
    Join(Fact),
    /// A worker leaves.
    LeaveWorker(Name),
}

impl CommandContext {
    pub(crate) fn of(command: &Command) -> Option<CommandContext> {
        if let Command::Recorded(recorded) = command {
            let context = CommandContext::of(&recorded.command);
            return Some(context.unwrap_or(CommandContext::Operator));
        }
        if let Command::Begin(_)
        | Command::Finish(_)
        | Command::ExtendEffect(_)
        | Command::Resolve(_) = command
        {
            return Some(CommandContext::OfTheLedger);
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
            return Some(CommandContext::Operator);
        }
        if let Command::Join(join) = command {
            return Some(CommandContext::Join(Fact::Joined {
                consumer: join.consumer.0,
                topic: join.name.topic.topic.clone(),
                group: join.name.group.clone(),
                poll: join.peer.kind == PeerKind::Poll,
                credit: join.credit,
                worker: join.peer.worker.as_ref().map(|worker| worker.id.clone()),
            }));
        }
        if let Command::LeaveWorker { worker } = command {
            return Some(CommandContext::LeaveWorker(worker.clone()));
        }
        if let Command::Commit(commit) = command {
            return Some(CommandContext::Commit(commit.token.topic));
        }
        let Command::Produce(produce) = command else {
            return None;
        };
        let idem = produce.envelope.idempotency_key.clone()?;
        let tenant = produce.envelope.tenant_id.clone().unwrap_or_else(|| "default".into());
        let body = body_in(std::str::from_utf8(&produce.value).unwrap_or(""));
        Some(CommandContext::Keyed { topic: produce.topic.topic.clone(), tenant, idem, body })
    }
}
