//! Messages of commits on their way to another shard.

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
    /// The topic it is for.
    pub topic: Text,
    /// Message key.
    pub key: Bytes,
    /// Message value.
    pub value: Bytes,
    /// What else the commit says.
    pub envelope: Envelope,
    /// What the router said, if it was asked.
    pub routing: Option<Box<Routing>>,
    /// Trace context.
    pub trace: Option<Box<Trace>>,
    /// Whose commit it was, should it not be taken.
    pub sender: Sender,
    /// Where it was asked for, if that was another topic.
    pub routed: Option<Routed>,
}

/// The delivery whose commit produced a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct Sender {
    pub topic: TopicId,
    /// None if it was routed on after it had arrived.
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
            trace: self.trace.clone(),
            seen: None,
            routed: self.routed,
        }
    }
}

/// Messages from another shard, in the order of their numbers. Whatever came before `from` is settled there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Arrive {
    /// Where they come from.
    pub source: ShardId,
    /// The number of the first.
    pub from: u64,
    /// The messages.
    pub messages: Vec<Outgoing>,
}

/// What became of them, for the shard they came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// Where they went.
    pub target: ShardId,
    /// Everything below this number has arrived …
    pub through: u64,
    /// … and the message of this number never will, for this reason.
    pub refused: Option<Text>,
}
