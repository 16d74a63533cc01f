//! Per-shard counters of this process, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts since the process started, over all periods in which it served the shard.
#[derive(Debug, Default)]
pub(crate) struct ShardStats {
    commits: AtomicU64,
    commands: AtomicU64,
    micros: AtomicU64,
}

/// The counters of a shard that is served here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ShardCounts {
    pub(crate) shard: u32,
    pub(crate) commits: u64,
    pub(crate) commands: u64,
    /// Total time until the batches were durable.
    pub(crate) commit_time: Duration,
}

impl ShardStats {
    /// Counts a batch of `commands` commands that became durable after `took`.
    pub(crate) fn committed(&self, commands: usize, took: Duration) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commands.fetch_add(commands as u64, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, shard: u32) -> ShardCounts {
        ShardCounts {
            shard,
            commits: self.commits.load(Ordering::Relaxed),
            commands: self.commands.load(Ordering::Relaxed),
            commit_time: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
        }
    }
}
