//! What the core decides: changes of durable state, notes about volatile state, effects for the shell.

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
use crate::row::{Hash16, MarkKind, RecordKind};
use crate::settings::{RetryPolicy, SettingsPatch};
use crate::time::Timestamp;
use crate::token::LeaseToken;

pub use crate::dead_row::{DeadRow, Redriven};
pub use crate::view::Paused;
pub use reads::{Lookup, Prefetch, Reads};

/// What came of a command.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The answer, shown when the batch is durable.
    pub reply: Reply,
    /// Durable state. The only way it changes, live and at recovery.
    pub changes: Vec<Change>,
    /// Volatile state. Lost at recovery, and nothing promised depends on it.
    pub volatile: Vec<VolatileChange>,
    /// What the shell does once the batch is durable. Losing one costs time, never correctness.
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

/// What a topic is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopicKind {
    /// Messages.
    Topic,
    /// Dead letters of another topic.
    Dlq(TopicId),
}

/// A topic as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRow {
    /// Its life.
    pub id: TopicId,
    /// Isolation boundary.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// What it is for.
    pub kind: TopicKind,
    /// Number of partitions.
    pub partitions: u32,
    /// What differs from the defaults.
    pub patch: SettingsPatch,
    /// When it was made.
    pub created_at: Timestamp,
    /// Set once its settings made memory longer: what ended before was not remembered so long.
    pub forgot: Option<Forgot>,
}

/// How long ends of deliveries used to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgot {
    /// Deliveries granted up to then …
    pub until: Timestamp,
    /// … are remembered only so long.
    pub after_ms: u64,
}

/// The life and start of one cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorStart {
    /// Its life.
    pub generation: Generation,
    /// First offset it reads.
    pub offset: Offset,
    /// The lane's byte total there.
    pub bytes: u64,
}

/// A group as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRow {
    /// Its life.
    pub id: GroupId,
    /// The topic it reads.
    pub topic: TopicId,
    /// Its name.
    pub name: Text,
    /// When it was made.
    pub created_at: Timestamp,
    /// A consumer was there then, or about an eighth of `group_idle_ms` later.
    pub seen: Timestamp,
    /// Set while paused.
    pub paused: Option<Paused>,
    /// One cursor per partition.
    pub cursors: Vec<CursorStart>,
}

/// A point in a lane at a time, for retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneMark {
    /// At this time …
    pub at: Timestamp,
    /// … every group had been given everything below this offset …
    pub offset: Offset,
    /// … which is so many bytes.
    pub bytes: u64,
}

/// Where a lane begins and ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneState {
    /// The oldest offset kept, but for open ones.
    pub first: Offset,
    /// Byte total below `first`.
    pub first_bytes: u64,
    /// Pages below this are deleted, but for those that hold an open message. Follows `first`.
    pub trimmed: Offset,
    /// The offset the next message gets.
    pub high: Offset,
    /// Byte total below `high`.
    pub high_bytes: u64,
    /// Dead letters that came from here and are still dead.
    pub dead: u64,
    /// Oldest first.
    pub marks: Vec<LaneMark>,
}

/// What an open entry is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryState {
    /// With a consumer until `at`.
    Leased,
    /// Its lease ran out; due at `at`.
    Expired,
    /// Its worker failed; due at `at`.
    Nacked,
    /// Given back uncounted; due at `at`.
    Returned,
}

/// Where the last error of an open entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastError {
    /// There was none.
    None,
    /// `ack_timeout`.
    Timeout,
    /// `nack`: a failure without a reason.
    Nack,
    /// In a note row.
    Note,
}

impl LastError {
    /// The text, where it needs no row.
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
    /// What it is doing.
    pub state: EntryState,
    /// The fence: grows with every lease, never repeats.
    pub attempt: u32,
    /// Deliveries that count against the limit.
    pub spent: u32,
    /// Returns in a row.
    pub returns: u8,
    /// End of the lease, or when it is due.
    pub at: Timestamp,
    /// The lease as granted.
    pub lease_ms: u32,
    /// Who has it, or had it last.
    pub owner: OwnerId,
    /// Key and value.
    pub size: u32,
    /// When the message was produced.
    pub produced_at: Timestamp,
    /// When it was first delivered to this group.
    pub first_at: Timestamp,
    /// The message's own policy. Without it every nack would read a page.
    pub policy: Option<RetryPolicy>,
    /// The message's deadline, for the same reason.
    pub deadline: Option<Timestamp>,
    /// Where its last error is.
    pub error: LastError,
    /// Effects begun under its deliveries.
    pub begun: u8,
    /// … and not finished.
    pub unfinished: u8,
}

/// How an open entry ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum End {
    /// Done.
    Acked,
    /// A dead letter now; `asked` by a final nack.
    Dead { asked: bool },
    /// Of a dead letter: thrown away.
    Purged,
}

/// A record: found by the hash of its identity, never listed, gone with its bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it is.
    pub kind: RecordKind,
    /// Its name in the storage.
    pub hash: Hash16,
    /// When it is over.
    pub expires: Timestamp,
    /// The millisecond from which on it may go: not before it is over.
    pub bucket: u64,
    /// Packed content, identity in clear included.
    pub body: Bytes,
}

/// A pointer of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct PointerRow {
    pub topic: TopicId,
    pub pointer: Pointer,
}

/// Rows to be deleted in bounded steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Garbage {
    /// Pages, lanes and dead letters of a topic that is gone.
    Topic {
        /// Which.
        topic: TopicId,
        /// Lanes with what is left of them: (lane, from, to).
        lanes: Vec<(Lane, Offset, Offset)>,
    },
    /// Blocks, notes and cursor of a generation that is over.
    Cursor {
        /// Which.
        generation: Generation,
        /// Lanes with what is left of them: (lane, from, to).
        lanes: Vec<(Lane, Offset, Offset)>,
    },
    /// Dead letters and pointers of a topic that is gone, when its lanes are.
    Named {
        /// Which.
        topic: TopicId,
        /// Steps that are done.
        done: u64,
    },
}

/// A change of durable state.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Change {
    /// The counter's next number.
    Ids(u64),
    /// A topic is made or changed.
    Topic(Box<TopicRow>),
    /// A topic is gone; its groups go with changes of their own.
    TopicGone(TopicId),
    /// A group is made, paused, or has cursors with another generation.
    Group(Box<GroupRow>),
    /// A group is gone.
    GroupGone(GroupId),
    /// A lane's bounds, but for its end, which only messages move.
    Lane { topic: TopicId, lane: Lane, state: LaneState },
    /// A message is stored at the end of a lane.
    Message { topic: TopicId, lane: Lane, offset: Offset, message: Arc<Message> },
    /// A cursor goes on.
    Cursor { group: GroupId, lane: Lane, next: Offset, bytes: u64 },
    /// An entry is opened or changed. `holder` is who was given the lease: volatile.
    Open { group: GroupId, lane: Lane, offset: Offset, entry: Entry, holder: Option<ConsumerId> },
    /// An entry is over.
    Close { group: GroupId, lane: Lane, offset: Offset, end: End },
    /// The last error of an entry.
    LastError { group: GroupId, generation: Generation, lane: Lane, offset: Offset, text: Text },
    /// … is no longer needed.
    NoteGone { generation: Generation, lane: Lane, offset: Offset },
    /// A consumer's name.
    Owner { owner: OwnerId, name: Text },
    /// … that nobody has any more.
    OwnerGone(OwnerId),
    /// A record.
    Record(Record),
    /// An effect is begun, over, in doubt, or belongs to another delivery.
    Effect(Box<EffectRow>),
    /// The ledger accepted something.
    Audit(Box<Link>),
    /// An effect was begun under an open entry.
    EffectLink { generation: Generation, lane: Lane, offset: Offset, hash: Hash16 },
    /// … which is over.
    HeldGone { generation: Generation, lane: Lane, offset: Offset, hash: Hash16 },
    /// A message is on its way to another shard.
    Outbox { target: ShardId, seq: u64, message: Box<Outgoing> },
    /// … and has arrived, or never will.
    OutboxGone { target: ShardId, seq: u64 },
    /// A pointer is set or moved.
    Pointer(Box<PointerRow>),
    /// A message went through something that its topic keeps.
    History { topic: TopicId, lane: Lane, offset: Offset, event: Box<Event> },
    /// A dead letter is made or brought back.
    Dead(Box<DeadRow>),
    /// A dead letter is no longer listed.
    DeadGone { topic: TopicId, seq: u64 },
    /// … nor stored. Its page holds nothing else.
    MessageGone { topic: TopicId, lane: Lane, offset: Offset },
    /// Messages from `from` on are lost: placeholders are stored in their place. `bytes` is the byte total after them.
    Lost { topic: TopicId, lane: Lane, from: Offset, bytes: u64, messages: Vec<Arc<Message>> },
    /// A damaged block was repaired. None: it was missing.
    BlockGone { group: GroupId, lane: Lane, block: u64, batch: Option<BatchNo> },
    /// Messages nobody needs.
    Trim { topic: TopicId, lane: Lane, from: Offset, to: Offset },
    /// Records of these buckets, whose time is over.
    Expire { from: u64, to: u64 },
    /// A counter.
    Mark { kind: MarkKind, id: u64, value: u64 },
    /// Something to be deleted later; replaces what is left of it.
    Garbage { id: u64, garbage: Box<Garbage> },
    /// It is deleted.
    GarbageGone(u64),
    /// Rows of what is gone. They were dead by rule already.
    Sweep(Sweep),
}

/// Rows of what is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Sweep {
    /// Pages and history of a topic's lane.
    Pages { topic: TopicId, lane: Lane, from: Offset, to: Offset },
    /// Blocks and notes of a generation's lane.
    Blocks { generation: Generation, lane: Lane, from: Offset, to: Offset },
    /// The lane row, and what is left of its history.
    Lane { topic: TopicId, lane: Lane },
    /// The cursor row.
    Cursor { generation: Generation, lane: Lane },
    /// Some of a topic's dead letters, by number.
    Dead { topic: TopicId, from: u64, to: u64 },
    /// One of the [`POINTER_PARTS`] of its pointers.
    Pointers { topic: TopicId, of: u8 },
}

/// Parts of a topic's pointers, by the first bits of their hashes: each goes in one commit.
pub(crate) const POINTER_PARTS: u8 = 16;

/// A change of volatile state.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum VolatileChange {
    /// A consumer takes part.
    Joined {
        consumer: ConsumerId,
        group: GroupId,
        owner: OwnerId,
        lease_ms: Option<u32>,
        credit: u32,
        credit_bytes: u64,
        peer: Peer,
    },
    /// A consumer is gone.
    Left(ConsumerId),
    /// So many consumers at the front of a group's queue had their turn.
    Turned { group: GroupId, turns: usize },
    /// A lane of a group was looked at. `more`: it has more right now. `stalled`: it has more, and no
    /// consumer has room for it.
    Visited { group: GroupId, lane: Lane, more: bool, stalled: bool, fresh: u8 },
    /// The next group to be looked at.
    Rotor(GroupId),
    /// A read was asked for.
    Loading(Prefetch),
    /// A lane has messages to read, and enough is being read.
    Unread { group: GroupId, lane: Lane },
    /// A lane has retries to read and must wait until others have read theirs.
    Starved { group: GroupId, lane: Lane },
    /// A lane has fresh messages, and its group may open no more.
    GroupFull { group: GroupId, lane: Lane },
    /// Partition of the next message without a key.
    UnkeyedTurn { topic: TopicId, turn: u32 },
    /// Nothing new is stored, or is again.
    StorageLow(bool),
    /// Look at the group again then.
    Wake { at: Timestamp, group: GroupId },
    /// The group can do nothing until something happens to it.
    Idle(GroupId),
    /// Messages around there were of use.
    Used { topic: TopicId, lane: Lane, offset: Offset },
    /// When a chore is to be done next, if at all.
    Chore(Chore, Option<Timestamp>),
    /// A lane has no damaged page any more.
    Repaired { topic: TopicId, lane: Lane },
    /// Messages of a damaged block below `to` were opened again.
    Reopened { group: GroupId, lane: Lane, block: u64, to: Offset },
}

/// Work nobody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Chore {
    /// Settled messages of a lane stay only so long.
    Retain { topic: TopicId, lane: Lane },
    /// Dead letters of a topic stay only so long.
    ExpireDeadLetters { source: TopicId },
    /// A group that nobody reads goes.
    Idle(GroupId),
    /// Messages wait for another shard.
    Send { target: ShardId },
    /// Records that are over go.
    ExpireRecords,
    /// Rows of a cursor that was moved or deleted go.
    Sweep(u64),
    /// The deadline of a waiting message has passed, and effects were begun under it.
    Deadline { group: GroupId, lane: Lane, offset: Offset },
}

impl VolatileChange {
    pub(crate) fn loading(&self) -> Option<&Prefetch> {
        if let VolatileChange::Loading(want) = self { Some(want) } else { None }
    }
}

/// What the shell does once the batch is durable.
#[derive(Debug, Clone)]
pub enum Action {
    /// Hand a message to a consumer.
    Deliver(ConsumerId, Box<Delivery>),
    /// The consumer's group or topic is gone: end its stream.
    Dismiss(ConsumerId),
    /// Have another shard take messages, and tell what became of them.
    Send(ShardId, Box<Arrive>),
}

/// One hand-over of a message to a consumer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Delivery {
    /// Proof of the lease.
    pub token: LeaseToken,
    /// The lease, by numbers.
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
    /// Why the attempt before failed.
    pub last_error: Text,
    /// The message.
    pub message: Arc<Message>,
}
