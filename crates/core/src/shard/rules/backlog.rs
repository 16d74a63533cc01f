//! Backlog limits: how many unsettled messages a lane has, and whether it accepts more.
//!
//! A group's backlog is its undelivered messages plus its open ones. A lane's backlog is that of
//! its slowest group, or every message above the last trim if the topic has no group.

use crate::change::{Decision, VolatileChange};
use crate::command::{Full, Rejection};
use crate::id::{Lane, Text};
use crate::shard::context::Context;
use crate::shard::{Cursor, Group, Topic, done};

/// Retry delay returned to a producer when there is no space.
const RETRY_AFTER_MS: u64 = 1_000;

impl Cursor {
    pub(crate) fn backlog(&self, high: u64) -> u64 {
        high - self.next + self.open.len() as u64
    }

    fn backlog_bytes(&self, high_bytes: u64) -> u64 {
        // After a seek, the cursor's byte total is an estimate until its next delivery.
        high_bytes.saturating_sub(self.bytes) + self.open_bytes
    }
}

/// Sets or clears the storage-low flag. While it is set, commands that need space are rejected and
/// commands that free space still run.
pub(crate) fn storage_low(is_low: bool) -> Decision {
    let mut decision = done();
    decision.volatile.push(VolatileChange::StorageLow(is_low));
    decision
}

impl Context<'_> {
    /// Rejects new data while the storage is nearly full.
    pub(crate) fn check_storage(&self) -> Result<(), Rejection> {
        if self.volatile.storage_low {
            Err(Rejection::Exhausted { full: Full::Storage, retry_after_ms: RETRY_AFTER_MS })
        } else {
            Ok(())
        }
    }

    /// Rejects a message of `size` bytes that exceeds the lane's backlog limits. `ahead` is the
    /// number and bytes of messages that the same decision stores before it.
    pub(crate) fn check_room(
        &self,
        topic: &Topic,
        lane: Lane,
        size: u64,
        ahead: (u64, u64),
    ) -> Result<(), Rejection> {
        let settings = &topic.settings;
        if size > settings.max_backlog_bytes {
            // A retry would not help: the message never fits.
            return Err(Rejection::TooLarge {
                field: "message".into(),
                limit: settings.max_backlog_bytes,
                size,
            });
        }
        self.check_storage()?;
        match self.full(topic, lane, size, ahead) {
            Some(full) => Err(Rejection::Exhausted { full, retry_after_ms: RETRY_AFTER_MS }),
            None => Ok(()),
        }
    }

    /// Returns the limit that a message of `size` bytes would exceed after the messages `ahead`.
    pub(crate) fn full(
        &self,
        topic: &Topic,
        lane: Lane,
        size: u64,
        ahead: (u64, u64),
    ) -> Option<Full> {
        let settings = &topic.settings;
        let state = topic.lane(lane);
        // Below `first` only open entries are unsettled, and each cursor counts its own.
        let mut worst: (u64, Option<&Text>) = (0, None);
        let mut worst_bytes: (u64, Option<&Text>) = (0, None);
        for (name, id) in &topic.groups {
            let cursor = self.groups[id].cursor(lane);
            worst = worst.max((cursor.backlog(state.high), Some(name)));
            worst_bytes = worst_bytes.max((cursor.backlog_bytes(state.high_bytes), Some(name)));
        }
        if topic.groups.is_empty() {
            worst = (state.high - state.first, None);
            worst_bytes = (state.high_bytes - state.first_bytes, None);
        }
        if worst.0 + ahead.0 + 1 > settings.max_backlog_messages {
            Some(Full::Messages(worst.1.cloned()))
        } else if worst_bytes.0 + ahead.1 + size > settings.max_backlog_bytes {
            Some(Full::Bytes(worst_bytes.1.cloned()))
        } else {
            None
        }
    }

    /// Returns the partitions that the backlog of a group alone fills.
    pub(crate) fn filled_by(&self, group: &Group) -> Vec<u32> {
        let topic = &self.topics[&group.row.topic];
        let settings = &topic.settings;
        let is_filled = |partition: &u32| {
            let lane = Lane::of(*partition);
            let (state, cursor) = (topic.lane(lane), group.cursor(lane));
            cursor.backlog(state.high) >= settings.max_backlog_messages
                || cursor.backlog_bytes(state.high_bytes) >= settings.max_backlog_bytes
        };
        (0..topic.row.partitions).filter(is_filled).collect()
    }
}
