//! Why something is refused.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::command::{Part, Pointer};
use crate::effect::{Doubt, EffectState};
use crate::id::{Text, TopicId};
use crate::settings::InvalidSetting;

/// Why a lease token can no longer act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stale {
    /// A later attempt has it.
    Leased,
    /// It waits for a retry.
    Waiting,
    /// It is done.
    Settled,
    /// It is a dead letter.
    Dead,
    /// The cursor has begun another life.
    Generation,
    /// It is over and nobody remembers how.
    Gone,
}

impl Stale {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Stale::Leased => "leased",
            Stale::Waiting => "waiting",
            Stale::Settled => "settled",
            Stale::Dead => "dead",
            Stale::Generation => "generation",
            Stale::Gone => "gone",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Stale::Leased => "a later attempt has the message",
            Stale::Waiting => "the message waits for a retry",
            Stale::Settled => "the message is settled",
            Stale::Dead => "the message is a dead letter",
            Stale::Generation => "the group was moved, made anew or restored",
            Stale::Gone => "the message is gone",
        }
    }
}

/// What does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Missing {
    /// The topic.
    Topic,
    /// The group.
    Group,
    /// The message.
    Message,
    /// The effect.
    Effect,
    /// The pointer.
    Pointer,
}

impl Missing {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Missing::Topic => "topic",
            Missing::Group => "group",
            Missing::Message => "message",
            Missing::Effect => "effect",
            Missing::Pointer => "pointer",
        }
    }
}

/// What is used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their names say")]
pub enum Full {
    /// Messages of a partition; the group that holds the backlog, if any.
    Messages(Option<Text>),
    /// Bytes of a partition; the group that holds the backlog, if any.
    Bytes(Option<Text>),
    /// The storage of the node.
    Storage,
    /// Messages that wait for another shard.
    Outbox,
    /// Topics of the shard.
    Topics { limit: u64 },
    /// Cursors of the shard: one per group and partition.
    Cursors { limit: u64 },
}

/// The command is refused and has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Rejection {
    #[error("{field}: {why}")]
    Invalid { field: Cow<'static, str>, why: Text },
    #[error("the deadline has passed")]
    DeadlinePassed,
    #[error("no such {}", .0.as_str())]
    NotFound(Missing),
    #[error("the topic exists with other partitions or settings")]
    TopicExists { topic: TopicId },
    #[error("not owner")]
    NotOwner,
    #[error("not delivered")]
    NotDelivered,
    #[error("this topic settles by token only")]
    TokenRequired,
    #[error("attempt {attempt} is over: {}", .state.message())]
    StaleLease { state: Stale, attempt: u32, current: Option<u32> },
    #[error("fence {fence} is not current: the effect is {} at fence {current}", .state.as_str())]
    StaleFence { state: EffectState, fence: u64, current: u64 },
    #[error("the effect is held by fence {fence}")]
    InProgress { fence: u64, owner: Text, retry_after_ms: u64 },
    #[error("nobody knows whether fence {} happened: a person has to say", .doubt.fence)]
    Parked { doubt: Box<Doubt>, retry_after_ms: u64 },
    #[error("this key belongs to another request")]
    RequestConflict,
    #[error("this fence has ended otherwise")]
    OutcomeConflict,
    #[error("this delivery was committed with other content")]
    CommitConflict,
    #[error("{}[{index}]: {why}", .part.as_str())]
    InPart { part: Part, index: usize, why: Box<Rejection> },
    #[error("another message has set it otherwise: send replace if you mean to move it")]
    PointerExists(Box<Pointer>),
    #[error("effects are not finished: {}", .0.join(", "))]
    Unfinished(Vec<Text>),
    #[error("the effect is {}: only doubt can be resolved", .0.as_str())]
    NotInDoubt(EffectState),
    #[error("its effects may be forgotten by now: they would be executed again")]
    EffectsExpired,
    #[error("it was for another topic, which would not have it: produce it there again")]
    Undeliverable,
    #[error("the group has consumers: pause it first")]
    HasConsumers,
    #[error("a dead-letter topic goes with its source")]
    DeadLetterTopic,
    #[error("{field} has {size} bytes, at most {limit} fit")]
    TooLarge { field: Cow<'static, str>, limit: u64, size: u64 },
    #[error("this idempotency key belongs to another message")]
    KeyConflict,
    #[error("there is no room")]
    Exhausted { full: Full, retry_after_ms: u64 },
    /// Deciding it panicked: a defect of ours. Nothing happened.
    #[error("this command cannot be decided; nothing was changed")]
    Poisonous,
    /// A stored row that it needs is damaged. Nothing happened.
    #[error("stored data is damaged ({row}); nothing was changed")]
    Damaged { row: Text },
}

impl Rejection {
    pub(crate) fn invalid(field: &'static str, why: impl Into<Text>) -> Rejection {
        Rejection::Invalid { field: field.into(), why: why.into() }
    }
}

impl From<InvalidSetting> for Rejection {
    fn from(invalid: InvalidSetting) -> Rejection {
        let field = format!("settings.{}", invalid.name);
        Rejection::Invalid { field: field.into(), why: invalid.why.into() }
    }
}
