//! Reading messages without leasing them.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::command::TopicName;
use crate::id::{MessageId, Offset, Text};
use crate::message::Message;
use crate::time::Timestamp;

/// Read one slice of one partition. The next slice starts at [`Peeked::next`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Peek {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: u32,
    /// The first offset to read.
    pub from: Offset,
    /// Return the state of each message in this group.
    pub group: Option<Text>,
    /// Which messages to return.
    pub filter: PeekFilter,
    /// The maximum number to return, at least 1.
    pub limit: u32,
    /// The maximum number to examine, at least 1.
    pub scan: u64,
}

/// Which messages a [`Peek`] returns: those that match every field that is set.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PeekFilter {
    /// The message key.
    pub key: Option<Bytes>,
    /// The run.
    pub run_id: Option<Text>,
    /// The step.
    pub step_id: Option<Text>,
    /// The tenant, `default` if the message has none.
    pub tenant_id: Option<Text>,
    /// The idempotency key.
    pub idempotency_key: Option<Text>,
    /// Produced at this time or later.
    pub since: Option<Timestamp>,
    /// Produced before this time.
    pub until: Option<Timestamp>,
    /// The state in the group. Requires a group.
    pub state: Option<PeekState>,
}

/// The state of a message in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeekState {
    /// Not delivered yet.
    Ready,
    /// Leased to a consumer.
    Leased,
    /// Waiting for a retry.
    Waiting,
    /// Settled, or not meant for the group.
    Settled,
}

impl PeekState {
    /// Returns its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            PeekState::Ready => "ready",
            PeekState::Leased => "leased",
            PeekState::Waiting => "waiting",
            PeekState::Settled => "settled",
        }
    }
}

/// One slice of a partition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peeked {
    /// In the order of their offsets.
    pub messages: Vec<PeekedMessage>,
    /// How many were examined.
    pub scanned: u64,
    /// Where the next slice starts. `None` at the end of the partition.
    pub next: Option<Offset>,
}

/// A message, and its state in the requested group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeekedMessage {
    /// Its id.
    pub id: MessageId,
    /// Its partition.
    pub partition: u32,
    /// Its offset in the partition.
    pub offset: Offset,
    /// The message.
    pub message: Arc<Message>,
    /// The state in the group. `None` without a group.
    pub state: Option<PeekState>,
    /// Deliveries that counted, while it is open.
    pub attempts: u32,
    /// Why the last attempt failed. Empty if none failed.
    pub last_error: Text,
    /// When it is due, while it waits.
    pub next_attempt_at: Option<Timestamp>,
    /// Its lease, while it is leased. The first release does not send it.
    #[serde(default)]
    pub lease: Option<PeekedLease>,
}

/// The lease of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeekedLease {
    /// The owner.
    pub owner: Text,
    /// The number of the delivery.
    pub attempt: u32,
    /// When the lease ends.
    pub until: Timestamp,
}
