//! Chores: retention, idle groups, garbage, unused names. Each is bounded in a commit.
//!
//! Each chore is decided on what the one before it changed, like commands. Decided together, a chore would write
//! back rows that another one has just changed.

use crate::change::{Change, Chore, Decision, Garbage};
use crate::limits::OWNERS_FORGOTTEN_MAX;
use crate::shard::{Shard, done};
use crate::time::Timestamp;

/// Lanes and groups that one commit looks at.
const CHORES_MAX: usize = 8;
/// A chore that takes reads is planned anew when it is decided; should it never be, after this.
const ROWS_PATIENCE_MS: u64 = 30_000;
/// Pieces of garbage one commit works on.
const GARBAGE_MAX: usize = 4;

/// One step of maintenance that needs no rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Upkeep {
    /// A chore that is due.
    Chore(Chore),
    /// A step through a topic that was deleted.
    Sweep(u64),
    /// Names of consumers that are not used any more.
    Owners,
}

impl Shard {
    /// What is due, in order. Each is to be decided by [`Shard::maintain`] and taken before the next.
    pub(crate) fn upkeep(&self, now: Timestamp) -> Vec<Upkeep> {
        let due = self.volatile.chores_due.iter().take_while(|(at, ..)| *at <= now);
        // The others take reads: [`Shard::chores_with_reads`] sees to them.
        let due = due
            .map(|(_, chore)| *chore)
            .filter(|chore| matches!(chore, Chore::Retain { .. } | Chore::Idle(_)));
        let mut upkeep: Vec<Upkeep> = due.take(CHORES_MAX).map(Upkeep::Chore).collect();
        upkeep.extend(self.deleted_topics().take(GARBAGE_MAX).map(Upkeep::Sweep));
        upkeep.extend((!self.owners.unused.is_empty()).then_some(Upkeep::Owners));
        upkeep
    }

    /// Decides one step.
    pub(crate) fn maintain(&self, now: Timestamp, upkeep: Upkeep) -> Decision {
        let mut decision = done();
        match upkeep {
            Upkeep::Chore(Chore::Retain { topic, lane }) => {
                let (changes, note) = self.retain(now, topic, lane);
                (decision.changes, decision.volatile) = (changes, vec![note]);
            }
            Upkeep::Chore(Chore::Idle(group)) => {
                let (changes, note) = self.look_for_readers(now, group);
                (decision.changes, decision.volatile) = (changes, vec![note]);
            }
            Upkeep::Chore(
                Chore::ExpireDeadLetters { .. }
                | Chore::Send { .. }
                | Chore::ExpireRecords
                | Chore::Sweep(_)
                | Chore::Deadline { .. },
            ) => {}
            Upkeep::Sweep(id) => decision = self.sweep_topic(id),
            Upkeep::Owners => {
                let unused = self.owners.unused.iter().take(OWNERS_FORGOTTEN_MAX);
                decision.changes.extend(unused.map(|owner| Change::OwnerGone(*owner)));
            }
        }
        decision
    }

    /// Chores that are due and read rows. Each is planned anew when it is decided.
    pub(crate) fn chores_with_reads(&mut self, now: Timestamp) -> Vec<Chore> {
        let due = self.volatile.chores_due.iter().take_while(|(at, _)| *at <= now);
        let due = due.map(|(_, chore)| *chore);
        let due = due.filter(|chore| !matches!(chore, Chore::Retain { .. } | Chore::Idle(_)));
        let due: Vec<Chore> = due.take(CHORES_MAX).collect();
        for chore in &due {
            // Planned later, not forgotten: nobody plans it a second time while it waits for its rows.
            self.set_chore(*chore, Some(now.after(ROWS_PATIENCE_MS)));
        }
        due
    }

    /// Garbage that takes no reads.
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
