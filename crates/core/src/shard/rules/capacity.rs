//! Limits on the number of topics and cursors of a shard.
//!
//! Topics and cursors are always in memory. A client creates them by name, so their number has a
//! limit. Stored ones are loaded even above the limit; only creation is rejected.

use crate::command::{Full, Rejection};
use crate::limits::CAPACITY_RETRY_MS;
use crate::shard::Topic;
use crate::shard::context::Context;

impl Context<'_> {
    /// Rejects a topic beyond the limit. Dead-letter topics do not count, so a message can always
    /// be dead-lettered.
    pub(crate) fn check_topics(&self) -> Result<(), Rejection> {
        let topics = (self.topics.len() - self.dlq_of.len()) as u64;
        let limit = self.config.topics_max;
        if topics < limit {
            return Ok(());
        }
        let full = Full::Topics { limit };
        Err(Rejection::Exhausted { full, retry_after_ms: CAPACITY_RETRY_MS })
    }

    /// Rejects a new group of this topic if its cursors would exceed the limit.
    pub(crate) fn check_cursors(&self, topic: &Topic) -> Result<(), Rejection> {
        let limit = self.config.cursors_max;
        if self.cursors_total + u64::from(topic.row.partitions) <= limit {
            return Ok(());
        }
        let full = Full::Cursors { limit };
        Err(Rejection::Exhausted { full, retry_after_ms: CAPACITY_RETRY_MS })
    }
}
