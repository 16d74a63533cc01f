//! Active faults.

use std::ops::RangeInclusive;

use crate::stats::Point;

/// The active faults.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// The remaining faults of the current round over all kinds and points.
    pub(crate) round: Vec<(&'static str, Point)>,
    pub(crate) armed: Option<(&'static str, Point)>,
    pub(crate) is_healed: bool,
    pub(crate) slow_until: u64,
    pub(crate) slow_ms: u64,
    /// Commits that never take effect: life and range of batches.
    pub(crate) lost: Vec<(u64, RangeInclusive<u64>)>,
    /// How often a node or shard was lost.
    pub(crate) deaths: u64,
}

impl Faults {
    pub(crate) fn slow_disk_ms(&self, now: u64) -> u64 {
        if now < self.slow_until { self.slow_ms } else { 0 }
    }

    /// Whether this commit is one that never takes effect.
    pub(crate) fn takes_commit(&self, life: u64, batch: u64) -> bool {
        self.lost.iter().any(|(of, batches)| *of == life && batches.contains(&batch))
    }

    /// Forgets losses of lives that ended long ago.
    pub(crate) fn forget_life(&mut self, life: u64) {
        self.lost.retain(|(of, _)| *of + 32 > life);
    }
}
