//! Rows: what engines store. An engine knows tables, keys, columns and bodies, and no meaning.
//!
//! 1. Every key begins with the shard, which travels beside it; within a shard keys are ordered as
//!    [`Key`] is, and a range never leaves its table.
//! 2. Keys and columns are plain numbers and texts, so that SQL can count, list and join them.
//! 3. No number is greater than [`NUMBER_MAX`](crate::NUMBER_MAX).
//! 4. Rows that are expired, trimmed or of an old generation are dead by rule before they are gone:
//!    an engine may delete them late and in any order.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::{
    BatchNo, Epoch, Generation, GroupId, Lane, NUMBER_MAX, Offset, OwnerId, ShardId, Text, TopicId,
};
use crate::time::Timestamp;

/// Where a row lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// What a commit says about itself.
    Head,
    /// Topics.
    Topic,
    /// Groups.
    Group,
    /// Checkpoints of lanes.
    Lane,
    /// Checkpoints of cursors.
    Cursor,
    /// Checkpoints of counters.
    Mark,
    /// Packed messages.
    Page,
    /// Packed open entries.
    Block,
    /// Last errors of open entries.
    Note,
    /// Names of consumers.
    Owner,
    /// Rows looked up by the hash of their identity, one by one: no range is ever over them but
    /// [`Read::Unending`] and [`Read::Ending`].
    Record,
    /// Dead letters.
    Dead,
    /// What is still to be deleted.
    Garbage,
    /// Effects begun under open entries.
    Held,
    /// Messages on their way to other shards.
    Outbox,
    /// Where pieces of datasets are.
    Pointer,
    /// What messages went through.
    History,
    /// Packed records of audit chains.
    Audit,
}

impl Table {
    /// The table of a number; numbers follow each other.
    pub fn of(number: usize) -> Option<Table> {
        use Table::*;
        let all = [
            Head, Topic, Group, Lane, Cursor, Mark, Page, Block, Note, Owner, Record, Dead,
            Garbage, Held, Outbox, Pointer, History, Audit,
        ];
        all.get(number).copied()
    }
}

/// Kinds of [`Key::Record`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// A taken idempotency key of a topic.
    Dedupe = 1,
    /// Where the message of a key went, if that was another shard.
    Pin = 2,
    /// How a delivery ended.
    Tombstone = 3,
    /// A side effect.
    Effect = 4,
    /// A commit, to be told again.
    Commit = 5,
    /// A taken idempotency key of a topic on another shard.
    Routed = 6,
}

impl RecordKind {
    /// The kind of a number.
    pub fn of(number: u8) -> Option<RecordKind> {
        use RecordKind::*;
        let all = [Dedupe, Pin, Tombstone, Effect, Commit, Routed];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Kinds of [`Key::Mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MarkKind {
    /// The first bucket whose records are not gone.
    Expiry = 1,
    /// The number of the next message to another shard.
    OutboxNext = 2,
    /// The number of the first that has not arrived there.
    OutboxDone = 3,
    /// The number of the next message from another shard.
    Arrived = 4,
    /// The number after the last message of another shard that was refused.
    Refused = 5,
}

impl MarkKind {
    /// The kind of a number.
    pub fn of(number: u8) -> Option<MarkKind> {
        use MarkKind::*;
        let all = [Expiry, OutboxNext, OutboxDone, Arrived, Refused];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A bucket is the millisecond from which on its records may go. From this one on they are of records that have no
/// end yet, and say since when those are there. They never go.
pub const UNENDING: u64 = 1 << 62;

/// Where a record without an end stands among the others: the older first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Its bucket.
    pub bucket: u64,
    /// Tells those of one bucket apart.
    pub hash: Hash16,
}

impl Place {
    /// The least there is.
    pub const FIRST: Place = Place { bucket: UNENDING, hash: [0; 16] };

    /// The place of a row, if it is a record without an end.
    pub fn of(row: &Row) -> Option<Place> {
        match (&row.key, &row.columns) {
            (Key::Record { hash, .. }, Columns::Record { bucket, .. }) if *bucket >= UNENDING => {
                Some(Place { bucket: *bucket, hash: *hash })
            }
            _ => None,
        }
    }

    /// The next one.
    pub(crate) fn following(self) -> Option<Place> {
        let hash = following(self.hash)?;
        Some(Place { hash, ..self })
    }
}

/// The hash that follows.
pub(crate) fn following(hash: Hash16) -> Option<Hash16> {
    u128::from_be_bytes(hash).checked_add(1).map(u128::to_be_bytes)
}

/// First 16 bytes of the hash of a record's identity.
pub type Hash16 = [u8; 16];

/// Names a row within its shard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Key {
    Head {
        batch: BatchNo,
    },
    Topic {
        topic: TopicId,
    },
    Group {
        group: GroupId,
    },
    Lane {
        topic: TopicId,
        lane: Lane,
    },
    Cursor {
        generation: Generation,
        lane: Lane,
    },
    Mark {
        kind: MarkKind,
        id: u64,
    },
    /// `last` is the page's last offset, so that "the page that holds o" and "read on from o" are
    /// one range.
    Page {
        topic: TopicId,
        lane: Lane,
        last: Offset,
    },
    /// The batch is part of the key: a block is written anew and its old version deleted, never
    /// updated in place.
    Block {
        generation: Generation,
        lane: Lane,
        block: u64,
        batch: BatchNo,
    },
    Note {
        generation: Generation,
        lane: Lane,
        offset: Offset,
    },
    Owner {
        owner: OwnerId,
    },
    Record {
        kind: RecordKind,
        hash: Hash16,
    },
    Dead {
        topic: TopicId,
        seq: u64,
    },
    Garbage {
        id: u64,
    },
    Held {
        generation: Generation,
        lane: Lane,
        offset: Offset,
        hash: Hash16,
    },
    Outbox {
        target: ShardId,
        seq: u64,
    },
    /// Texts are ordered by their bytes.
    Pointer {
        topic: TopicId,
        dataset: Hash16,
        partition_key: Text,
    },
    /// As blocks are: never updated in place.
    History {
        topic: TopicId,
        lane: Lane,
        block: u64,
        batch: BatchNo,
    },
    /// `last` is the number of the row's last record.
    Audit {
        namespace: Hash16,
        last: u64,
    },
}

impl Key {
    /// The table of this key.
    pub fn table(&self) -> Table {
        match self {
            Key::Head { .. } => Table::Head,
            Key::Topic { .. } => Table::Topic,
            Key::Group { .. } => Table::Group,
            Key::Lane { .. } => Table::Lane,
            Key::Cursor { .. } => Table::Cursor,
            Key::Mark { .. } => Table::Mark,
            Key::Page { .. } => Table::Page,
            Key::Block { .. } => Table::Block,
            Key::Note { .. } => Table::Note,
            Key::Owner { .. } => Table::Owner,
            Key::Record { .. } => Table::Record,
            Key::Dead { .. } => Table::Dead,
            Key::Garbage { .. } => Table::Garbage,
            Key::Held { .. } => Table::Held,
            Key::Outbox { .. } => Table::Outbox,
            Key::Pointer { .. } => Table::Pointer,
            Key::History { .. } => Table::History,
            Key::Audit { .. } => Table::Audit,
        }
    }
}

/// What a table has beside key and body.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Columns {
    /// Nothing.
    None,
    /// `clean` is the oldest head a recovery still needs.
    Head {
        epoch: Epoch,
        now: Timestamp,
        clean: BatchNo,
    },
    /// `kind` is `topic` or `dlq`.
    Topic {
        namespace: Text,
        name: Text,
        kind: Text,
    },
    Group {
        topic: TopicId,
        name: Text,
    },
    /// First offset, bytes of all keys and values, time of the commit that stored it.
    Page {
        base: Offset,
        bytes: u64,
        at: Timestamp,
    },
    /// When it is over, and the bucket it goes with. `Timestamp::MAX` is never.
    Record {
        expires: Timestamp,
        bucket: u64,
    },
    /// `state` is `dead` or `redriven`.
    Dead {
        lane: Lane,
        offset: Offset,
        group: Text,
        reason: Text,
        at: Timestamp,
        state: Text,
    },
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub key: Key,
    /// What SQL may want of it.
    pub columns: Columns,
    /// The rest: JSON text or packed, by table.
    pub body: Bytes,
}

/// One change of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Write {
    /// Insert or replace.
    Put(Row),
    /// Delete one; absent is fine.
    Delete(Key),
    /// Delete every row of one table with `from <= key < to`.
    DeleteRange { from: Key, to: Key },
    /// Delete the pages that lie wholly within `from <= offset < to`.
    Trim { topic: TopicId, lane: Lane, from: Offset, to: Offset },
    /// Give a record another end; absent is fine.
    Touch { key: Key, expires: Timestamp, bucket: u64 },
    /// Delete the records with `from <= bucket < to` and `expires < to`.
    Expire { from: u64, to: u64 },
}

/// One question to an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Read {
    /// One row, if it is there.
    Key(Key),
    /// Rows of one table with `from <= key < to`, in order or in reverse, until `rows` or `bytes` are
    /// reached (at least one, if there is one). Without `bodies` their bodies are empty.
    Range { from: Key, to: Key, reverse: bool, rows: usize, bytes: usize, bodies: bool },
    /// Records of a kind that have no end, by their places from `from` on, until `rows` are reached.
    Unending { kind: RecordKind, from: Place, rows: usize },
    /// Records that have an end, by their buckets from `from` on, until `rows` are reached. Their bodies are empty.
    Ending { from: u64, rows: usize },
}

impl Read {
    /// The page that holds `offset`, and those that follow.
    pub fn pages(topic: TopicId, lane: Lane, offset: Offset, rows: usize, bytes: usize) -> Read {
        Read::Range {
            from: Key::Page { topic, lane, last: offset },
            to: Key::Page { topic, lane, last: NUMBER_MAX },
            reverse: false,
            rows,
            bytes,
            bodies: true,
        }
    }
}
