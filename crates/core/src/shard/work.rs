//! The work that a shard decides: commands, lease expiries and chores.

use crate::change::Chore;
use crate::command::{Command, LeaseId};

/// One unit of work to decide.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Sent by a client, an operator, another shard or the server.
    Command(Command),
    /// The lease has expired.
    ExpireLease(LeaseId),
    /// A chore that reads rows. Chores without reads are [`super::chores::maintain::MaintenanceStep`].
    Chore(Chore),
}

impl Work {
    /// Whether it repairs a partition. It is decided even if rows that it reads are damaged.
    pub(crate) fn is_repair(&self) -> bool {
        let Work::Command(command) = self else { return false };
        matches!(command.unrecorded(), Command::Repair(_))
    }

    /// Whether this is a produce. Produces keep their order: a batch is stored as it was sent.
    pub(crate) fn is_produce(&self) -> bool {
        matches!(self, Work::Command(Command::Produce(_) | Command::ProduceWithNonce(_)))
    }

    /// Whether this ends or extends a lease. Such work is decided first: a command that frees a
    /// worker or saves an attempt must not wait behind new work.
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
