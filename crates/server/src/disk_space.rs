//! Watches the room that is left where the rows live.
//!
//! Below the mark nothing new is stored, while what is settled, moved or trimmed is still written: a disk
//! that is full to the last byte could not even be drained.

use std::sync::Arc;
use std::time::Duration;

use driftq_core::Command;
use driftq_storage::Engine;

use crate::metrics::Metrics;
use crate::node::Node;

/// Between two looks. In this time a load must not be able to write as much as the mark holds back.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Who watches.
pub(crate) struct Watch {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) node: Node,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) min_free_bytes: u64,
    pub(crate) is_low: bool,
}

impl Watch {
    /// Looks again and again, where there is something to see.
    pub(crate) async fn run(mut self) {
        while self.look().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Looks once. False: there is no end to the room.
    pub(crate) async fn look(&mut self) -> bool {
        let room = match self.engine.room().await {
            Ok(Some(room)) => room,
            Ok(None) => return false,
            // Things stay as they were last seen.
            Err(_) => return true,
        };
        self.metrics.room(room);
        // Half as much again before it is over, or it would begin and end with every trim.
        let more = if self.is_low { self.min_free_bytes / 2 } else { 0 };
        let is_low = room < self.min_free_bytes.saturating_add(more);
        match (self.is_low, is_low) {
            (false, true) => {
                tracing::warn!(room, "the disk is nearly full: nothing new is stored");
            }
            (true, false) => tracing::info!(room, "there is room on the disk again"),
            (true, true) | (false, false) => {}
        }
        // Again and again while it is low: a shard that was recovered does not know.
        if is_low || self.is_low {
            self.node.send_to_all(&Command::StorageLow(is_low));
        }
        self.is_low = is_low;
        true
    }
}
