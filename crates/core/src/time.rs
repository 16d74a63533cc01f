//! Points in time. The core never reads a clock: `now` is passed in with the command.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, by the authority clock.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The latest time.
    pub const MAX: Timestamp = Timestamp(crate::id::NUMBER_MAX);

    /// Returns the time `ms` milliseconds later.
    pub fn after(self, ms: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(ms)).min(Timestamp::MAX)
    }

    /// Returns the milliseconds from `earlier` to this time; 0 if it is not earlier.
    pub fn since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}s", self.0 / 1000, self.0 % 1000)
    }
}

/// Formats a duration for people.
pub(crate) fn span(ms: u64) -> String {
    const SECOND: u64 = 1_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match ms {
        ..SECOND => format!("{ms} ms"),
        SECOND..MINUTE => format!("{}.{} s", ms / SECOND, ms % SECOND / 100),
        MINUTE..HOUR => format!("{} min", ms / MINUTE),
        HOUR..DAY => format!("{}.{} h", ms / HOUR, ms % HOUR * 10 / HOUR),
        DAY.. => format!("{} d", ms / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn a_span_is_told_in_the_unit_that_fits() {
        let told =
            [0, 999, 1_000, 3_250, 59_999, 60_000, 3_599_999, 3_600_000, 9_000_000, 86_400_000];
        let words = [
            "0 ms", "999 ms", "1.0 s", "3.2 s", "59.9 s", "1 min", "59 min", "1.0 h", "2.5 h",
            "1 d",
        ];
        assert_eq!(told.map(span), words.map(String::from));
    }
}
