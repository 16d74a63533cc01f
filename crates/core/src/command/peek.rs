//! Looking at messages without taking them.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::command::TopicName;
use crate::id::{MessageId, Offset, Text};
use crate::message::Message;
use crate::time::Timestamp;

/// Look at one slice of one partition. Whoever wants more goes on at [`Peeked::next`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Peek {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: u32,
    /// The first offset to look at.
    pub from: Offset,
    /// Show what the message is to this group.
    pub group: Option<Text>,
    /// Which messages to show.
    pub filter: PeekFilter,
    /// How many to show at most; at least one.
    pub limit: u32,
    /// How many to look at at most; at least one.
    pub scan: u64,
}

/// Which messages a [`Peek`] shows: those of which everything given here is true.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PeekFilter {
    /// The message key.
    pub key: Option<Bytes>,
    /// The run.
    pub run_id: Option<Text>,
    /// The step.
    pub step_id: Option<Text>,
    /// The tenant in force.
    pub tenant_id: Option<Text>,
    /// The idempotency key.
    pub idempotency_key: Option<Text>,
    /// Produced then or later.
    pub since: Option<Timestamp>,
    /// Produced before.
    pub until: Option<Timestamp>,
    /// What it is to the group, which must be named.
    pub state: Option<PeekState>,
}

/// What a message is to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeekState {
    /// Not delivered yet.
    Ready,
    /// With a consumer.
    Leased,
    /// To be delivered again.
    Waiting,
    /// Over, or not meant for the group.
    Settled,
}

impl PeekState {
    /// The word for it on the wire.
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
    /// How many were looked at.
    pub scanned: u64,
    /// Where to go on; `None`: that was the end.
    pub next: Option<Offset>,
}

/// A message, and what it is to the group that was named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeekedMessage {
    /// Its id.
    pub id: MessageId,
    /// Its partition.
    pub partition: u32,
    /// Its place there.
    pub offset: Offset,
    /// The message.
    pub message: Arc<Message>,
    /// What it is to the group; `None` without one.
    pub state: Option<PeekState>,
    /// Deliveries that counted, while it is open.
    pub attempts: u32,
    /// Why the last of them failed; empty if none did.
    pub last_error: Text,
    /// When it is due, while it waits.
    pub next_attempt_at: Option<Timestamp>,
}
