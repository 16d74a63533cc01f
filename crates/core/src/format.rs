//! Which releases can read what is stored and sent between nodes.
//!
//! A node that is alive may take over any shard, so nothing is stored that one of them cannot read.

use crate::command::{Command, Rejection};
use crate::message::Envelope;

/// What a release reads, of rows and of commands between nodes. A format includes all lower ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// The first release.
    #[default]
    V1 = 1,
    /// Envelopes may have an [`crate::Extension`], and retry policies without `max_attempts`.
    V2 = 2,
}

impl Format {
    /// The format that this release reads.
    pub const NEWEST: Format = Format::V2;
}

impl Envelope {
    /// Returns the lowest format whose readers understand the envelope. An earlier release takes a
    /// missing `max_attempts` for 0 attempts.
    pub(crate) fn format(&self) -> Format {
        let is_partial = self.retry_policy.is_some_and(|policy| policy.max_attempts == 0);
        if self.extension.is_some() || is_partial { Format::V2 } else { Format::V1 }
    }
}

impl Command {
    /// Returns the lowest format whose readers understand the command.
    pub fn format(&self) -> Format {
        let highest = match self {
            Command::Produce(produce) => Some(produce.envelope.format()),
            Command::Commit(commit) => {
                commit.produce.iter().map(|produce| produce.envelope.format()).max()
            }
            Command::Arrive(arrive) => {
                arrive.messages.iter().map(|message| message.envelope.format()).max()
            }
            _ => None,
        };
        highest.unwrap_or_default()
    }

    /// Rejects a client's command that `all`, the format that all live nodes read, does not include.
    /// Messages on their way to another shard were accepted before and are not rejected.
    pub fn check_format(&self, all: Format) -> Result<(), Rejection> {
        match self {
            Command::Produce(_) | Command::Commit(_) if self.format() > all => {
                Err(Rejection::OlderNodes)
            }
            _ => Ok(()),
        }
    }
}
