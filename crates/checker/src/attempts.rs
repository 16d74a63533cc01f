//! Attempts that counted: I60. A message does not die because of attempts that no consumer was shown.
//!
//! An attempt is shown when its delivery was written to a connection, read or not: what happens to it then is
//! not the server's doing. A server that lost the shard in between cannot know, and one whose clock jumped over most
//! of the lease had no time to take the message back. Judged only where the harness records what was written.

use crate::history::How;
use crate::ids::{Column, EntryId, FastMap};
use crate::invariant::Invariant::FairAttempts;
use crate::report::Findings;
use crate::timeline::{Batch, Seen, Step, Timeline};

/// Judges every message that dies as exhausted.
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
            Seen::Invoked(_) | Seen::Answered(_) | Seen::Left(_) => {}
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

/// What is known of the attempts of a message in a group.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// The last attempt that was granted, and under which epoch.
    attempt: u32,
    epoch: u64,
    /// When, by the harness's clock.
    granted_at: u64,
    lease_ms: u64,
    is_shown: bool,
    /// The first attempt that counted and that no consumer was shown.
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
                            "{text} dies, and no consumer was shown attempt {attempt}"
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
            // A worker that says something was shown it; what is given back does not count.
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
