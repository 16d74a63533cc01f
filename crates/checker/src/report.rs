//! What the checker has to say.

use std::fmt;

use crate::invariant::Invariant;

/// How many violations of one invariant are kept: the first ones show the cause.
const KEPT_MAX: usize = 100;

/// The judgement on one history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What is broken, in order of `seq`, then of invariant.
    pub violations: Vec<Violation>,
    /// How many more violations there were than are listed.
    pub left_out: u64,
    /// How much there was to judge.
    pub counts: Counts,
}

impl Report {
    /// Nothing is broken.
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

/// One broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub invariant: Invariant,
    /// The event at which it shows.
    pub seq: u64,
    /// What was seen, in words.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.invariant, self.seq, self.detail)
    }
}

/// How much there was to judge: a run in which nothing happened proves nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events read.
    pub events: u64,
    /// Calls that were answered as done.
    pub done: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Calls of which nobody knows.
    pub unknown: u64,
    /// Deliveries that were read.
    pub delivered: u64,
    /// Faults injected.
    pub faults: u64,
    /// Batches committed.
    pub batches: u64,
    /// Facts in them.
    pub facts: u64,
    /// Messages stored.
    pub stored: u64,
    /// Produces that found their key taken.
    pub deduplicated: u64,
    /// Leases granted.
    pub granted: u64,
    /// Leases that ended in an ack.
    pub acked: u64,
    /// Leases that ended in a nack.
    pub nacked: u64,
    /// Leases that ran out.
    pub expired: u64,
    /// Leases that were given back.
    pub returned: u64,
    /// Messages that died in a group.
    pub died: u64,
    /// Dead letters that were sent again.
    pub redriven: u64,
    /// Dead letters that were deleted.
    pub dropped: u64,
    /// Pointers that were set.
    pub pointed: u64,
    /// Cursors that were moved.
    pub moved: u64,
    /// Changes of effects.
    pub recorded: u64,
    /// Commits of deliveries with what follows.
    pub committed: u64,
    /// Messages that went to another shard.
    pub sent: u64,
    /// Times that some of them arrived.
    pub arrived: u64,
}

/// Violations while they are being found, in whatever order the judges come by them.
#[derive(Default)]
pub(crate) struct Findings {
    violations: Vec<Violation>,
}

impl Findings {
    /// Puts a violation on record.
    pub(crate) fn add(&mut self, invariant: Invariant, seq: u64, detail: fmt::Arguments<'_>) {
        self.violations.push(Violation { invariant, seq, detail: detail.to_string() });
    }

    /// The judgement.
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
