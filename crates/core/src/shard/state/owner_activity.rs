//! What an owner did in a group lately: how much it settled, and how fast.

use crate::command::Worker;
use crate::id::Text;
use crate::shard::state::recent::Recent;
use crate::time::Timestamp;

/// What an owner did in a group.
#[derive(Debug, Clone)]
pub(crate) struct OwnerActivity {
    pub(crate) name: Text,
    /// The worker that last connected under this name.
    pub(crate) worker: Option<Box<Worker>>,
    /// When it last connected, disconnected, settled or extended.
    pub(crate) at: Timestamp,
    pub(crate) last_settle_at: Option<Timestamp>,
    /// In the last minute.
    pub(crate) acked: Recent,
    pub(crate) failed: Recent,
    pub(crate) expired: Recent,
    /// How long it held the leases that it settled.
    pub(crate) held: Option<Box<HoldTimes>>,
}

impl OwnerActivity {
    pub(crate) fn new(name: Text, now: Timestamp) -> OwnerActivity {
        OwnerActivity {
            name,
            worker: None,
            at: now,
            last_settle_at: None,
            acked: Recent::default(),
            failed: Recent::default(),
            expired: Recent::default(),
            held: None,
        }
    }
}

/// Durations by magnitude: four buckets for each power of two, up to the longest lease.
const BUCKETS: usize = 4 * 27;
const WINDOW_MS: u64 = 300_000;

/// A histogram of durations over the last 5 to 10 minutes.
#[derive(Debug, Clone)]
pub(crate) struct HoldTimes {
    window: u64,
    counts: [u16; BUCKETS],
    /// The counts of the window before.
    before: [u16; BUCKETS],
}

impl Default for HoldTimes {
    fn default() -> HoldTimes {
        HoldTimes { window: 0, counts: [0; BUCKETS], before: [0; BUCKETS] }
    }
}

impl HoldTimes {
    pub(crate) fn add(&mut self, now: Timestamp, ms: u64) {
        let window = now.0 / WINDOW_MS;
        if window > self.window {
            let is_next = window == self.window + 1;
            self.before = if is_next { self.counts } else { [0; BUCKETS] };
            self.counts = [0; BUCKETS];
            self.window = window;
        }
        let bucket = bucket(ms);
        if self.counts[bucket] == u16::MAX {
            // The proportions stay.
            self.counts.iter_mut().chain(&mut self.before).for_each(|count| *count /= 2);
        }
        self.counts[bucket] += 1;
    }

    /// Returns the duration that `percent` of all durations do not exceed, to about an eighth.
    pub(crate) fn percentile(&self, now: Timestamp, percent: u64) -> Option<u64> {
        let windows: &[&[u16; BUCKETS]] = match (now.0 / WINDOW_MS).saturating_sub(self.window) {
            0 => &[&self.counts, &self.before],
            1 => &[&self.counts],
            _ => &[],
        };
        let count = |bucket: usize| windows.iter().map(|of| u64::from(of[bucket])).sum::<u64>();
        let total: u64 = (0..BUCKETS).map(count).sum();
        let rank = (total * percent).div_ceil(100).max(1);
        let mut sum = 0;
        let found = (0..BUCKETS).find(|bucket| {
            sum += count(*bucket);
            sum >= rank
        });
        found.map(middle)
    }
}

fn bucket(ms: u64) -> usize {
    if ms < 4 {
        return ms as usize;
    }
    let power = ms.ilog2();
    let quarter = (ms >> (power - 2)) & 3;
    ((4 * u64::from(power) - 4 + quarter) as usize).min(BUCKETS - 1)
}

/// Returns the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (power, quarter) = ((bucket + 4) / 4, (bucket % 4) as u64);
    let width = 1 << (power - 2);
    (4 + quarter) * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_an_eighth() {
        let now = Timestamp(1_800_000_000_000);
        for ms in [0, 1, 3, 4, 5, 7, 8, 9, 100, 1_000, 12_345, 3_600_000, 43_200_000] {
            let mut held = HoldTimes::default();
            held.add(now, ms);
            let found = held.percentile(now, 50).expect("a duration");
            assert!(found.abs_diff(ms) * 8 <= ms, "{found} for {ms}");
        }
        let mut held = HoldTimes::default();
        assert_eq!(held.percentile(now, 50), None);
        for ms in 1..=1_000 {
            held.add(now, ms);
        }
        let [p50, p95] = [50, 95].map(|percent| held.percentile(now, percent).expect("a duration"));
        assert!(p50.abs_diff(500) < 63 && p95.abs_diff(950) < 119, "{p50} {p95}");
        // The durations of one window are forgotten after the next one.
        let next = now.after(WINDOW_MS);
        held.add(next, 60_000);
        assert!(held.percentile(next, 50).expect("a duration") < 600);
        let last = next.after(WINDOW_MS);
        assert!(held.percentile(last, 50).expect("a duration") > 50_000);
        assert_eq!(held.percentile(last.after(WINDOW_MS), 50), None);
    }

    #[test]
    fn many_durations_keep_their_proportions() {
        let now = Timestamp(1_800_000_000_000);
        let mut held = HoldTimes::default();
        for _ in 0..100_000 {
            for ms in [1, 1, 1, 100] {
                held.add(now, ms);
            }
        }
        let [p50, p90] = [50, 90].map(|percent| held.percentile(now, percent).expect("a duration"));
        assert_eq!((p50, p90), (1, 104));
    }
}
