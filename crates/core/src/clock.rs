//! The authority clock, extrapolated between samples.
//!
//! 1. Time never goes backwards. It is never below the `now` stored with the last batch, nor below
//!    a time that was already returned.
//! 2. While the authority is behind, time advances at monotonic speed from the greatest known
//!    value.
//!
//! Samples come through the process's [`JumpGuard`](crate::JumpGuard), which holds back long forward jumps.

use crate::Timestamp;

/// Turns samples of the authority and of a monotonic clock into `now`.
#[derive(Debug, Clone)]
pub struct Clock {
    /// `now` at `anchor_ms` of the monotonic clock.
    now: Timestamp,
    anchor_ms: u64,
}

impl Clock {
    /// Starts at `authority`, but not below `floor`, the `now` of the last stored batch.
    pub fn new(floor: Timestamp, authority: Timestamp, monotonic_ms: u64) -> Clock {
        Clock { now: floor.max(authority), anchor_ms: monotonic_ms }
    }

    /// Returns the time at `monotonic_ms`.
    pub fn now(&self, monotonic_ms: u64) -> Timestamp {
        self.now.after(monotonic_ms.saturating_sub(self.anchor_ms))
    }

    /// Records that the authority read `authority` at `monotonic_ms`. A later time is followed at
    /// once. After an earlier time, the clock runs on until the authority has caught up.
    pub fn sample(&mut self, authority: Timestamp, monotonic_ms: u64) {
        let carried = self.now(monotonic_ms);
        self.now = carried.max(authority);
        self.anchor_ms = monotonic_ms.max(self.anchor_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_back_is_waited_for_at_monotonic_speed() {
        let mut clock = Clock::new(Timestamp(5_000), Timestamp(1_000), 100);
        assert_eq!(clock.now(100), Timestamp(5_000));
        assert_eq!(clock.now(400), Timestamp(5_300));
        clock.sample(Timestamp(2_000), 1_100);
        assert_eq!(clock.now(1_100), Timestamp(6_000));
    }

    #[test]
    fn a_clock_that_jumps_ahead_is_followed() {
        let mut clock = Clock::new(Timestamp(0), Timestamp(1_000), 0);
        clock.sample(Timestamp(90_000), 500);
        assert_eq!(clock.now(600), Timestamp(90_100));
    }
}
