//! What an operator asks for and is shown.

use serde::{Deserialize, Serialize};

use super::{Name, Retry};

/// Where the cursors of a group go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// The first message that is kept.
    Earliest,
    /// Behind the last message.
    Latest,
    /// The first message that was stored at or after this time, by the authority clock.
    Time(u64),
}

/// Settings of a topic, as far as promises depend on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Of which topic.
    pub topic: Name,
    /// The retry policy of messages without their own.
    pub retry: Retry,
    /// Leases at a time per group and partition.
    pub max_in_flight: u32,
    /// Leased and waiting messages at a time per group and partition.
    pub max_open: u32,
    /// How long dead letters are kept; `None` = until they are deleted.
    pub dlq_retention_ms: Option<u64>,
    /// How long a group without consumers is kept; `None` = until it is deleted.
    pub group_idle_ms: Option<u64>,
    /// All settings, as they are shown to a reader.
    pub text: Name,
}

/// A pointer that a commit sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// Its name within the topic.
    pub name: Name,
    /// Where it leads.
    pub location: Name,
    /// Also if another message has set it otherwise.
    pub replace: bool,
}

/// Where a message is in a group, as an operator is shown it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The message's id.
    pub id: Name,
    /// Its place in the partition that was asked about.
    pub offset: u64,
    /// The group.
    pub group: Name,
    /// Where it is there.
    pub state: ShownState,
    /// Deliveries that counted, while it is leased or waiting.
    pub attempts: u32,
}

/// Where a message is in a group, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownState {
    /// Not delivered yet.
    Ready,
    /// With a consumer.
    Leased,
    /// Waiting for a retry.
    Waiting,
    /// Acked, not meant for the group, or before its start.
    Settled,
    /// A dead letter.
    Dead,
    /// No longer kept.
    Trimmed,
}
