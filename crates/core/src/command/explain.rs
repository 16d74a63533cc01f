//! Asking why a message or a group is where it is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::command::{EffectQuery, EffectView, GroupName, TopicName};
use crate::id::{MessageId, Offset, Text};
use crate::message::Message;
use crate::time::Timestamp;
use crate::view::{Blocked, GroupView};

/// What is to be explained.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Explain {
    /// A message, by its place.
    Message { topic: TopicName, partition: u32, offset: Offset },
    /// A message, by its id. A lease token has what makes one.
    Id { namespace: Text, id: MessageId },
    /// A group: why nothing comes.
    Group(GroupName),
    /// An effect.
    Effect(EffectQuery),
}

/// An explanation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Explained {
    /// Of a message.
    Message(ExplainedMessage),
    /// Of a group.
    Group {
        /// What it is, why, and what happens next, for people.
        #[serde(rename = "says")]
        summary: Text,
        /// The group.
        view: Box<GroupView>,
    },
    /// Of an effect.
    Effect {
        /// What it is, why, and what happens next, for people.
        #[serde(rename = "says")]
        summary: Text,
        /// The effect.
        view: Box<EffectView>,
    },
}

/// A message, and what it is to each group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainedMessage {
    /// Its id.
    pub id: MessageId,
    /// Its topic's name.
    pub topic: Text,
    /// Its partition.
    pub partition: u32,
    /// Its place there.
    pub offset: Offset,
    /// The message, as long as it is kept.
    pub message: Option<Arc<Message>>,
    /// By name.
    pub groups: Vec<InGroup>,
    /// What it went through, where its topic keeps that.
    pub history: Option<Vec<Event>>,
}

/// Something a message went through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// In which group.
    pub group: Text,
    /// What.
    pub kind: EventKind,
    /// In which attempt.
    pub attempt: u32,
    /// Who got it.
    pub owner: Text,
    /// Why it failed, if anybody said.
    pub error: Text,
}

/// What happens to messages.
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
    /// The word for it on the wire.
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

/// What a message is to one group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InGroup {
    /// The group.
    pub group: Text,
    /// In one word.
    pub state: ExplainState,
    /// What it is, why, and what happens next, for people.
    #[serde(rename = "says")]
    pub summary: Text,
    /// Deliveries that counted, as far as is known.
    pub attempts: u32,
    /// How many there may be; −1 is any number.
    pub max_attempts: i32,
    /// Why the last one failed, while it is open.
    pub last_error: Text,
    /// Who has it or had it last, while it is open.
    pub last_owner: Text,
    /// When it is due, while it waits.
    pub next_attempt_at: Option<Timestamp>,
    /// When its lease ends, while it is leased.
    pub leased_until: Option<Timestamp>,
    /// Why it is not being delivered, while it could be.
    pub blocked: Option<Blocked>,
    /// The dead letter it became, as long as that is kept.
    pub dead_letter: Option<MessageId>,
    /// Effects begun under it, while it is open.
    pub effects: Vec<EffectView>,
}

/// What a message is to a group, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExplainState {
    /// Not delivered yet.
    Ready,
    /// With a consumer.
    Leased,
    /// To be delivered again.
    Waiting,
    /// Over, or not meant for the group.
    Settled,
    /// It became a dead letter.
    Dead,
    /// Over for every group, and no longer kept.
    Trimmed,
}

impl ExplainState {
    /// The word for it on the wire.
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
