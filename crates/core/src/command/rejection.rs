//! Why a command is rejected.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::command::{Part, Pointer};
use crate::effect::{Doubt, EffectState};
use crate::id::{Text, TopicId};
use crate::settings::InvalidSetting;

/// Why a lease token is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stale {
    /// A later attempt has the lease.
    Leased,
    /// The message waits for a retry.
    Waiting,
    /// The message is settled.
    Settled,
    /// The message is a dead letter.
    Dead,
    /// The cursor has a later generation.
    Generation,
    /// The message has ended and its outcome is no longer stored.
    Gone,
}

impl Stale {
    /// Returns its name in the API.
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
            Stale::Leased => "a later attempt has the lease",
            Stale::Waiting => "the message is waiting for a retry",
            Stale::Settled => "the message is already settled",
            Stale::Dead => "the message was dead-lettered",
            Stale::Generation => "the group was moved, created again or restored from a backup",
            Stale::Gone => "the message has ended and its outcome is no longer stored",
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
    /// Returns its name in the API.
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

/// A field that a repeated message has in common with the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContentField {
    /// The key.
    Key,
    /// The value.
    Value,
    /// The target topic in the envelope.
    TargetTopic,
    /// The partition in the envelope.
    PartitionOverride,
}

impl ContentField {
    /// All fields, in the order of their stored hashes.
    pub const ALL: [ContentField; 4] = [
        ContentField::Key,
        ContentField::Value,
        ContentField::TargetTopic,
        ContentField::PartitionOverride,
    ];

    /// Returns its path in a request.
    pub fn as_str(self) -> &'static str {
        match self {
            ContentField::Key => "key",
            ContentField::Value => "value",
            ContentField::TargetTopic => "envelope.target_topic",
            ContentField::PartitionOverride => "envelope.partition_override",
        }
    }
}

/// A limit that is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their names say")]
pub enum Full {
    /// Messages of a partition, and the group whose backlog fills it, if any.
    Messages(Option<Text>),
    /// Bytes of a partition, and the group whose backlog fills it, if any.
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

/// The command is rejected and has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Rejection {
    #[error("{field}: {why}")]
    Invalid { field: Cow<'static, str>, why: Text },
    #[error("the deadline has passed")]
    DeadlinePassed,
    #[error(
        "a node of an earlier release is alive, which cannot read this request: labels, headers, a nonce, a router or a retry policy without max_attempts; upgrade all nodes"
    )]
    OlderNodes,
    #[error(
        "a later release has written rows of this partition: serve it with that release; a repair would delete them"
    )]
    NewerRows,
    #[error(
        "the router gave no decision that can be followed, and router.on_error is reject; nothing was stored"
    )]
    Unrouted,
    #[error("no such {}", .0.as_str())]
    NotFound(Missing),
    #[error("the topic already exists with different partitions or settings")]
    TopicExists { topic: TopicId },
    #[error("not owner")]
    NotOwner,
    #[error("not delivered")]
    NotDelivered,
    #[error("this topic requires the lease token of the delivery")]
    TokenRequired,
    #[error("the lease of attempt {attempt} has ended: {}", .state.message())]
    StaleLease { state: Stale, attempt: u32, current: Option<u32> },
    #[error("fence {fence} is not current: the effect is {} at fence {current}", .state.as_str())]
    StaleFence { state: EffectState, fence: u64, current: u64 },
    #[error("another worker is executing the effect (fence {fence}); retry later")]
    InProgress { fence: u64, owner: Text, retry_after_ms: u64 },
    #[error("the outcome of fence {} is unknown; resolve it: driftq effect resolve", .doubt.fence)]
    Parked { doubt: Box<Doubt>, retry_after_ms: u64 },
    #[error("this key was used for a different request; use a new key for a new request")]
    RequestConflict,
    #[error("this fence is already finished with a different outcome")]
    OutcomeConflict,
    #[error("this delivery is already committed with different content")]
    CommitConflict,
    #[error("{}[{index}]: {why}", .part.as_str())]
    InPart { part: Part, index: usize, why: Box<Rejection> },
    #[error("another message set this pointer to a different value; send replace to overwrite it")]
    PointerExists(Box<Pointer>),
    #[error("effects are not finished: {}", .0.join(", "))]
    Unfinished(Vec<Text>),
    #[error("the effect is {}; only an effect in doubt can be resolved", .0.as_str())]
    NotInDoubt(EffectState),
    #[error("outcomes of its effects may have expired, so a redrive could execute them again")]
    EffectsExpired,
    #[error("it was sent to another topic, which rejected it; produce it to that topic again")]
    Undeliverable,
    #[error("the group has consumers: pause it first")]
    HasConsumers,
    #[error("a dead-letter topic cannot be changed or deleted by itself")]
    DeadLetterTopic,
    #[error("{field} must be at most {limit} bytes (got {size})")]
    TooLarge { field: Cow<'static, str>, limit: u64, size: u64 },
    #[error("this idempotency key was used for a different message; use a new key for new content")]
    KeyConflict,
    #[error(
        "this idempotency key was used for a different message: {} differs; use a new key for new content",
        .field.as_str()
    )]
    KeyConflictIn { field: ContentField },
    #[error("this nonce was used for a different request; use a new nonce for each request")]
    NonceConflict,
    #[error("a limit is reached; retry later")]
    Exhausted { full: Full, retry_after_ms: u64 },
    /// Deciding the command panicked, which is a bug. Nothing was changed.
    #[error("internal error; nothing was changed")]
    Poisonous,
    /// A stored row that the command needs is damaged. Nothing was changed.
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
