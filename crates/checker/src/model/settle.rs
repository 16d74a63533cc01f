//! Leases as they are renewed and as they end: I10, I13, I14, I15, I16.

use crate::history::How;
use crate::ids::EntryId;
use crate::invariant::Invariant::{AckSettlesOne, Backoff, NoEarlyRedelivery, OneEnd, OneLease};

use super::state::{Model, State};

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
                let detail = format_args!("has attempt {attempt} renewed, which is not leased");
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

    /// The lease is open, or has run out and nobody else has it, or its message dies while it waits.
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
                let detail = format_args!("ends attempt {attempt} as {how:?} after its end");
                self.breaks(OneEnd, entry, detail);
                return false;
            }
        };
        if !is_open || attempt != last {
            let detail = format_args!(
                "ends attempt {attempt} as {how:?}, the last is {last} and {}open",
                if is_open { "" } else { "not " }
            );
            self.breaks(OneLease, entry, detail);
            return false;
        }
        true
    }

    /// Somebody asked for it, or the time has come.
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
                self.breaks(AckSettlesOne, entry, format_args!("is acked, and nobody acked it"));
            }
            How::Expired { .. } if is_early => {
                self.breaks(
                    NoEarlyRedelivery,
                    entry,
                    format_args!("expires at {now}, before its time"),
                );
            }
            // There is no dead letter of a dead letter: one that failed for good is tried again.
            How::Nacked { .. }
                if self.is_dead_letter(entry) && self.was_asked(entry, |asked| asked.last) => {}
            How::Nacked { .. } if !self.was_asked(entry, |asked| asked.nack) => {
                self.breaks(
                    NoEarlyRedelivery,
                    entry,
                    format_args!("is nacked, and nobody nacked it"),
                );
            }
            How::Dead { asked: false }
                if is_early && !self.was_asked(entry, |asked| asked.nack) =>
            {
                self.breaks(
                    NoEarlyRedelivery,
                    entry,
                    format_args!("dies at {now}, before its time"),
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

    fn is_dead_letter(&self, entry: EntryId) -> bool {
        self.message_of(entry).is_some_and(|message| message.put.stored.dead_letter)
    }

    /// The wait is what the worker or the policy says. A nack that comes after the lease ran out may
    /// leave the wait as it is.
    fn backed_off(&mut self, entry: EntryId, due: u64, asked: bool) {
        let state = self.entries[entry];
        if matches!(state.state, State::Waiting { due: former, .. } if former == due) {
            return;
        }
        let now = self.now;
        let Some(wait) = due.checked_sub(now) else {
            self.breaks(Backoff, entry, format_args!("is due at {due}, and it is {now}"));
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
            let detail = format_args!("waits {wait} ms, not {} to {cap_max}", cap / 10);
            self.breaks(Backoff, entry, detail);
        }
    }
}
