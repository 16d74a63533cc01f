//! Points in time. The core never asks what time it is: `now` comes in with the command.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, by the authority clock.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Later than everything.
    pub const MAX: Timestamp = Timestamp(crate::id::NUMBER_MAX);

    /// The time `ms` milliseconds later.
    pub fn after(self, ms: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(ms)).min(Timestamp::MAX)
    }

    /// Milliseconds from `earlier` to this time; 0 if it is not earlier.
    pub fn since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}s", self.0 / 1000, self.0 % 1000)
    }
}
