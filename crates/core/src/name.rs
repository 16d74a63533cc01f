//! Names of topics and groups.

use serde::{Deserialize, Serialize};

use crate::id::{ShardId, Text};
use crate::placement::shard_of_topic;

/// A topic by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TopicName {
    /// Isolation boundary.
    pub namespace: Text,
    /// The name in it.
    pub topic: Text,
}

impl TopicName {
    /// Where it is, and everything under it.
    pub fn shard(&self, shards: u32) -> ShardId {
        shard_of_topic(&self.namespace, &self.topic, shards)
    }
}

/// A group by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupName {
    /// The topic it reads.
    pub topic: TopicName,
    /// Its name there.
    pub group: Text,
}
