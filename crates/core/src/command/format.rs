//! The format that a command needs.

use crate::call_error::CallError;
use crate::command::{Command, Rejection};
use crate::format::Format;
use crate::settings::SettingsChange;

impl Command {
    /// Returns the lowest format whose readers understand the command.
    pub fn format(&self) -> Format {
        let highest = match self {
            // An earlier release would store the message unrouted.
            Command::Produce(produce) if produce.needs_routing => Some(Format::V2),
            Command::Produce(produce) => Some(produce.envelope.format()),
            Command::Commit(commit) => {
                commit.produce.iter().map(|produce| produce.envelope.format()).max()
            }
            Command::Arrive(arrive) => {
                arrive.messages.iter().map(|message| message.envelope.format()).max()
            }
            // Settings that the first release does not know.
            Command::CreateTopic(create) => {
                let is_known =
                    create.settings.dedupe_compare.is_none() && create.retry_policy.is_none();
                (!is_known).then_some(Format::V2)
            }
            Command::PatchTopic(patch) => {
                let SettingsChange { set, reset, retry_policy } = &patch.settings;
                let is_known = set.dedupe_compare.is_none()
                    && !reset.iter().any(|setting| setting.as_str() == "dedupe_compare")
                    && retry_policy.is_none();
                (!is_known).then_some(Format::V2)
            }
            Command::Recorded(_) | Command::ProduceWithNonce(_) => Some(Format::V2),
            _ => None,
        };
        highest.unwrap_or_default()
    }

    /// Returns the command as nodes that read `all` understand it: without its act if a node of an
    /// older release is alive. Such an act is not recorded.
    #[must_use]
    pub fn readable_by(self, all: Option<Format>) -> Command {
        match self {
            Command::Recorded(recorded) if all < Some(Format::V2) => recorded.command,
            command => command,
        }
    }

    /// Rejects a client's command that `all`, the format that all nodes read, does not include. While
    /// `all` is unknown, such a command waits. Messages on their way to another shard were accepted
    /// before and are not rejected.
    pub fn check_format(&self, all: Option<Format>) -> Result<Result<(), Rejection>, CallError> {
        let command = self.unrecorded();
        let is_gated = matches!(
            command,
            Command::Produce(_)
                | Command::ProduceWithNonce(_)
                | Command::Commit(_)
                | Command::CreateTopic(_)
                | Command::PatchTopic(_)
        );
        if !is_gated {
            return Ok(Ok(()));
        }
        match (command.format(), all) {
            (Format::V1, _) => Ok(Ok(())),
            (_, None) => Err(CallError::NotServing),
            (format, Some(all)) if format > all => Ok(Err(Rejection::OlderNodes)),
            (_, Some(_)) => Ok(Ok(())),
        }
    }
}
