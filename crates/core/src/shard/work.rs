//! What a shard decides: commands, and what it does by itself.

use crate::change::Chore;
use crate::command::{Command, LeaseId};

/// Something to be decided.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// A client, an operator, another shard or the server wants it.
    Command(Command),
    /// The lease has expired.
    ExpireLease(LeaseId),
    /// A chore that reads rows. Those that read none are [`super::chores::maintain::Upkeep`].
    Chore(Chore),
}

impl Work {
    /// Whether it is decided even if rows that it reads are damaged.
    pub(crate) fn reads_damaged(&self) -> bool {
        matches!(self, Work::Command(Command::Repair(_)))
    }

    /// A produce keeps its place: a batch is stored in the order it was sent.
    pub(crate) fn is_produce(&self) -> bool {
        matches!(self, Work::Command(Command::Produce(_)))
    }

    /// Settles go first: what frees a worker or saves an attempt must not wait behind new work.
    pub(crate) fn is_settle(&self) -> bool {
        match self {
            Work::ExpireLease(_) => true,
            Work::Chore(_) => false,
            Work::Command(command) => matches!(
                command,
                Command::Ack(_)
                    | Command::Nack(_)
                    | Command::Extend(_)
                    | Command::GiveBack(_)
                    | Command::Finish(_)
                    | Command::Commit(_)
                    | Command::ExtendEffect(_)
            ),
        }
    }
}
