//! Checks grants: `AttemptsGrow`, `OneLease`, `OneEnd`, `AttemptsCounted`, `MaxAttempts`,
//! `InFlightLimit`, `NotBefore` and `Deadline`, of `NoPhantom` that the message exists, and of
//! `RedrivenOnce` that it is for this group.

use crate::history::Granted;
use crate::ids::EntryId;
use crate::invariant::Invariant::{
    AttemptsCounted, AttemptsGrow, Deadline, InFlightLimit, MaxAttempts, NoPhantom, NotBefore,
    OneEnd, OneLease, RedrivenOnce,
};

use super::state::{Message, Model, State};

impl Model<'_, '_> {
    pub(super) fn granted(&mut self, entry: EntryId, granted: &Granted) {
        if !self.is_current(entry) {
            return;
        }
        let Some(message) = self.message_of(entry) else {
            self.breaks(NoPhantom, entry, format_args!("was granted but is not stored"));
            return;
        };
        self.not_paused(entry);
        self.fenced(entry, granted.lease.attempt);
        self.timed(entry, &message);
        self.limited(entry, granted.spent, &message);
        let attempt = granted.lease.attempt;
        let state = &mut self.entries[entry];
        // The model follows the history, but the attempt is never below the number of returned
        // ones.
        state.attempt = attempt.max(state.returned);
        let lease = State::Leased { until: granted.until, consumer: granted.consumer };
        self.becomes(entry, lease);
        self.crowded(entry, granted);
        self.was_granted(entry, granted.consumer);
        self.progressed(self.timeline.places.cursor_of(entry));
    }

    /// Checks that the attempt follows the last one, and that the last one has ended.
    fn fenced(&mut self, entry: EntryId, attempt: u32) {
        let state = self.entries[entry];
        let last = state.attempt;
        match state.state {
            State::Fresh => {
                self.goes_on(entry);
                let cursor = self.timeline.places.cursor_of(entry);
                self.cursors[cursor].granted.push(entry);
            }
            State::Leased { .. } => {
                self.breaks(
                    OneLease,
                    entry,
                    format_args!("was granted while attempt {last} is leased"),
                );
                return;
            }
            State::Acked | State::Dead { .. } | State::Passed => {
                self.breaks(OneEnd, entry, format_args!("was granted after it was settled"));
                return;
            }
            State::Waiting { .. } => {}
        }
        if last > 0 && attempt <= last {
            self.breaks(
                AttemptsGrow,
                entry,
                format_args!("was granted as attempt {attempt} after attempt {last}"),
            );
        } else if Some(attempt) != last.checked_add(1) {
            self.breaks(
                AttemptsCounted,
                entry,
                format_args!("was granted as attempt {attempt} after attempt {last}"),
            );
        }
    }

    /// Checks that it is due, and on the first grant that its deadline has not passed.
    fn timed(&mut self, entry: EntryId, message: &Message<'_>) {
        let now = self.now;
        match self.entries[entry].state {
            State::Waiting { due, .. } if now < due => {
                self.breaks(
                    NotBefore,
                    entry,
                    format_args!("was granted at {now}, but it is due at {due}"),
                );
            }
            State::Fresh => {
                if let Some(deadline) = message.put.stored.deadline.filter(|at| *at <= now) {
                    let detail = format_args!(
                        "was granted for the first time at {now}, but its deadline was {deadline}"
                    );
                    self.breaks(Deadline, entry, detail);
                }
            }
            State::Waiting { .. }
            | State::Leased { .. }
            | State::Acked
            | State::Dead { .. }
            | State::Passed => {}
        }
    }

    /// Checks the attempt limit, the number of counted attempts, and the group.
    fn limited(&mut self, entry: EntryId, spent: u32, message: &Message<'_>) {
        let expected = self.entries[entry].spent().saturating_add(1);
        if spent != expected {
            let detail = format_args!("was granted with spent {spent}, expected {expected}");
            self.breaks(AttemptsCounted, entry, detail);
        }
        let stored = message.put.stored;
        let state = self.entries[entry];
        let limit = match state.state {
            // A limit that was lowered after the last failure does not revoke the next attempt.
            State::Waiting { .. } => state.limit,
            State::Fresh
            | State::Leased { .. }
            | State::Acked
            | State::Dead { .. }
            | State::Passed => self.retry_of(message).max_attempts,
        };
        if let Some(max) = limit
            && spent > max
            && !stored.dead_letter
        {
            self.breaks(
                MaxAttempts,
                entry,
                format_args!("was granted {spent} times, but max_attempts is {max}"),
            );
        }
        let group = self.timeline.places.group_of(self.timeline.places.cursor_of(entry));
        if message.put.for_group.is_some_and(|only| only != group) {
            self.breaks(
                RedrivenOnce,
                entry,
                format_args!("was granted, but it is for another group"),
            );
        }
    }

    /// Checks the limits of the partition and of the consumer.
    fn crowded(&mut self, entry: EntryId, granted: &Granted) {
        let leased = self.cursors[self.timeline.places.cursor_of(entry)].leased;
        let max = granted.max_in_flight;
        if leased > u64::from(max) {
            self.breaks(
                InFlightLimit,
                entry,
                format_args!("is lease {leased} of its partition, but max_in_flight is {max}"),
            );
        }
        let held = self.leases_of(granted.consumer);
        let (consumer, credit) = (granted.consumer, granted.credit);
        if held > u64::from(credit) {
            let detail = format_args!(
                "is lease {held} of consumer {consumer}, but its prefetch is {credit}"
            );
            self.breaks(InFlightLimit, entry, detail);
        }
    }
}
