//! Names of topics and groups.

use serde::{Deserialize, Serialize};

use crate::id::{ShardId, Text};
use crate::placement::shard_of_topic;

/// A topic by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TopicName {
    /// Isolation boundary.
    pub namespace: Text,
    /// The name in that namespace.
    pub topic: Text,
}

impl TopicName {
    /// Returns the shard of the topic, its groups and its messages.
    pub fn shard(&self, shards: u32) -> ShardId {
        shard_of_topic(&self.namespace, &self.topic, shards)
    }
}

/// A group by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupName {
    /// The topic it reads.
    pub topic: TopicName,
    /// Its name in that topic.
    pub group: Text,
}
