//! Looking at dead letters, and throwing them away.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::command::TopicName;
use crate::dead_row::DeadRow;
use crate::id::{MessageId, Text};
use crate::message::{DeathReason, Message};
use crate::time::Timestamp;

/// Look at one slice of a topic's dead letters, newest first. Whoever wants more goes on below
/// [`DeadLetters::next`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListDead {
    /// The topic they died in.
    pub topic: TopicName,
    /// Only those with a lower number.
    pub below: Option<u64>,
    /// Which to show.
    pub filter: DeadFilter,
    /// How many to show at most; at least one.
    pub limit: u32,
    /// With the messages themselves.
    pub values: bool,
}

/// Which dead letters are shown: those of which everything given here is true.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DeadFilter {
    /// The group it died in.
    pub group: Option<Text>,
    /// The tenant in force.
    pub tenant_id: Option<Text>,
    /// The run.
    pub run_id: Option<Text>,
    /// How the last error begins; its first 64 bytes are compared.
    pub error: Option<Text>,
    /// Why it died.
    pub reason: Option<DeathReason>,
    /// Died then or later.
    pub since: Option<Timestamp>,
    /// Died before.
    pub until: Option<Timestamp>,
    /// Whether it was brought back.
    pub state: DeadState,
}

/// Whether a dead letter was brought back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadState {
    /// It was not.
    #[default]
    Dead,
    /// It was.
    Redriven,
    /// Either.
    All,
}

/// One slice of a topic's dead letters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetters {
    /// Newest first.
    pub letters: Vec<DeadLetter>,
    /// How many were looked at.
    pub scanned: u64,
    /// Below which number to go on; `None`: that was the last.
    pub next: Option<u64>,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Its id.
    pub id: MessageId,
    /// What it is listed by.
    pub row: DeadRow,
    /// The message, if asked for.
    pub message: Option<Arc<Message>>,
}

/// Throw dead letters away, for good. What is not there is passed over, so that a repeat is harmless.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Purge {
    /// The topic they died in.
    pub topic: TopicName,
    /// Which; at most [`PURGE_MAX`](crate::limits::PURGE_MAX).
    pub ids: Vec<MessageId>,
    /// Who. For the log: nothing is left to write it on.
    pub by: Text,
    /// Why. For the log too.
    pub reason: Text,
}
