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
    /// Its number: grows.
    pub seq: u64,
    /// Where the dead letter is.
    pub lane: Lane,
    /// Where the dead letter is.
    pub offset: Offset,
    /// The lane's byte total there.
    pub bytes: u64,
    /// Key and value.
    pub size: u64,
    /// Restore generation when it died: part of its id.
    pub restore: u32,
    /// The group it died in.
    pub group: Text,
    /// Why.
    pub reason: DeathReason,
    /// When.
    pub at: Timestamp,
    /// Tenant.
    pub tenant: Text,
    /// Run.
    pub run_id: Option<Text>,
    /// Idempotency key.
    pub key: Option<Text>,
    /// First 64 bytes of its last error.
    pub error: Text,
    /// Set once it was brought back.
    pub redriven: Option<Redriven>,
    /// When the first of the effects that were begun under it is forgotten. Not known: by its topic's time.
    pub effects_until: Option<Timestamp>,
}

/// Who brought a dead letter back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redriven {
    /// Who.
    pub by: Text,
    /// Why.
    pub reason: Text,
    /// When.
    pub at: Timestamp,
    /// The new message.
    pub new: MessageId,
}
