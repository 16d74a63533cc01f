//! Checks replies to settlements by token, on their own or in a commit: `StaleIsRejected`,
//! `AckIsFinal` and `IdempotentAck`.
//!
//! The evidence for an attempt is its grant if the history has commits, otherwise its delivery. The
//! same holds for the generation of a cursor. A settlement by owner name is not fenced and is not
//! checked.

use std::collections::BTreeSet;

use crate::history::{How, Verb};
use crate::ids::{CallId, Column, CursorId, EntryId};
use crate::invariant::Invariant::{AckIsFinal, IdempotentAck, StaleIsRejected};
use crate::report::Findings;
use crate::timeline::{Ask, Outcome, Seen, Settle, Step, Timeline};

/// A repeated ack succeeds for at least this long. The authority clock may jump that far.
const ACK_KEPT_MS: u64 = 12 * 3_600_000;

/// Checks every settlement by token.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let mut judge = Judge {
        timeline,
        findings,
        entries: timeline.places.entries.column(Known::default()),
        cursors: timeline.places.cursors.column(Some(0)),
        acks: Vec::new(),
        refused: BTreeSet::new(),
        latest: 0,
    };
    for moment in &timeline.moments {
        match moment.seen {
            Seen::Invoked(call) => judge.invoked(call),
            Seen::Answered(call) => judge.answered(call),
            Seen::Delivered { entry, delivery, .. } => {
                if !timeline.has_facts() {
                    judge.shown(moment.seq, entry, delivery.lease.attempt);
                }
            }
            Seen::Written { .. } | Seen::Left { .. } => {}
            Seen::Committed(batch) => {
                let batch = &timeline.batches[batch];
                judge.latest = judge.latest.max(batch.now);
                for step in timeline.steps_of(batch) {
                    judge.step(moment.seq, batch.now, step);
                }
            }
        }
    }
    judge.finish();
}

struct Judge<'s, 'a> {
    timeline: &'s Timeline<'a>,
    findings: &'s mut Findings,
    entries: Column<EntryId, Known>,
    /// The newest generation, or `None` if the topic or group was deleted.
    cursors: Column<CursorId, Option<u64>>,
    /// Acks that succeeded and were not stale when they were sent.
    acks: Vec<CallId>,
    /// Acks that repeat a successful ack and will be rejected.
    refused: BTreeSet<CallId>,
    /// The latest batch time.
    latest: u64,
}

/// The state of an entry so far. Attempts start at 1, so 0 means none.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The greatest attempt and the event that showed it.
    highest: u32,
    highest_seq: u64,
    /// The attempt that ended in an ack.
    acked: u32,
    /// The attempt whose ack was answered with success.
    ack_done: u32,
    /// The batch time of the ack.
    acked_at: u64,
}

impl Judge<'_, '_> {
    fn step(&mut self, seq: u64, now: u64, step: &Step<'_>) {
        let places = &self.timeline.places;
        match *step {
            Step::Granted { entry, granted } => {
                self.shown(seq, entry, granted.lease.attempt);
            }
            Step::Ended { entry, attempt, how: How::Acked | How::Purged } => {
                // A late ack of a deleted dead letter is answered as settled.
                self.entries[entry].acked = attempt;
                self.entries[entry].acked_at = now;
            }
            Step::Opened { life, .. } => {
                let (cursor, generation) = places.lives.key(life);
                self.cursors[cursor] = Some(generation);
            }
            Step::GroupGone { reader } => {
                for cursor in places.cursors_of(reader) {
                    self.cursors[cursor] = None;
                }
            }
            Step::TopicGone { topic } => {
                for cursor in places.cursors_on(topic) {
                    self.cursors[cursor] = None;
                }
            }
            _ => {}
        }
    }

    fn shown(&mut self, seq: u64, entry: EntryId, attempt: u32) {
        let known = &mut self.entries[entry];
        if attempt > known.highest {
            known.highest = attempt;
            known.highest_seq = seq;
        }
        let newest = &mut self.cursors[self.timeline.places.cursor_of(entry)];
        if !self.timeline.has_facts() {
            *newest = (*newest).max(Some(self.timeline.places.generation_of(entry)));
        }
    }

    /// Whether the topic or group was deleted, or the cursor was moved.
    fn is_over(&self, entry: EntryId) -> bool {
        let newest = self.cursors[self.timeline.places.cursor_of(entry)];
        newest.is_none_or(|newest| newest > self.timeline.places.generation_of(entry))
    }

    fn invoked(&mut self, id: CallId) {
        let Some(Settle { entry, attempt, verb, .. }) = by_token(self.timeline, id) else {
            return;
        };
        let is_ack = matches!(verb, Verb::Ack);
        let call = &self.timeline.calls[id];
        let known = self.entries[entry];
        let text = self.timeline.places.entry_text(entry);
        if call.outcome.is_done() {
            if known.highest > attempt {
                let (highest, seq) = (known.highest, known.highest_seq);
                let detail = format_args!(
                    "{verb:?} of attempt {attempt} of {text} succeeded although attempt {highest} was granted at {seq}"
                );
                self.findings.add(StaleIsRejected, call.answered, detail);
            } else if self.is_over(entry) {
                let detail = format_args!(
                    "{verb:?} of attempt {attempt} of {text} succeeded although its generation has ended"
                );
                self.findings.add(StaleIsRejected, call.answered, detail);
            } else if is_ack {
                self.acks.push(id);
            }
        }
        let Outcome::Refused { code, state } = call.outcome else {
            return;
        };
        // UNAVAILABLE says nothing about the ack: no node answered.
        let is_gone = code == "NOT_FOUND" || code == "UNAVAILABLE" || state == Some("generation");
        // A commit of an acked message is rejected. `commits` checks whether it repeats a commit.
        let is_commit = matches!(call.ask, Ask::Commit(_));
        if is_ack && known.ack_done == attempt && !is_gone && !is_commit {
            self.refused.insert(id);
        }
    }

    /// Checks the rejection of a repeated ack.
    fn repeat_refused(&mut self, id: CallId) {
        let Some(Settle { entry, attempt, .. }) = by_token(self.timeline, id) else { return };
        let call = &self.timeline.calls[id];
        let Outcome::Refused { code, state } = call.outcome else { return };
        if self.latest >= self.entries[entry].acked_at.saturating_add(ACK_KEPT_MS) {
            return;
        }
        let detail = format_args!(
            "attempt {attempt} of {} was acked, but a repeated ack was rejected: {code} {}",
            self.timeline.places.entry_text(entry),
            state.unwrap_or_default()
        );
        self.findings.add(IdempotentAck, call.answered, detail);
    }

    fn answered(&mut self, id: CallId) {
        if self.refused.remove(&id) {
            self.repeat_refused(id);
        }
        let Some(Settle { entry, attempt, verb: Verb::Ack, .. }) = by_token(self.timeline, id)
        else {
            return;
        };
        let call = &self.timeline.calls[id];
        if !call.outcome.is_done() {
            return;
        }
        let is_over = self.is_over(entry);
        let known = &mut self.entries[entry];
        known.ack_done = attempt;
        let is_stale = known.highest > attempt || is_over;
        if self.timeline.has_facts() && known.acked != attempt && !is_stale {
            let text = self.timeline.places.entry_text(entry);
            let detail = format_args!(
                "attempt {attempt} of {text} was answered as acked, but no ack is committed"
            );
            self.findings.add(AckIsFinal, call.answered, detail);
        }
    }

    fn finish(mut self) {
        for id in std::mem::take(&mut self.acks) {
            let Some(Settle { entry, attempt, .. }) = by_token(self.timeline, id) else {
                continue;
            };
            let known = self.entries[entry];
            if known.highest > attempt {
                let text = self.timeline.places.entry_text(entry);
                let (highest, done) = (known.highest, self.timeline.calls[id].answered);
                let detail = format_args!(
                    "attempt {attempt} of {text} was acked at {done}, but attempt {highest} was granted"
                );
                self.findings.add(AckIsFinal, known.highest_seq.max(done), detail);
            }
        }
    }
}

fn by_token<'a>(timeline: &Timeline<'a>, call: CallId) -> Option<Settle<'a>> {
    timeline.settled_by(call).filter(|settle| !settle.by_owner)
}
