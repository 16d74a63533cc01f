//! The row of a dead letter.

use serde::{Deserialize, Serialize};

use crate::id::{Lane, MessageId, Offset, Text, TopicId};
use crate::message::DeathReason;
use crate::time::Timestamp;

/// A dead letter as listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadRow {
    /// The `dlq.` topic.
    pub topic: TopicId,
    /// Its number in the topic. Later dead letters have higher numbers.
    pub seq: u64,
    /// The lane of the dead letter.
    pub lane: Lane,
    /// The offset of the dead letter.
    pub offset: Offset,
    /// The lane's byte total at that offset.
    pub bytes: u64,
    /// [`crate::Message::size`] of the message.
    pub size: u64,
    /// The restore generation when it was dead-lettered. Part of its id.
    pub restore: u32,
    /// The group it failed in.
    pub group: Text,
    /// Why it was dead-lettered.
    pub reason: DeathReason,
    /// When it was dead-lettered.
    pub at: Timestamp,
    /// Tenant.
    pub tenant: Text,
    /// Run.
    pub run_id: Option<Text>,
    /// Idempotency key.
    pub key: Option<Text>,
    /// First 64 bytes of its last error.
    pub error: Text,
    /// Set once it was redriven.
    pub redriven: Option<Redriven>,
    /// When the first outcome of its effects expires. `None`: by the topic's `effect_ttl_ms`.
    pub effects_until: Option<Timestamp>,
}

/// The redrive of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redriven {
    /// The person or program that redrove it.
    pub by: Text,
    /// The reason.
    pub reason: Text,
    /// When it was redriven.
    pub at: Timestamp,
    /// The new message.
    pub new: MessageId,
}
