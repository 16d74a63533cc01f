//! Which releases can read what is stored and sent between nodes.
//!
//! A node that is alive may take over any shard, so nothing is stored that one of them cannot read.

use crate::command::{Command, Rejection};

/// What a release reads, of rows and of commands between nodes. A format includes all lower ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// The first release.
    #[default]
    V1 = 1,
    /// Envelopes may have an [`crate::Extension`].
    V2 = 2,
}

impl Format {
    /// The format that this release reads.
    pub const NEWEST: Format = Format::V2;

    /// The lowest format with an extension, if there is one.
    pub(crate) fn of(has_extension: bool) -> Format {
        if has_extension { Format::V2 } else { Format::V1 }
    }
}

impl Command {
    /// Returns the lowest format whose readers understand the command.
    pub fn format(&self) -> Format {
        Format::of(match self {
            Command::Produce(produce) => produce.envelope.extension.is_some(),
            Command::Commit(commit) => {
                commit.produce.iter().any(|produce| produce.envelope.extension.is_some())
            }
            Command::Arrive(arrive) => {
                arrive.messages.iter().any(|message| message.envelope.extension.is_some())
            }
            _ => false,
        })
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
