//! Reads from storage: rows for deciding, and messages for dispatch.

use crate::id::{Generation, GroupId, Lane, Offset, ShardId, Text, TopicId};
use crate::row::{Hash16, Key, Place};

/// Rows that deciding reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Lookup {
    /// This row.
    Row(Key),
    /// The page that holds this message.
    Message { topic: TopicId, lane: Lane, offset: Offset },
    /// The page that holds this message, or the next page, without its messages.
    PageBounds { topic: TopicId, lane: Lane, offset: Offset },
    /// The oldest dead letters of a `dlq.` topic, as many as one step deletes.
    Oldest { topic: TopicId },
    /// The newest dead letters of a `dlq.` topic with a number below `below`, as many as one slice
    /// holds.
    Newest { topic: TopicId, below: u64 },
    /// Effects begun under an open entry.
    Held { generation: Generation, lane: Lane, offset: Offset },
    /// Effects begun under entries in `from..to`, as many as one step handles.
    HeldWithin { generation: Generation, lane: Lane, from: Offset, to: Offset },
    /// Messages to be sent to another shard, from number `from` on.
    Outbox { target: ShardId, from: u64 },
    /// History of the messages in a block of offsets.
    History { topic: TopicId, lane: Lane, block: u64 },
    /// Pointers of a version of a dataset after a partition key, as many as one slice holds.
    Pointers { topic: TopicId, dataset: Hash16, after: Text },
    /// Effects without an expiry, ordered by place.
    Unending { from: Place },
    /// Records with an expiry, from bucket `from` on, as many as one step deletes.
    Ending { from: u64 },
    /// Records of an audit chain, from number `from` on.
    Audit { namespace: Hash16, from: u64 },
    /// Pages of a lane from the one that holds `from` on, as many as one slice holds.
    Pages { topic: TopicId, lane: Lane, from: Offset },
}

/// A list of lookups.
pub type Reads = Vec<Lookup>;

/// Messages that dispatch wants in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Prefetch {
    /// Messages of a lane from `from` on.
    Ahead { topic: TopicId, lane: Lane, from: Offset },
    /// One message and its last error, for a retry.
    Retry { topic: TopicId, group: GroupId, generation: Generation, lane: Lane, offset: Offset },
}
