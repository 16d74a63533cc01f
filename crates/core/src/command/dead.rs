//! Listing and purging dead letters.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::command::TopicName;
use crate::dead_row::DeadRow;
use crate::id::{MessageId, Text};
use crate::message::{DeathReason, Message};
use crate::time::Timestamp;

/// List one slice of a topic's dead letters, newest first. The next slice is below
/// [`DeadLetters::next`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListDead {
    /// The topic they failed in.
    pub topic: TopicName,
    /// Only dead letters with a lower number.
    pub below: Option<u64>,
    /// Which dead letters to return.
    pub filter: DeadFilter,
    /// The maximum number to return, at least 1.
    pub limit: u32,
    /// Whether to return the messages too.
    pub values: bool,
}

/// Which dead letters to return: those that match every field that is set.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DeadFilter {
    /// The group it failed in.
    pub group: Option<Text>,
    /// The tenant, `default` if the message has none.
    pub tenant_id: Option<Text>,
    /// The run.
    pub run_id: Option<Text>,
    /// A prefix of the last error. Its first 64 bytes are compared.
    pub error: Option<Text>,
    /// Why it was dead-lettered.
    pub reason: Option<DeathReason>,
    /// Dead-lettered at this time or later.
    pub since: Option<Timestamp>,
    /// Dead-lettered before this time.
    pub until: Option<Timestamp>,
    /// Whether it was redriven.
    pub state: DeadState,
}

/// Whether a dead letter was redriven.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadState {
    /// Not redriven.
    #[default]
    Dead,
    /// Redriven.
    Redriven,
    /// Either.
    All,
}

/// One slice of a topic's dead letters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetters {
    /// Newest first.
    pub letters: Vec<DeadLetter>,
    /// How many were examined.
    pub scanned: u64,
    /// The next slice is below this number. `None` after the last dead letter.
    pub next: Option<u64>,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Its id.
    pub id: MessageId,
    /// Its row.
    pub row: DeadRow,
    /// The message, if requested.
    pub message: Option<Arc<Message>>,
}

/// Delete dead letters permanently. Unknown ids are skipped, so a retry is harmless.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Purge {
    /// The topic they failed in.
    pub topic: TopicName,
    /// The ids to delete, at most [`PURGE_MAX`](crate::limits::PURGE_MAX).
    pub ids: Vec<MessageId>,
    /// The person or program that purges them. Only logged, because no row remains to store it in.
    pub by: Text,
    /// The reason. Only logged.
    pub reason: Text,
}
