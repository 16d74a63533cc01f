//! Messages of commits in transit to another shard.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::command::{Produce, Routed, TopicName};
use crate::id::{GroupId, Lane, MessageId, ShardId, Text, TopicId};
use crate::message::{Envelope, Routing, Trace};

/// A message that a commit produced for another shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// Isolation boundary.
    pub namespace: Text,
    /// The target topic.
    pub topic: Text,
    /// Message key.
    pub key: Bytes,
    /// Message value.
    pub value: Bytes,
    /// The producer's metadata.
    pub envelope: Envelope,
    /// The router's decision, if the router was called.
    pub routing: Option<Box<Routing>>,
    /// Trace context.
    pub trace: Option<Box<Trace>>,
    /// The delivery whose commit it was, needed if the message is rejected.
    pub sender: Sender,
    /// Where it was produced, if that was another topic.
    pub routed: Option<Routed>,
}

/// The delivery whose commit produced a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct Sender {
    pub topic: TopicId,
    /// None if it was forwarded after it had arrived.
    pub group: Option<GroupId>,
    pub lane: Lane,
    pub message: MessageId,
}

impl Outgoing {
    pub(crate) fn of(produce: &Produce, sender: Sender) -> Outgoing {
        Outgoing {
            namespace: produce.topic.namespace.clone(),
            topic: produce.topic.topic.clone(),
            key: produce.key.clone(),
            value: produce.value.clone(),
            envelope: produce.envelope.clone(),
            routing: produce.routing.clone(),
            trace: produce.trace.clone(),
            sender,
            routed: produce.routed,
        }
    }

    pub(crate) fn produce(&self) -> Produce {
        Produce {
            topic: TopicName { namespace: self.namespace.clone(), topic: self.topic.clone() },
            key: self.key.clone(),
            value: self.value.clone(),
            envelope: self.envelope.clone(),
            routing: self.routing.clone(),
            needs_routing: false,
            trace: self.trace.clone(),
            seen: None,
            routed: self.routed,
        }
    }
}

/// Messages from another shard, in the order of their numbers. The source shard has removed all
/// messages before `from` from its outbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Arrive {
    /// The shard that sent them.
    pub source: ShardId,
    /// The number of the first message.
    pub from: u64,
    /// The messages.
    pub messages: Vec<Outgoing>,
}

/// What happened to the messages, for the shard that sent them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// The shard that received them.
    pub target: ShardId,
    /// All messages below this number have arrived …
    pub through: u64,
    /// … and the message with this number was rejected permanently, for this reason.
    pub refused: Option<Text>,
}
