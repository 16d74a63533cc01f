//! Chores: retention, idle groups, garbage, unused names. Each does a bounded amount of work per
//! commit.
//!
//! Chores are decided one at a time, like commands, and each sees the changes of the one before.
//! Decided together, a chore would write back rows that another one has just changed.

use crate::change::{Change, Chore, Decision, Garbage};
use crate::limits::OWNERS_FORGOTTEN_MAX;
use crate::shard::{Shard, done};
use crate::time::Timestamp;

/// Chores per commit.
const CHORES_MAX: usize = 8;
/// A chore that needs reads is rescheduled when it is decided. If it is never decided, it runs
/// again after this time.
const CHORE_RETRY_MS: u64 = 30_000;
/// Pieces of garbage per commit.
const GARBAGE_MAX: usize = 4;

/// One step of maintenance that needs no rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MaintenanceStep {
    /// A chore that is due.
    Chore(Chore),
    /// A step through a topic that was deleted.
    Sweep(u64),
    /// Deletion of owner names that are no longer used.
    Owners,
}

impl Shard {
    /// Returns the steps that are due, in order. The caller decides each with [`Shard::maintain`]
    /// and applies it before the next.
    pub(crate) fn upkeep(&self, now: Timestamp) -> Vec<MaintenanceStep> {
        let due = self.volatile.chores_due.iter().take_while(|(at, ..)| *at <= now);
        // The others need reads and are returned by [`Shard::chores_with_reads`].
        let due = due
            .map(|(_, chore)| *chore)
            .filter(|chore| matches!(chore, Chore::Retain { .. } | Chore::Idle(_)));
        let mut upkeep: Vec<MaintenanceStep> =
            due.take(CHORES_MAX).map(MaintenanceStep::Chore).collect();
        upkeep.extend(self.deleted_topics().take(GARBAGE_MAX).map(MaintenanceStep::Sweep));
        upkeep.extend((!self.owners.unused.is_empty()).then_some(MaintenanceStep::Owners));
        upkeep
    }

    /// Decides one step.
    pub(crate) fn maintain(&self, now: Timestamp, upkeep: MaintenanceStep) -> Decision {
        let mut decision = done();
        match upkeep {
            MaintenanceStep::Chore(Chore::Retain { topic, lane }) => {
                let (changes, note) = self.retain(now, topic, lane);
                (decision.changes, decision.volatile) = (changes, vec![note]);
            }
            MaintenanceStep::Chore(Chore::Idle(group)) => {
                let (changes, note) = self.check_idle(now, group);
                (decision.changes, decision.volatile) = (changes, vec![note]);
            }
            MaintenanceStep::Chore(
                Chore::ExpireDeadLetters { .. }
                | Chore::Send { .. }
                | Chore::ExpireRecords
                | Chore::Sweep(_)
                | Chore::Deadline { .. },
            ) => {}
            MaintenanceStep::Sweep(id) => decision = self.sweep_topic(id),
            MaintenanceStep::Owners => {
                let unused = self.owners.unused.iter().take(OWNERS_FORGOTTEN_MAX);
                decision.changes.extend(unused.map(|owner| Change::OwnerGone(*owner)));
            }
        }
        decision
    }

    /// Returns the due chores that need reads. Each is rescheduled when it is decided.
    pub(crate) fn chores_with_reads(&mut self, now: Timestamp) -> Vec<Chore> {
        let due = self.volatile.chores_due.iter().take_while(|(at, _)| *at <= now);
        let due = due.map(|(_, chore)| *chore);
        let due = due.filter(|chore| !matches!(chore, Chore::Retain { .. } | Chore::Idle(_)));
        let due: Vec<Chore> = due.take(CHORES_MAX).collect();
        for chore in &due {
            // Rescheduled, not removed, so that it is not scheduled a second time while it waits
            // for its rows.
            self.set_chore(*chore, Some(now.after(CHORE_RETRY_MS)));
        }
        due
    }

    /// Garbage that needs no reads.
    fn deleted_topics(&self) -> impl Iterator<Item = u64> + '_ {
        let topics = self.garbage.iter();
        topics.filter(|(_, of)| !matches!(of, Garbage::Cursor { .. })).map(|(id, _)| *id)
    }

    /// Whether [`Shard::upkeep`] has anything at `now`.
    pub(crate) fn has_chores(&self, now: Timestamp) -> bool {
        self.deleted_topics().next().is_some()
            || !self.owners.unused.is_empty()
            || self.volatile.chores_due.first().is_some_and(|(at, ..)| *at <= now)
    }
}
