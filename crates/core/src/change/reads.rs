//! What is asked of the storage: rows to decide on, messages to hand out.

use crate::id::{Generation, GroupId, Lane, Offset, ShardId, Text, TopicId};
use crate::row::{Hash16, Key, Place};

/// A row that deciding asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Lookup {
    /// This row.
    Row(Key),
    /// The page that holds this message.
    Message { topic: TopicId, lane: Lane, offset: Offset },
    /// The page that holds this message, or the next there is, without its messages.
    PageAt { topic: TopicId, lane: Lane, offset: Offset },
    /// The oldest dead letters of a `dlq.` topic, as many as one step drops.
    Oldest { topic: TopicId },
    /// The newest dead letters of a `dlq.` topic whose number is lower, as many as a look takes.
    Newest { topic: TopicId, below: u64 },
    /// Effects begun under an open entry.
    Held { generation: Generation, lane: Lane, offset: Offset },
    /// Effects begun under entries of a stretch, as many as one step takes.
    HeldWithin { generation: Generation, lane: Lane, from: Offset, to: Offset },
    /// Messages on their way to another shard, from that number on.
    Outbox { target: ShardId, from: u64 },
    /// What messages of a block of offsets went through.
    History { topic: TopicId, lane: Lane, block: u64 },
    /// Pointers of a version of a dataset behind a partition key, as many as a look takes.
    Pointers { topic: TopicId, dataset: Hash16, after: Text },
    /// Effects without an end, by their places.
    Unending { from: Place },
    /// Records by their ends, from that bucket on, as many as one step deletes.
    Ending { from: u64 },
    /// Records of an audit chain, from that number on.
    Audit { namespace: Hash16, from: u64 },
    /// Pages of a lane from the one that holds `from` on, as many as a look takes.
    Pages { topic: TopicId, lane: Lane, from: Offset },
}

/// Rows that deciding asks for.
pub type Reads = Vec<Lookup>;

/// A message that dispatch would like to have in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Prefetch {
    /// Messages of a lane from `from` on.
    Ahead { topic: TopicId, lane: Lane, from: Offset },
    /// One message and its last error, for a retry.
    Retry { topic: TopicId, group: GroupId, generation: Generation, lane: Lane, offset: Offset },
}
