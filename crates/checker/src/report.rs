//! The report of a check.

use std::fmt;

use crate::invariant::Invariant;

/// Maximum number of violations kept per invariant. The first ones show the cause.
const KEPT_MAX: usize = 100;

/// The result of checking one history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The violations, ordered by `seq`, then by invariant.
    pub violations: Vec<Violation>,
    /// Number of violations that were found but are not listed.
    pub left_out: u64,
    /// How much was checked.
    pub counts: Counts,
}

impl Report {
    /// Whether no invariant is broken.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        if self.left_out > 0 {
            writeln!(f, "and {} more", self.left_out)?;
        }
        write!(f, "{} violations in {} events", self.violations.len(), self.counts.events)
    }
}

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The broken invariant.
    pub invariant: Invariant,
    /// The event at which the violation shows.
    pub seq: u64,
    /// A description of the violation.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.invariant, self.seq, self.detail)
    }
}

/// How much was checked. A run in which nothing happened proves nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events read.
    pub events: u64,
    /// Calls that succeeded.
    pub done: u64,
    /// Calls that were rejected.
    pub refused: u64,
    /// Calls with an unknown outcome.
    pub unknown: u64,
    /// Deliveries that consumers read.
    pub delivered: u64,
    /// Faults injected.
    pub faults: u64,
    /// Batches committed.
    pub batches: u64,
    /// Facts in the committed batches.
    pub facts: u64,
    /// Messages stored.
    pub stored: u64,
    /// Produces that were deduplicated.
    pub deduplicated: u64,
    /// Leases granted.
    pub granted: u64,
    /// Leases that ended in an ack.
    pub acked: u64,
    /// Leases that ended in a nack.
    pub nacked: u64,
    /// Leases that expired.
    pub expired: u64,
    /// Leases that were given back.
    pub returned: u64,
    /// Messages that died in a group.
    pub died: u64,
    /// Dead letters that were redriven.
    pub redriven: u64,
    /// Dead letters that were deleted.
    pub dropped: u64,
    /// Pointers that were set.
    pub pointed: u64,
    /// Cursors that were moved.
    pub moved: u64,
    /// Changes of ledger effects.
    pub recorded: u64,
    /// Commits of deliveries.
    pub committed: u64,
    /// Messages sent to another shard.
    pub sent: u64,
    /// `Arrived` facts.
    pub arrived: u64,
}

/// Collects violations, in any order.
#[derive(Default)]
pub(crate) struct Findings {
    violations: Vec<Violation>,
}

impl Findings {
    /// Records a violation.
    pub(crate) fn add(&mut self, invariant: Invariant, seq: u64, detail: fmt::Arguments<'_>) {
        self.violations.push(Violation { invariant, seq, detail: detail.to_string() });
    }

    /// Sorts, deduplicates and limits the violations.
    pub(crate) fn into_report(mut self, counts: Counts) -> Report {
        self.violations
            .sort_by(|a, b| (a.seq, a.invariant, &a.detail).cmp(&(b.seq, b.invariant, &b.detail)));
        self.violations.dedup();
        let n_found = self.violations.len();
        let mut kept = [0; Invariant::ALL.len()];
        self.violations.retain(|violation| {
            let n_kept = &mut kept[violation.invariant as usize];
            *n_kept += 1;
            *n_kept <= KEPT_MAX
        });
        let left_out = (n_found - self.violations.len()) as u64;
        Report { violations: self.violations, left_out, counts }
    }
}
