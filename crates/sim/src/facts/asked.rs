//! What the answers of a batch are about.

use driftq_checker::history::Name;
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
