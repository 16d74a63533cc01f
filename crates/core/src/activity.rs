//! What happened in a batch, for metrics, rates and series.
//!
//! `absorb` records it while it applies a change, so that every reader counts by the same rules.
//! No guarantee depends on it.

use crate::id::{GroupId, Text, TopicId};
use crate::message::DeathReason;

/// Something that happened to a topic or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// A message was stored, a redriven one included.
    Produced {
        /// Where it was stored.
        topic: TopicId,
        /// The size of its content.
        bytes: u64,
    },
    /// A message became a dead letter, or a dead letter was redriven.
    DeadLetter {
        /// The topic whose message it was.
        topic: TopicId,
        /// The group in which it failed, if that exists.
        group: Option<GroupId>,
        /// Why it died. `None`: it was redriven.
        reason: Option<DeathReason>,
    },
    /// A message was delivered to a group, or a delivery ended.
    Delivery {
        /// The group.
        group: GroupId,
        /// What happened.
        event: DeliveryEvent,
    },
    /// A topic was deleted.
    TopicDeleted(Text),
    /// A group was deleted.
    GroupDeleted {
        /// Its topic.
        topic: Text,
        /// Its name.
        group: Text,
    },
}

/// What happened to a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryEvent {
    /// A message was delivered for the first time.
    Delivered,
    /// A message was delivered again.
    Redelivered(RedeliveryCause),
    /// The message was acked.
    Acked,
    /// The delivery was nacked, and the message is retried.
    Nacked,
    /// The lease expired, and the message is retried.
    Expired,
    /// The delivery was given back without counting as an attempt.
    Returned,
}

/// How the delivery before ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RedeliveryCause {
    /// Its lease expired.
    Expired,
    /// It was nacked.
    Nacked,
    /// It was given back.
    Returned,
}
