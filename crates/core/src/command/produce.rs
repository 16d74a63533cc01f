//! Producing a message, on this shard or on the shard it is routed to.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::command::TopicName;
use crate::id::{ShardId, Text, TopicId};
use crate::message::{Envelope, Routing, Trace};
use crate::time::Timestamp;

/// Store a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Produce {
    /// The requested topic. If it was routed here, the final topic.
    pub topic: TopicName,
    /// Message key.
    pub key: Bytes,
    /// Message value.
    pub value: Bytes,
    /// The producer's metadata.
    pub envelope: Envelope,
    /// The router's decision, if it made one.
    pub routing: Option<Box<Routing>>,
    /// Whether the message is rejected as [`Unrouted`](super::Rejection::Unrouted) without a decision
    /// that can be followed. Otherwise it goes where the producer sent it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_routing: bool,
    /// Trace context.
    pub trace: Option<Box<Trace>>,
    /// What the sender has read about its topics on other shards, if it did.
    pub seen: Option<Seen>,
    /// Where it was produced, if another shard has routed it here.
    pub routed: Option<Routed>,
}

/// What a sender has read about topics that the deciding shard cannot see. It may be out of date.
/// It only prevents accepting a message that would be rejected later, and decides nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// One of the topics does not exist.
    Absent,
    /// The number of partitions of the final topic.
    Partitions(u32),
}

/// Where a message was produced. Its idempotency key is kept under that topic until `expires`.
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
    /// The shard that the message was routed to.
    pub target: ShardId,
    pub routed: Routed,
    pub tenant: Text,
    pub key: Text,
}

/// Store messages of one produce request. The request may be sent again: within
/// [`NONCE_MS`](crate::limits::NONCE_MS), a message that is stored already is not stored again. A
/// message with an idempotency key is deduplicated by that key alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProduceWithNonce {
    /// Chosen by the client, new for each request.
    pub nonce: Text,
    /// The place of each message in the request. A request is divided the same way each time, so the
    /// first place identifies this part of it.
    pub places: Vec<u32>,
    /// Fingerprint of all messages of the request.
    pub content: [u8; 16],
    /// The messages.
    pub messages: Vec<Produce>,
}

impl Produce {
    /// Returns the bytes of its message that count against limits.
    pub fn size(&self) -> usize {
        self.key.len() + self.value.len() + self.envelope.extension_bytes()
    }

    /// Whether the decision of the router can be followed, as far as its sender has seen. A message
    /// that needs a decision keeps it, and is rejected.
    pub fn can_follow_routing(&self) -> bool {
        let Some(routing) = self.routing.as_ref().filter(|_| !self.needs_routing) else {
            return true;
        };
        match self.seen {
            Some(Seen::Absent) => !routing.moves(),
            Some(Seen::Partitions(partitions)) => {
                routing.partition_override.is_none_or(|partition| partition < partitions)
            }
            None => true,
        }
    }

    /// Returns the message without the router's decision.
    pub fn unrouted(&self) -> Produce {
        // `seen` may be about the topic that the router chose.
        Produce { routing: None, needs_routing: false, seen: None, ..self.clone() }
    }

    /// Returns the topic chosen by the router, else by the envelope, else the requested one.
    pub fn final_topic(&self) -> TopicName {
        let routed = self.routing.as_ref().and_then(|routing| routing.target_topic.as_ref());
        let target = match self.routed {
            // The envelope is stored unchanged, but its target topic has already been applied.
            Some(_) => None,
            None => routed.or(self.envelope.target_topic.as_ref()),
        };
        let topic = target.unwrap_or(&self.topic.topic).clone();
        TopicName { namespace: self.topic.namespace.clone(), topic }
    }

    /// Returns its topics that `shard` cannot see, the final one last.
    pub fn remote_topics(&self, shard: ShardId, shards: u32) -> Vec<TopicName> {
        let mut topics = vec![self.topic.clone(), self.final_topic()];
        topics.dedup();
        topics.retain(|name| name.shard(shards) != shard);
        topics
    }
}
