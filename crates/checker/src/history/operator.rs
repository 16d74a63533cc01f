//! Requests and replies of operators.

use serde::{Deserialize, Serialize};

use super::{Name, Retry};

/// Where the cursors of a group start or are moved to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// The first retained message.
    Earliest,
    /// Behind the last message.
    Latest,
    /// The first message that was stored at or after this time, by the authority clock.
    Time(u64),
}

/// The settings of a topic that invariants depend on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The topic.
    pub topic: Name,
    /// The retry policy of messages that do not set one.
    pub retry: Retry,
    /// Maximum number of leases per group and partition.
    pub max_in_flight: u32,
    /// Maximum number of leased and waiting messages per group and partition.
    pub max_open: u32,
    /// How long dead letters are kept; `None` = until they are deleted.
    pub dlq_retention_ms: Option<u64>,
    /// How long a group without consumers is kept; `None` = until it is deleted.
    pub group_idle_ms: Option<u64>,
    /// Whether a repeat is found by its key alone, whatever its content.
    pub dedupe_by_key: bool,
    /// All settings, as text that a reader is shown.
    pub text: Name,
}

/// A pointer that a commit sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// Its name within the topic.
    pub name: Name,
    /// The location it points to.
    pub location: Name,
    /// Whether to replace a pointer that another message set to another location.
    pub replace: bool,
}

/// The state of a message in a group, as shown to an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageStatus {
    /// The message's id.
    pub id: Name,
    /// Its offset in the inspected partition.
    pub offset: u64,
    /// The group.
    pub group: Name,
    /// Its state in the group.
    pub state: MessageStatusKind,
    /// Counted deliveries, while the message is leased or waiting.
    pub attempts: u32,
}

/// The state of a message in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatusKind {
    /// Not delivered yet.
    Ready,
    /// Leased by a consumer.
    Leased,
    /// Waiting for a retry.
    Waiting,
    /// Acked, not meant for the group, or before its start.
    Settled,
    /// A dead letter.
    Dead,
    /// Trimmed.
    Trimmed,
}
