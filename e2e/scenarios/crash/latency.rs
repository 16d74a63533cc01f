//! Latencies by kind.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The durations of each kind.
#[derive(Default)]
pub(crate) struct Times(BTreeMap<String, Vec<Duration>>);

impl Times {
    pub(crate) fn add(&mut self, kind: impl fmt::Debug, took: Duration) {
        self.0.entry(format!("{kind:?}")).or_default().push(took);
    }

    pub(crate) fn merge(&mut self, other: Times) {
        for (kind, times) in other.0 {
            self.0.entry(kind).or_default().extend(times);
        }
    }

    /// Number of durations over all kinds.
    pub(crate) fn count(&self) -> u64 {
        self.0.values().map(|times| times.len() as u64).sum()
    }

    /// The 99th percentile over all kinds.
    pub(crate) fn p99(&self) -> Duration {
        Summary::of(self.0.values().flatten()).p99
    }

    /// Whether 99 of 100 are below `bar`. Of fewer than 200, one may exceed it, because a
    /// one-in-a-hundred event can occur in any ten.
    pub(crate) fn are_within(&self, bar: Duration) -> bool {
        let late = self.0.values().flatten().filter(|took| **took >= bar).count() as u64;
        late <= (self.count() / 100).max(1)
    }

    /// One line for each kind.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(kind, times)| format!("{kind} {}: {}", times.len(), Summary::of(times)))
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Summary::of(self.0.values().flatten()).fmt(f)
    }
}

struct Summary {
    p50: Duration,
    p99: Duration,
    max: Duration,
}

impl Summary {
    fn of<'a>(times: impl IntoIterator<Item = &'a Duration>) -> Summary {
        let mut sorted: Vec<Duration> = times.into_iter().copied().collect();
        sorted.sort_unstable();
        // The smallest value that `percent` of all values do not exceed.
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100);
            sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        Summary { p50: at(50), p99: at(99), max: at(100) }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { p50, p99, max } = self;
        write!(
            f,
            "p50 {} ms, p99 {} ms, max {} ms",
            p50.as_millis(),
            p99.as_millis(),
            max.as_millis()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_hundred_the_last_but_one_is_p99() {
        let mut times = Times::default();
        (1..=100).for_each(|ms| times.add("kill", Duration::from_millis(ms)));
        assert_eq!(times.to_string(), "p50 50 ms, p99 99 ms, max 100 ms");
        times.add("pause", Duration::from_millis(500));
        assert_eq!(times.to_string(), "p50 51 ms, p99 100 ms, max 500 ms");
        assert!(times.are_within(Duration::from_millis(101)));
        assert!(!times.are_within(Duration::from_millis(100)));
        let lines: Vec<_> = times.lines().collect();
        assert_eq!(lines[1], "\"pause\" 1: p50 500 ms, p99 500 ms, max 500 ms");
    }
}
