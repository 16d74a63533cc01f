//! Decisions of the core: changes of durable and volatile state, and actions for the shell.

mod reads;

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::audit::Link;
use crate::command::{Arrive, Event, LeaseId, Outgoing, Peer, Pointer, Reply};
use crate::effect::EffectRow;
use crate::id::{
    BatchNo, ConsumerId, Generation, GroupId, Lane, MessageId, Offset, OwnerId, ShardId, Text,
    TopicId,
};
use crate::message::Message;
use crate::retry::RetryPolicy;
use crate::row::{Hash16, MarkKind, RecordKind};
use crate::settings::SettingsPatch;
use crate::time::Timestamp;
use crate::token::LeaseToken;

pub use crate::dead_row::{DeadRow, Redriven};
pub use crate::view::Paused;
pub use reads::{Lookup, Prefetch, Reads};

/// The result of deciding a command.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The reply, sent when the batch is durable.
    pub reply: Reply,
    /// Changes of durable state. It changes in no other way, neither while serving nor at recovery.
    pub changes: Vec<Change>,
    /// Changes of volatile state. It is lost at recovery, and no guarantee depends on it.
    pub volatile: Vec<VolatileChange>,
    /// Actions of the shell once the batch is durable. Losing one costs time, never correctness.
    pub actions: Vec<Action>,
}

impl Decision {
    pub(crate) fn reply(reply: Reply) -> Decision {
        Decision { reply, changes: Vec::new(), volatile: Vec::new(), actions: Vec::new() }
    }

    pub(crate) fn with(mut self, change: Change) -> Decision {
        self.changes.push(change);
        self
    }
}

/// The kind of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopicKind {
    /// Holds messages of producers.
    Topic,
    /// Holds the dead letters of another topic.
    Dlq(TopicId),
}

/// A topic as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRow {
    /// Its id. A topic that is deleted and created again gets another one.
    pub id: TopicId,
    /// Isolation boundary.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its kind.
    pub kind: TopicKind,
    /// Number of partitions.
    pub partitions: u32,
    /// Settings that differ from the defaults.
    pub patch: SettingsPatch,
    /// When it was created.
    pub created_at: Timestamp,
    /// Set when new settings keep tombstones longer. Earlier tombstones were not kept that long.
    pub forgot: Option<Forgot>,
}

/// How long tombstones were kept before a change of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgot {
    /// Applies to deliveries granted up to this time.
    pub until: Timestamp,
    /// How long after the grant their tombstones are kept.
    pub after_ms: u64,
}

/// The generation and start of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorStart {
    /// Its generation.
    pub generation: Generation,
    /// First offset it reads.
    pub offset: Offset,
    /// The lane's byte total at `offset`.
    pub bytes: u64,
}

/// A group as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRow {
    /// Its id. A group that is deleted and created again gets another one.
    pub id: GroupId,
    /// The topic it reads.
    pub topic: TopicId,
    /// Its name.
    pub name: Text,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last had a consumer. May be too early by about an eighth of `group_idle_ms`.
    pub seen: Timestamp,
    /// Set while paused.
    pub paused: Option<Paused>,
    /// One cursor per partition.
    pub cursors: Vec<CursorStart>,
}

/// The position of a lane's slowest group at a time, for retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneMark {
    /// The time.
    pub at: Timestamp,
    /// Every group had received all messages below this offset.
    pub offset: Offset,
    /// The lane's byte total below `offset`.
    pub bytes: u64,
}

/// Where a lane begins and ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneState {
    /// The oldest offset kept. Open messages below it are kept too.
    pub first: Offset,
    /// Byte total below `first`.
    pub first_bytes: u64,
    /// Pages below this are deleted, except those that hold an open message. Follows `first`.
    pub trimmed: Offset,
    /// The offset the next message gets.
    pub high: Offset,
    /// Byte total below `high`.
    pub high_bytes: u64,
    /// Dead letters from this lane that are neither redriven nor deleted.
    pub dead: u64,
    /// Retention marks, oldest first.
    pub marks: Vec<LaneMark>,
}

/// The state of an open entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryState {
    /// Leased to a consumer until `at`.
    Leased,
    /// Its lease expired; due again at `at`.
    Expired,
    /// Its worker nacked it; due again at `at`.
    Nacked,
    /// Given back uncounted; due again at `at`.
    Returned,
}

/// Where the last error of an open entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastError {
    /// No error.
    None,
    /// `ack_timeout`.
    Timeout,
    /// `nack`: a failure without a reason.
    Nack,
    /// In a note row.
    Note,
}

impl LastError {
    /// Returns the text, if it needs no row.
    pub fn text(self) -> Option<&'static str> {
        match self {
            LastError::None => Some(""),
            LastError::Timeout => Some("ack_timeout"),
            LastError::Nack => Some("nack"),
            LastError::Note => None,
        }
    }
}

/// A message that was delivered to a group and is not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its state.
    pub state: EntryState,
    /// The fence: grows with every lease, never repeats.
    pub attempt: u32,
    /// Deliveries that count against `max_attempts`.
    pub spent: u32,
    /// Consecutive returns.
    pub returns: u8,
    /// End of the lease, or when it is due.
    pub at: Timestamp,
    /// The lease as granted.
    pub lease_ms: u32,
    /// Owner of the current or last lease.
    pub owner: OwnerId,
    /// [`Message::size`] of its message.
    pub size: u32,
    /// When the message was produced.
    pub produced_at: Timestamp,
    /// When it was first delivered to this group.
    pub first_at: Timestamp,
    /// The message's own retry policy, copied here so that a nack reads no page.
    pub policy: Option<RetryPolicy>,
    /// The message's deadline, copied for the same reason.
    pub deadline: Option<Timestamp>,
    /// Where its last error is.
    pub error: LastError,
    /// Effects begun under its deliveries.
    pub begun: u8,
    /// Those of them that are not finished.
    pub unfinished: u8,
}

/// How an open entry ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum End {
    /// The message was acked.
    Acked,
    /// The message was dead-lettered. `asked`: by a final nack.
    Dead { asked: bool },
    /// A dead letter was purged.
    Purged,
}

/// A record: looked up by the hash of its identity, never listed, deleted with its bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its kind.
    pub kind: RecordKind,
    /// The hash of its identity.
    pub hash: Hash16,
    /// When it expires.
    pub expires: Timestamp,
    /// The millisecond from which it may be deleted, not before it expires.
    pub bucket: u64,
    /// Packed content, including the identity in plain text.
    pub body: Bytes,
}

/// A pointer of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct PointerRow {
    pub topic: TopicId,
    pub pointer: Pointer,
}

/// Rows to delete in bounded steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Garbage {
    /// Pages, lanes and dead letters of a deleted topic.
    Topic {
        /// The topic.
        topic: TopicId,
        /// Lanes and the offsets that remain: (lane, from, to).
        lanes: Vec<(Lane, Offset, Offset)>,
    },
    /// Blocks, notes and cursor of an old generation.
    Cursor {
        /// The generation.
        generation: Generation,
        /// Lanes and the offsets that remain: (lane, from, to).
        lanes: Vec<(Lane, Offset, Offset)>,
    },
    /// Dead letters and pointers of a deleted topic, after its lanes are deleted.
    Named {
        /// The topic.
        topic: TopicId,
        /// Completed steps.
        done: u64,
    },
}

/// A change of durable state.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Change {
    /// Next number of the id counter.
    Ids(u64),
    /// A topic is created or changed.
    Topic(Box<TopicRow>),
    /// A topic is deleted. Its groups are deleted by changes of their own.
    TopicGone(TopicId),
    /// A group is created or paused, or its cursors get another generation.
    Group(Box<GroupRow>),
    /// A group is deleted.
    GroupGone(GroupId),
    /// A lane's bounds, except its end, which only messages move.
    Lane { topic: TopicId, lane: Lane, state: LaneState },
    /// A message is stored at the end of a lane.
    Message { topic: TopicId, lane: Lane, offset: Offset, message: Arc<Message> },
    /// A cursor advances.
    Cursor { group: GroupId, lane: Lane, next: Offset, bytes: u64 },
    /// An entry is opened or changed. `holder` is the consumer with the lease; it is volatile.
    Open { group: GroupId, lane: Lane, offset: Offset, entry: Entry, holder: Option<ConsumerId> },
    /// An entry ends.
    Close { group: GroupId, lane: Lane, offset: Offset, end: End },
    /// The last error of an entry.
    LastError { group: GroupId, generation: Generation, lane: Lane, offset: Offset, text: Text },
    /// The row with an entry's last error is no longer needed.
    NoteGone { generation: Generation, lane: Lane, offset: Offset },
    /// A consumer's name.
    Owner { owner: OwnerId, name: Text },
    /// A consumer's name is no longer used.
    OwnerGone(OwnerId),
    /// A record.
    Record(Record),
    /// An effect is begun, finished, in doubt, or moved to another delivery.
    Effect(Box<EffectRow>),
    /// The ledger accepted a decision.
    Audit(Box<Link>),
    /// An effect was begun under an open entry.
    EffectLink { generation: Generation, lane: Lane, offset: Offset, hash: Hash16 },
    /// The entry under which an effect was begun has ended.
    HeldGone { generation: Generation, lane: Lane, offset: Offset, hash: Hash16 },
    /// A message is stored to be sent to another shard.
    Outbox { target: ShardId, seq: u64, message: Box<Outgoing> },
    /// A message for another shard has arrived, or never will.
    OutboxGone { target: ShardId, seq: u64 },
    /// A pointer is set or moved.
    Pointer(Box<PointerRow>),
    /// An event of a message, for a topic that keeps history.
    History { topic: TopicId, lane: Lane, offset: Offset, event: Box<Event> },
    /// A dead letter is stored or redriven.
    Dead(Box<DeadRow>),
    /// A dead letter is no longer listed.
    DeadGone { topic: TopicId, seq: u64 },
    /// A dead letter is no longer stored. Its page holds nothing else.
    MessageGone { topic: TopicId, lane: Lane, offset: Offset },
    /// Messages from `from` on are lost, and placeholders are stored instead. `bytes` is the byte
    /// total after them.
    Lost { topic: TopicId, lane: Lane, from: Offset, bytes: u64, messages: Vec<Arc<Message>> },
    /// A damaged block was repaired. `batch` is None if the block was missing.
    BlockGone { group: GroupId, lane: Lane, block: u64, batch: Option<BatchNo> },
    /// Messages that no group needs are deleted.
    Trim { topic: TopicId, lane: Lane, from: Offset, to: Offset },
    /// Expired records of these buckets are deleted.
    Expire { from: u64, to: u64 },
    /// A counter is set.
    Mark { kind: MarkKind, id: u64, value: u64 },
    /// Rows to delete later. Replaces the stored garbage with the same id.
    Garbage { id: u64, garbage: Box<Garbage> },
    /// All rows of a garbage entry are deleted.
    GarbageGone(u64),
    /// Rows of a deleted topic or an old generation are deleted. They were already dead by rule.
    Sweep(Sweep),
}

/// Rows of a deleted topic or an old generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Sweep {
    /// Pages and history of a topic's lane.
    Pages { topic: TopicId, lane: Lane, from: Offset, to: Offset },
    /// Blocks and notes of a generation's lane.
    Blocks { generation: Generation, lane: Lane, from: Offset, to: Offset },
    /// The lane row, and the rest of its history.
    Lane { topic: TopicId, lane: Lane },
    /// The cursor row.
    Cursor { generation: Generation, lane: Lane },
    /// Some of a topic's dead letters, by number.
    Dead { topic: TopicId, from: u64, to: u64 },
    /// One of the [`POINTER_PARTS`] of its pointers.
    Pointers { topic: TopicId, of: u8 },
}

/// Where the last message without a key was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnkeyedTurn {
    pub(crate) partition: u32,
    pub(crate) batch: BatchNo,
}

/// Parts of a topic's pointers, by the first bits of their hashes. One commit deletes one part.
pub(crate) const POINTER_PARTS: u8 = 16;

/// A change of volatile state.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum VolatileChange {
    /// A consumer joined.
    Joined {
        consumer: ConsumerId,
        group: GroupId,
        owner: OwnerId,
        lease_ms: Option<u32>,
        credit: u32,
        credit_bytes: u64,
        peer: Peer,
    },
    /// A consumer left.
    Left(ConsumerId),
    /// A worker is about to end. It gets nothing until `until`.
    WorkerLeft { worker: Text, until: Timestamp },
    /// `turns` consumers at the front of a group's queue had their turn.
    Turned { group: GroupId, turns: usize },
    /// A lane of a group was visited. `more`: it has more right now. `stalled`: it has more, and no
    /// consumer has credit for it.
    Visited { group: GroupId, lane: Lane, more: bool, stalled: bool, fresh: u8 },
    /// The group visited last. Dispatch continues with the one after it.
    Rotor(GroupId),
    /// A read was requested.
    Loading(Prefetch),
    /// A lane has messages to read, but enough is being read.
    Unread { group: GroupId, lane: Lane },
    /// A lane has retries to read, and waits until those of other lanes are read.
    Starved { group: GroupId, lane: Lane },
    /// A lane has fresh messages, but its group may open no more.
    GroupFull { group: GroupId, lane: Lane },
    /// Where a message without a key was stored.
    Unkeyed { topic: TopicId, last: UnkeyedTurn },
    /// Whether the storage is nearly full and new data is rejected.
    StorageLow(bool),
    /// When the message at `offset`, the next one of a cursor, was stored.
    StoredAt { group: GroupId, lane: Lane, offset: Offset, at: Timestamp },
    /// Check the group again at `at`.
    Wake { at: Timestamp, group: GroupId },
    /// The group is inactive until a change reactivates it.
    Idle(GroupId),
    /// Cached messages around `offset` were used.
    Used { topic: TopicId, lane: Lane, offset: Offset },
    /// When a chore is due next, if at all.
    Chore(Chore, Option<Timestamp>),
    /// A lane was repaired and has no damaged page.
    Repaired { topic: TopicId, lane: Lane },
    /// A repair reopened the messages of a damaged block below `to`.
    Reopened { group: GroupId, lane: Lane, block: u64, to: Offset },
}

/// Maintenance that a shard starts by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Chore {
    /// Applies retention to the settled messages of a lane.
    Retain { topic: TopicId, lane: Lane },
    /// Deletes expired dead letters of a topic.
    ExpireDeadLetters { source: TopicId },
    /// Deletes a group if it is idle.
    Idle(GroupId),
    /// Sends stored messages to another shard.
    Send { target: ShardId },
    /// Deletes expired records.
    ExpireRecords,
    /// Deletes the rows of a cursor that was moved or deleted.
    Sweep(u64),
    /// Dead-letters a waiting message past its deadline, under which effects were begun.
    Deadline { group: GroupId, lane: Lane, offset: Offset },
}

impl VolatileChange {
    pub(crate) fn loading(&self) -> Option<&Prefetch> {
        if let VolatileChange::Loading(want) = self { Some(want) } else { None }
    }
}

/// An action of the shell once the batch is durable.
#[derive(Debug, Clone)]
pub enum Action {
    /// Deliver a message to a consumer.
    Deliver(ConsumerId, Box<Delivery>),
    /// End a consumer's stream, because its group or topic was deleted.
    Dismiss(ConsumerId),
    /// Send messages to another shard, and report the results.
    Send(ShardId, Box<Arrive>),
}

/// One delivery of a message to a consumer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Delivery {
    /// Proof of the lease.
    pub token: LeaseToken,
    /// The id of the lease.
    pub hold: LeaseId,
    /// Topic name.
    pub topic: Text,
    /// Group name.
    pub group: Text,
    /// The message's id.
    pub id: MessageId,
    /// Deliveries that count, this one included.
    pub spent: u32,
    /// Length of the lease.
    pub lease_ms: u32,
    /// End of the lease.
    pub expires_at: Timestamp,
    /// Why the previous attempt failed.
    pub last_error: Text,
    /// The message.
    pub message: Arc<Message>,
}

impl Delivery {
    /// The attempts that a consumer sees: of a dead letter, those before its death.
    pub fn attempts(&self) -> u32 {
        self.message.death.as_deref().map_or(self.spent, |death| death.attempts)
    }

    /// The error that a consumer sees: of a dead letter, the one that it died of.
    pub fn last_error(&self) -> &str {
        self.message.death.as_deref().map_or(&self.last_error, |death| &death.last_error)
    }
}
