//! Checks how leases are renewed and end: `OneLease`, `AckSettlesOne`, `OneEnd`,
//! `NoEarlyRedelivery` and `Backoff`.

use crate::history::How;
use crate::ids::EntryId;
use crate::invariant::Invariant::{AckSettlesOne, Backoff, NoEarlyRedelivery, OneEnd, OneLease};

use super::state::{Model, State};
use crate::timeline::{Batch, Step};

impl Model<'_, '_> {
    pub(super) fn extended(&mut self, entry: EntryId, attempt: u32, until: u64) {
        if !self.is_current(entry) {
            return;
        }
        let entry_state = &mut self.entries[entry];
        match &mut entry_state.state {
            State::Leased { until: end, .. } if entry_state.attempt == attempt => *end = until,
            State::Fresh
            | State::Leased { .. }
            | State::Waiting { .. }
            | State::Acked
            | State::Dead { .. }
            | State::Passed => {
                let detail = format_args!("had attempt {attempt} renewed, which is not leased");
                self.breaks(OneLease, entry, detail);
            }
        }
    }

    pub(super) fn ended(&mut self, entry: EntryId, attempt: u32, how: How) {
        if !self.is_current(entry) || !self.may_end(entry, attempt, how) {
            return;
        }
        self.reasoned(entry, how);
        if let How::Nacked { .. } | How::Expired { .. } = how {
            let retry = self.message_of(entry).map(|message| self.retry_of(&message));
            self.entries[entry].limit = retry.and_then(|retry| retry.max_attempts);
        }
        match how {
            How::Acked => self.becomes(entry, State::Acked),
            How::Purged => {
                self.purged(entry);
                self.becomes(entry, State::Acked);
            }
            How::Nacked { due, asked } => {
                self.backed_off(entry, due, asked);
                self.becomes(entry, State::Waiting { due, is_expired: false });
            }
            How::Expired { due } => {
                self.backed_off(entry, due, false);
                self.becomes(entry, State::Waiting { due, is_expired: true });
            }
            How::Returned { due } => {
                self.entries[entry].returned += 1;
                self.becomes(entry, State::Waiting { due, is_expired: false });
            }
            How::Dead { asked } => {
                self.ended_as_dead.push(entry);
                self.becomes(entry, State::Dead { is_asked: asked, seq: self.seq });
            }
        }
    }

    /// Checks that the lease is open, or that it has expired and was not granted again, or that its
    /// message is dead-lettered while it waits.
    fn may_end(&mut self, entry: EntryId, attempt: u32, how: How) -> bool {
        let state = self.entries[entry];
        let last = state.attempt;
        let is_open = match state.state {
            State::Leased { .. } => true,
            State::Waiting { is_expired, .. } => match how {
                How::Acked | How::Nacked { .. } | How::Dead { asked: true } => is_expired,
                How::Dead { asked: false } | How::Purged => true,
                How::Expired { .. } | How::Returned { .. } => false,
            },
            State::Fresh => false,
            State::Acked | State::Dead { .. } | State::Passed => {
                let detail =
                    format_args!("had attempt {attempt} ended as {how:?} after it was settled");
                self.breaks(OneEnd, entry, detail);
                return false;
            }
        };
        if !is_open || attempt != last {
            let detail = format_args!(
                "had attempt {attempt} ended as {how:?}, but the last attempt is {last} and is {}open",
                if is_open { "" } else { "not " }
            );
            self.breaks(OneLease, entry, detail);
            return false;
        }
        true
    }

    /// Checks that a client requested the end, or that its time has come.
    fn reasoned(&mut self, entry: EntryId, how: How) {
        let now = self.now;
        let is_early = match self.entries[entry].state {
            State::Leased { until, .. } => now < until,
            State::Fresh
            | State::Waiting { .. }
            | State::Acked
            | State::Dead { .. }
            | State::Passed => false,
        };
        match how {
            How::Acked if !self.was_asked(entry, |asked| asked.ack) => {
                self.breaks(
                    AckSettlesOne,
                    entry,
                    format_args!("was acked, but no client acked it"),
                );
            }
            How::Expired { .. } if is_early => {
                self.breaks(
                    NoEarlyRedelivery,
                    entry,
                    format_args!("expired at {now}, before the end of its lease"),
                );
            }
            // A dead letter is never dead-lettered again: after a final nack it is retried.
            How::Nacked { .. }
                if self.is_dead_letter(entry) && self.was_asked(entry, |asked| asked.last) => {}
            How::Nacked { .. } if !self.was_asked(entry, |asked| asked.nack) => {
                self.breaks(
                    NoEarlyRedelivery,
                    entry,
                    format_args!("was nacked, but no client nacked it"),
                );
            }
            How::Dead { asked: false }
                if is_early && !self.was_asked(entry, |asked| asked.nack) =>
            {
                self.breaks(
                    NoEarlyRedelivery,
                    entry,
                    format_args!("was dead-lettered at {now}, before the end of its lease"),
                );
            }
            How::Acked
            | How::Nacked { .. }
            | How::Expired { .. }
            | How::Returned { .. }
            | How::Purged
            | How::Dead { .. } => {}
        }
    }

    /// Checks that an effect begun under the entry is resolved in the same batch.
    pub(super) fn wait_ended(&mut self, batch: &Batch, entry: EntryId, attempt: u32, due: u64) {
        if !self.is_current(entry) {
            return;
        }
        let is_resolved = self.timeline.steps_of(batch).iter().any(|step| {
            matches!(*step, Step::Recorded { under, record, .. } if under == Some(entry) && record.resolved)
        });
        let (state, now) = (self.entries[entry], self.now);
        match state.state {
            State::Waiting { is_expired, .. }
                if is_resolved && due == now && state.attempt == attempt =>
            {
                self.becomes(entry, State::Waiting { due, is_expired });
            }
            State::Fresh
            | State::Leased { .. }
            | State::Waiting { .. }
            | State::Acked
            | State::Dead { .. }
            | State::Passed => {
                let detail = format_args!(
                    "had the wait after attempt {attempt} ended at {now}, due at {due}, but it does not wait, or no effect of it was resolved"
                );
                self.breaks(Backoff, entry, detail);
            }
        }
    }

    fn is_dead_letter(&self, entry: EntryId) -> bool {
        self.message_of(entry).is_some_and(|message| message.put.stored.dead_letter)
    }

    /// Checks that the backoff is the one given by the worker or by the policy. A nack after the
    /// lease expired may leave the backoff unchanged.
    fn backed_off(&mut self, entry: EntryId, due: u64, asked: bool) {
        let state = self.entries[entry];
        if matches!(state.state, State::Waiting { due: former, .. } if former == due) {
            return;
        }
        let now = self.now;
        let Some(wait) = due.checked_sub(now) else {
            self.breaks(Backoff, entry, format_args!("is due at {due}, before {now}"));
            return;
        };
        let Some(message) = self.message_of(entry).filter(|_| !asked) else {
            return;
        };
        let (stored, retry) = (message.put.stored, self.retry_of(&message));
        let doublings = state.spent().saturating_sub(1);
        let doubled = 1u64.checked_shl(doublings).unwrap_or(u64::MAX);
        let longest = retry.max_backoff_ms;
        let cap = retry.backoff_ms.saturating_mul(doubled).min(longest);
        let cap_max = if stored.dead_letter { longest } else { cap };
        if wait < cap / 10 || wait > cap_max {
            let detail = format_args!(
                "waits {wait} ms; the backoff must be between {} and {cap_max} ms",
                cap / 10
            );
            self.breaks(Backoff, entry, detail);
        }
    }
}
