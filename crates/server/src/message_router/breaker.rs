//! The circuit breaker of the router hook: while the hook fails, messages do not wait for it.
//!
//! After [`FAILURES_MAX`] failures in a row the breaker opens, and calls fail at once. Then one call is
//! tried from time to time. Its success closes the breaker.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures in a row that open the breaker.
const FAILURES_MAX: u32 = 5;
/// Time to the first trial. It doubles with each trial that fails.
const OPEN_MIN: Duration = Duration::from_secs(1);
const OPEN_MAX: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Breaker(Mutex<State>);

enum State {
    Closed { failures: u32 },
    Open { trials: u32, next_trial: Instant },
}

impl Default for State {
    fn default() -> State {
        State::Closed { failures: 0 }
    }
}

/// The right to call the hook.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Permit {
    Call,
    /// The only call while the breaker is open.
    Trial,
}

fn time_to_next(trials: u32) -> Duration {
    OPEN_MIN.saturating_mul(1 << trials.min(10)).min(OPEN_MAX)
}

impl Breaker {
    /// Permits a call, unless the breaker is open.
    pub(super) fn permit(&self, now: Instant) -> Option<Permit> {
        match &mut *self.state() {
            State::Closed { .. } => Some(Permit::Call),
            State::Open { trials, next_trial } => (now >= *next_trial).then(|| {
                // Counted now, because the request that makes the trial may be dropped.
                *next_trial = now + time_to_next(*trials);
                *trials += 1;
                Permit::Trial
            }),
        }
    }

    /// Records a success. Returns whether it closed the breaker.
    pub(super) fn succeeded(&self) -> bool {
        let before = std::mem::take(&mut *self.state());
        matches!(before, State::Open { .. })
    }

    /// Records a failure. Returns whether it opened the breaker.
    pub(super) fn failed(&self, now: Instant) -> bool {
        let mut state = self.state();
        let State::Closed { failures } = &mut *state else { return false };
        *failures += 1;
        let opens = *failures >= FAILURES_MAX;
        if opens {
            *state = State::Open { trials: 1, next_trial: now + OPEN_MIN };
        }
        opens
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_only_then() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..4 {
            assert!(!breaker.failed(now));
        }
        assert!(!breaker.succeeded());
        for _ in 0..4 {
            assert!(!breaker.failed(now));
        }
        assert_eq!(breaker.permit(now), Some(Permit::Call));
        assert!(breaker.failed(now));
        assert_eq!(breaker.permit(now), None);
        assert!(!breaker.failed(now), "a call from before has no effect");
    }

    #[test]
    fn trials_are_single_and_become_rarer_until_one_succeeds() {
        let (breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..5 {
            breaker.failed(start);
        }
        let mut at = 1_000;
        for wait in [2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            assert_eq!(breaker.permit(after(start, at - 1)), None);
            assert_eq!(breaker.permit(after(start, at)), Some(Permit::Trial));
            assert_eq!(breaker.permit(after(start, at)), None);
            breaker.failed(after(start, at));
            at += wait;
        }
        assert!(breaker.succeeded());
        assert_eq!(breaker.permit(after(start, at)), Some(Permit::Call));
    }
}
