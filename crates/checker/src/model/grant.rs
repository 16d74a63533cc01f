//! Leases as they are given: I9, I10, I14, I18, I19, I29, I49, I50, and of I2 and I23 that there is a
//! message and that it is for this group.

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
            self.breaks(NoPhantom, entry, format_args!("is granted and not stored"));
            return;
        };
        self.not_paused(entry);
        self.fenced(entry, granted.lease.attempt);
        self.timed(entry, &message);
        self.limited(entry, granted.spent, &message);
        let attempt = granted.lease.attempt;
        let state = &mut self.entries[entry];
        // The model follows the history, but never says less was given back than was.
        state.attempt = attempt.max(state.returned);
        let lease = State::Leased { until: granted.until, consumer: granted.consumer };
        self.becomes(entry, lease);
        self.crowded(entry, granted);
        self.progressed(self.timeline.places.cursor_of(entry));
    }

    /// The attempt follows the last one, and the last one is over.
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
                    format_args!("is granted while attempt {last} is leased"),
                );
                return;
            }
            State::Acked | State::Dead { .. } | State::Passed => {
                self.breaks(OneEnd, entry, format_args!("is granted after its end"));
                return;
            }
            State::Waiting { .. } => {}
        }
        if last > 0 && attempt <= last {
            self.breaks(AttemptsGrow, entry, format_args!("is granted as {attempt} after {last}"));
        } else if Some(attempt) != last.checked_add(1) {
            self.breaks(
                AttemptsCounted,
                entry,
                format_args!("is granted as {attempt} after {last}"),
            );
        }
    }

    /// Not before it is due, not afresh after its deadline.
    fn timed(&mut self, entry: EntryId, message: &Message<'_>) {
        let now = self.now;
        match self.entries[entry].state {
            State::Waiting { due, .. } if now < due => {
                self.breaks(NotBefore, entry, format_args!("is granted at {now} and due at {due}"));
            }
            State::Fresh => {
                if let Some(deadline) = message.put.stored.deadline.filter(|at| *at <= now) {
                    let detail = format_args!("is granted at {now}, its deadline was {deadline}");
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

    /// As often as allowed, counted right, and to the right group.
    fn limited(&mut self, entry: EntryId, spent: u32, message: &Message<'_>) {
        let expected = self.entries[entry].spent().saturating_add(1);
        if spent != expected {
            let detail = format_args!("is granted with spent {spent}, it should be {expected}");
            self.breaks(AttemptsCounted, entry, detail);
        }
        let stored = message.put.stored;
        let state = self.entries[entry];
        let limit = match state.state {
            // A limit that was lowered since takes no attempt back.
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
            self.breaks(MaxAttempts, entry, format_args!("is granted {spent} times of {max}"));
        }
        let group = self.timeline.places.group_of(self.timeline.places.cursor_of(entry));
        if message.put.for_group.is_some_and(|only| only != group) {
            self.breaks(RedrivenOnce, entry, format_args!("is granted and is for another group"));
        }
    }

    /// Partition and consumer have room.
    fn crowded(&mut self, entry: EntryId, granted: &Granted) {
        let leased = self.cursors[self.timeline.places.cursor_of(entry)].leased;
        let max = granted.max_in_flight;
        if leased > u64::from(max) {
            self.breaks(InFlightLimit, entry, format_args!("is lease {leased} of at most {max}"));
        }
        let held = self.consumers.get(&granted.consumer).copied().unwrap_or(0);
        let (consumer, credit) = (granted.consumer, granted.credit);
        if held > u64::from(credit) {
            let detail =
                format_args!("is lease {held} of consumer {consumer} with credit {credit}");
            self.breaks(InFlightLimit, entry, detail);
        }
    }
}
