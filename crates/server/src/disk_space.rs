//! Watches the free disk space of the data directory.
//!
//! Below the limit, requests that store new data are rejected. Settles, seeks and trims are still
//! written, because a completely full disk could not be drained.

use std::sync::Arc;
use std::time::Duration;

use driftq_core::Command;
use driftq_storage::Engine;

use crate::metrics::Metrics;
use crate::node::Node;

/// Interval between two checks. In this time, a load must not be able to write as many bytes as are
/// kept free.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Watches the free disk space.
pub(crate) struct Watch {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) node: Node,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) min_free_bytes: u64,
    pub(crate) is_low: bool,
}

impl Watch {
    /// Checks the free space periodically. Ends if the engine has no limit.
    pub(crate) async fn run(mut self) {
        while self.look().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Checks once. Returns false if the engine has no limit.
    pub(crate) async fn look(&mut self) -> bool {
        let room = match self.engine.room().await {
            Ok(Some(room)) => room,
            Ok(None) => return false,
            // The last known state is kept.
            Err(_) => return true,
        };
        self.metrics.room(room);
        // The state ends at one and a half times the limit. Otherwise every trim would toggle it.
        let more = if self.is_low { self.min_free_bytes / 2 } else { 0 };
        let is_low = room < self.min_free_bytes.saturating_add(more);
        match (self.is_low, is_low) {
            (false, true) => {
                tracing::warn!(room, "disk nearly full; rejecting requests that store new data");
            }
            (true, false) => {
                tracing::info!(room, "disk space available again; accepting all requests")
            }
            (true, true) | (false, false) => {}
        }
        // Repeated while space is low, because a shard that was recovered meanwhile does not know.
        if is_low || self.is_low {
            self.node.send_to_all(&Command::StorageLow(is_low));
        }
        self.is_low = is_low;
        true
    }
}
