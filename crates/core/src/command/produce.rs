//! Storing a message, here or on the shard it is routed to.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::command::TopicName;
use crate::id::{ShardId, Text, TopicId};
use crate::message::{Envelope, Routing, Trace};
use crate::time::Timestamp;

/// Store a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Produce {
    /// The requested topic; the final one if it was routed here.
    pub topic: TopicName,
    /// Message key.
    pub key: Bytes,
    /// Message value.
    pub value: Bytes,
    /// What else the producer says.
    pub envelope: Envelope,
    /// What the router said, if it was asked.
    pub routing: Option<Box<Routing>>,
    /// Trace context.
    pub trace: Option<Box<Trace>>,
    /// What the sender has seen of its topics on other shards, if it looked.
    pub seen: Option<Seen>,
    /// Where it was asked for, if another shard has routed it here.
    pub routed: Option<Routed>,
}

/// What a sender has seen of topics that the deciding shard cannot see. It may be old by now: it saves a
/// promise that could not be kept, and decides nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// One of them is not there.
    Absent,
    /// The final topic has so many partitions.
    Partitions(u32),
}

/// Where a message was asked for: its key is taken under that topic, until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct Routed {
    pub source: ShardId,
    pub topic: TopicId,
    pub expires: Timestamp,
}

/// A key of a topic whose message was routed to another shard.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct RoutedKey {
    /// Where the message went.
    pub target: ShardId,
    pub routed: Routed,
    pub tenant: Text,
    pub key: Text,
}

impl Produce {
    /// Router, then envelope, then as requested.
    pub(crate) fn final_topic(&self) -> TopicName {
        let routed = self.routing.as_ref().and_then(|routing| routing.target_topic.as_ref());
        let target = match self.routed {
            // The envelope is kept as it was written; what it asks for has been done.
            Some(_) => None,
            None => routed.or(self.envelope.target_topic.as_ref()),
        };
        let topic = target.unwrap_or(&self.topic.topic).clone();
        TopicName { namespace: self.topic.namespace.clone(), topic }
    }

    /// Its topics that `shard` cannot see, the final one last.
    pub fn beyond(&self, shard: ShardId, shards: u32) -> Vec<TopicName> {
        let mut topics = vec![self.topic.clone(), self.final_topic()];
        topics.dedup();
        topics.retain(|name| name.shard(shards) != shard);
        topics
    }
}
