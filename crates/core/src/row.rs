//! Rows, the unit that engines store. An engine knows tables, keys, columns and bodies, but not
//! their meaning.
//!
//! 1. Every key begins with the shard, which is passed separately. Within a shard, keys are ordered
//!    as [`Key`] is, and a range never leaves its table.
//! 2. Keys and columns are plain numbers and texts, so that SQL can count, list and join them.
//! 3. No number is greater than [`NUMBER_MAX`](crate::NUMBER_MAX).
//! 4. Rows that are expired, trimmed or of an old generation are dead by rule before they are
//!    deleted. An engine may delete them late and in any order.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::{
    BatchNo, Epoch, Generation, GroupId, Lane, NUMBER_MAX, Offset, OwnerId, ShardId, Text, TopicId,
};
use crate::time::Timestamp;

/// The table of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Metadata of commits.
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
    /// Rows looked up one by one, by the hash of their identity. Only [`Read::Unending`] and
    /// [`Read::Ending`] read ranges of them.
    Record,
    /// Dead letters.
    Dead,
    /// Rows that remain to be deleted.
    Garbage,
    /// Effects begun under open entries.
    Held,
    /// Messages to be sent to other shards.
    Outbox,
    /// Locations of dataset pieces.
    Pointer,
    /// History of messages.
    History,
    /// Packed records of audit chains.
    Audit,
}

impl Table {
    /// Returns the table of a number. Numbers are consecutive from 0.
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
    /// An idempotency key in use in a topic.
    Dedupe = 1,
    /// The target of a keyed message that was routed to another shard.
    Pin = 2,
    /// How a delivery ended.
    Tombstone = 3,
    /// A side effect.
    Effect = 4,
    /// A commit, so that a retry gets the same reply.
    Commit = 5,
    /// An idempotency key in use in a topic on another shard.
    Routed = 6,
    /// The messages of a produce request with a nonce.
    Nonce = 7,
}

impl RecordKind {
    /// Returns the kind of a number.
    pub fn of(number: u8) -> Option<RecordKind> {
        use RecordKind::*;
        let all = [Dedupe, Pin, Tombstone, Effect, Commit, Routed, Nonce];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Kinds of [`Key::Mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MarkKind {
    /// The first bucket whose records are not deleted.
    Expiry = 1,
    /// The number of the next message to another shard.
    OutboxNext = 2,
    /// The number of the first message that has not arrived at the other shard.
    OutboxDone = 3,
    /// The number of the next message from another shard.
    Arrived = 4,
    /// The number after the last rejected message from another shard.
    Refused = 5,
}

impl MarkKind {
    /// Returns the kind of a number.
    pub fn of(number: u8) -> Option<MarkKind> {
        use MarkKind::*;
        let all = [Expiry, OutboxNext, OutboxDone, Arrived, Refused];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// The first bucket of records without an expiry. A lower bucket is the millisecond from which its
/// records may be deleted. Buckets from this one on hold the creation time of records that do not
/// expire yet, and are never deleted.
pub const UNENDING: u64 = 1 << 62;

/// The position of a record without an expiry in the list of such records, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Its bucket.
    pub bucket: u64,
    /// Orders the records of one bucket.
    pub hash: Hash16,
}

impl Place {
    /// The lowest place.
    pub const FIRST: Place = Place { bucket: UNENDING, hash: [0; 16] };

    /// Returns the place of a row, if it is a record without an expiry.
    pub fn of(row: &Row) -> Option<Place> {
        match (&row.key, &row.columns) {
            (Key::Record { hash, .. }, Columns::Record { bucket, .. }) if *bucket >= UNENDING => {
                Some(Place { bucket: *bucket, hash: *hash })
            }
            _ => None,
        }
    }

    /// Returns the next place.
    pub(crate) fn following(self) -> Option<Place> {
        let hash = following(self.hash)?;
        Some(Place { hash, ..self })
    }
}

/// Returns the next hash.
pub(crate) fn following(hash: Hash16) -> Option<Hash16> {
    u128::from_be_bytes(hash).checked_add(1).map(u128::to_be_bytes)
}

/// First 16 bytes of the hash of a record's identity.
pub type Hash16 = [u8; 16];

/// Identifies a row within its shard.
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
    /// `last` is the page's last offset, so that "the page that holds offset o" and "all pages from
    /// o on" are one range.
    Page {
        topic: TopicId,
        lane: Lane,
        last: Offset,
    },
    /// The batch is part of the key: a new version is inserted and the old one deleted, never
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
    /// Never updated in place, like blocks.
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
    /// Returns the table of this key.
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

/// The columns of a table besides key and body.
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
    /// When it expires (`Timestamp::MAX`: never), and the bucket it is deleted with.
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
    /// Its key.
    pub key: Key,
    /// Its plain columns, for use in SQL.
    pub columns: Columns,
    /// Its content: JSON text or packed, depending on the table.
    pub body: Bytes,
}

/// One change of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Write {
    /// Insert or replace.
    Put(Row),
    /// Delete a row, if it exists.
    Delete(Key),
    /// Delete every row of one table with `from <= key < to`.
    DeleteRange { from: Key, to: Key },
    /// Delete the pages that lie entirely within `from <= offset < to`.
    Trim { topic: TopicId, lane: Lane, from: Offset, to: Offset },
    /// Change the expiry of a record, if it exists.
    Touch { key: Key, expires: Timestamp, bucket: u64 },
    /// Delete the records with `from <= bucket < to` and `expires < to`.
    Expire { from: u64, to: u64 },
}

/// One query to an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Read {
    /// One row, if it exists.
    Key(Key),
    /// Rows of one table with `from <= key < to`, in order or in reverse, until `rows` or `bytes`
    /// are reached (at least one row, if one exists). Without `bodies` their bodies are empty.
    Range { from: Key, to: Key, reverse: bool, rows: usize, bytes: usize, bodies: bool },
    /// Records of a kind without an expiry, ordered by place from `from` on, until `rows` are
    /// reached.
    Unending { kind: RecordKind, from: Place, rows: usize },
    /// Records with an expiry, ordered by bucket from `from` on, until `rows` are reached. Their
    /// bodies are empty.
    Ending { from: u64, rows: usize },
}

impl Read {
    /// Returns the read for the page that holds `offset` and the pages after it.
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
