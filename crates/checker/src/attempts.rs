//! Checks `FairAttempts`: a message is not dead-lettered because of attempts that no consumer was
//! shown.
//!
//! An attempt counts as shown once its delivery was written to a connection, whether or not the
//! consumer read it. Two cases are exempt. A server that lost the shard in between cannot know
//! whether the delivery was written. A server whose clock jumped over most of the lease had no time
//! to take the message back.
//!
//! Skipped without `Written` events.

use crate::history::How;
use crate::ids::{Column, EntryId, FastMap};
use crate::invariant::Invariant::FairAttempts;
use crate::report::Findings;
use crate::timeline::{Batch, Seen, Step, Timeline};

/// Checks every message that is dead-lettered as exhausted.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    if !timeline.moments.iter().any(|moment| matches!(moment.seen, Seen::Written { .. })) {
        return;
    }
    let mut judge = Judge {
        timeline,
        findings,
        entries: timeline.places.entries.column(Entry::default()),
        epochs: FastMap::default(),
    };
    for moment in &timeline.moments {
        match moment.seen {
            Seen::Written { entry, attempt } => judge.shown(entry, attempt),
            Seen::Delivered { entry, delivery, .. } => judge.shown(entry, delivery.lease.attempt),
            Seen::Committed(batch) => judge.batch(&timeline.batches[batch]),
            Seen::Invoked(_) | Seen::Answered(_) | Seen::Left { .. } => {}
        }
    }
}

struct Judge<'s, 'a> {
    timeline: &'s Timeline<'a>,
    findings: &'s mut Findings,
    entries: Column<EntryId, Entry>,
    /// The epoch of the last batch of each shard.
    epochs: FastMap<u32, u64>,
}

/// The attempts of a message in a group.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// The last granted attempt and the epoch of its grant.
    attempt: u32,
    epoch: u64,
    /// The time of the grant, by the harness clock.
    granted_at: u64,
    lease_ms: u64,
    is_shown: bool,
    /// The first attempt that was counted but never shown to a consumer.
    unshown: Option<u32>,
}

impl Judge<'_, '_> {
    fn shown(&mut self, entry: EntryId, attempt: u32) {
        let known = &mut self.entries[entry];
        known.is_shown |= known.attempt == attempt;
    }

    fn batch(&mut self, batch: &Batch) {
        let epoch = batch.epoch;
        self.epochs.insert(batch.shard, epoch);
        for step in self.timeline.steps_of(batch) {
            match *step {
                Step::Granted { entry, granted } => {
                    let known = &mut self.entries[entry];
                    (known.attempt, known.epoch) = (granted.lease.attempt, epoch);
                    known.granted_at = batch.at;
                    known.lease_ms = granted.until.saturating_sub(batch.now);
                    known.is_shown = false;
                }
                Step::Ended { entry, how, .. } => {
                    self.ended(entry, batch, how);
                }
                Step::Died { entry, reason: "exhausted", .. } => {
                    if let Some(attempt) = self.entries[entry].unshown {
                        let text = self.timeline.places.entry_text(entry);
                        let detail = format_args!(
                            "{text} was dead-lettered as exhausted, but attempt {attempt} was never written to a consumer"
                        );
                        self.findings.add(FairAttempts, batch.seq, detail);
                    }
                }
                _ => {}
            }
        }
    }

    fn ended(&mut self, entry: EntryId, batch: &Batch, how: How) {
        let is_counted = match how {
            How::Expired { .. } | How::Dead { asked: false } => true,
            // A worker that settles the message was shown it. A returned delivery does not count.
            How::Acked
            | How::Nacked { .. }
            | How::Returned { .. }
            | How::Dead { asked: true }
            | How::Purged => false,
        };
        let known = &mut self.entries[entry];
        let had_time = (batch.at - known.granted_at) * 2 >= known.lease_ms;
        if is_counted && !known.is_shown && known.epoch == batch.epoch && had_time {
            known.unshown.get_or_insert(known.attempt);
        }
    }
}
