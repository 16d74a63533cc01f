//! Explaining the state of a message, a group or an effect.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::command::{EffectQuery, EffectView, GroupName, TopicName};
use crate::dead_row::DeadRow;
use crate::id::{MessageId, Offset, Text};
use crate::message::Message;
use crate::time::Timestamp;
use crate::view::{Blocked, GroupView};

/// What to explain.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Explain {
    /// A message, by its position.
    Message { topic: TopicName, partition: u32, offset: Offset },
    /// A message, by its id. A lease token contains the id.
    Id { namespace: Text, id: MessageId },
    /// A group, and why it receives nothing.
    Group(GroupName),
    /// An effect.
    Effect(EffectQuery),
}

/// An explanation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Explained {
    /// The explanation of a message.
    Message(ExplainedMessage),
    /// The explanation of a group.
    Group {
        /// The state, its cause and what happens next, as a text for people.
        #[serde(rename = "says")]
        summary: Text,
        /// The group.
        view: Box<GroupView>,
    },
    /// The explanation of an effect.
    Effect {
        /// The state, its cause and what happens next, as a text for people.
        #[serde(rename = "says")]
        summary: Text,
        /// The effect.
        view: Box<EffectView>,
    },
}

/// A message, and its state in each group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainedMessage {
    /// Its id.
    pub id: MessageId,
    /// Its topic's name.
    pub topic: Text,
    /// Its partition.
    pub partition: u32,
    /// Its offset in the partition.
    pub offset: Offset,
    /// The message, while it is kept.
    pub message: Option<Arc<Message>>,
    /// Its state in each group, by group name.
    pub groups: Vec<InGroup>,
    /// Its events, if its topic keeps a history.
    pub history: Option<Vec<Event>>,
    /// How it died, if it is a dead letter.
    #[serde(default)]
    pub dead: Option<Box<ExplainedDeath>>,
}

/// How a dead letter died, and what happened to it since.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainedDeath {
    /// A text for people.
    pub summary: Text,
    /// Its row in the list of dead letters.
    pub row: DeadRow,
}

/// An event of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When it happened.
    pub at: Timestamp,
    /// The group.
    pub group: Text,
    /// What happened.
    pub kind: EventKind,
    /// The attempt.
    pub attempt: u32,
    /// The owner of the delivery.
    pub owner: Text,
    /// Why it failed, if the worker gave a reason.
    pub error: Text,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the API reference says what they are")]
pub enum EventKind {
    Delivered,
    Extended,
    Expired,
    Nacked,
    Returned,
    Acked,
    Dead,
    Purged,
}

impl EventKind {
    /// Returns its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Delivered => "delivered",
            EventKind::Extended => "extended",
            EventKind::Expired => "expired",
            EventKind::Nacked => "nacked",
            EventKind::Returned => "returned",
            EventKind::Acked => "acked",
            EventKind::Dead => "dead",
            EventKind::Purged => "purged",
        }
    }
}

/// A message in one group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InGroup {
    /// The group.
    pub group: Text,
    /// The state.
    pub state: ExplainState,
    /// The state, its cause and what happens next, as a text for people.
    #[serde(rename = "says")]
    pub summary: Text,
    /// Deliveries that counted, as far as known.
    pub attempts: u32,
    /// The maximum number of deliveries; −1 means no limit.
    pub max_attempts: i32,
    /// Why the last one failed, while it is open.
    pub last_error: Text,
    /// The current or last owner, while it is open.
    pub last_owner: Text,
    /// When it is due, while it waits.
    pub next_attempt_at: Option<Timestamp>,
    /// When its lease ends, while it is leased.
    pub leased_until: Option<Timestamp>,
    /// Why it is not being delivered, while it could be.
    pub blocked: Option<Blocked>,
    /// The dead letter it became, while that is kept.
    pub dead_letter: Option<MessageId>,
    /// Effects begun under it, while it is open.
    pub effects: Vec<EffectView>,
}

/// The state of a message in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExplainState {
    /// Not delivered yet.
    Ready,
    /// Leased to a consumer.
    Leased,
    /// Waiting for a retry.
    Waiting,
    /// Settled, or not meant for the group.
    Settled,
    /// Dead-lettered.
    Dead,
    /// Settled in every group and deleted by retention.
    Trimmed,
}

impl ExplainState {
    /// Returns its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            ExplainState::Ready => "ready",
            ExplainState::Leased => "leased",
            ExplainState::Waiting => "waiting",
            ExplainState::Settled => "settled",
            ExplainState::Dead => "dead",
            ExplainState::Trimmed => "trimmed",
        }
    }
}
