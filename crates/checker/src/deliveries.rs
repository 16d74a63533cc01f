//! Deliveries as consumers read them: I9, and of I18 that `spent` fits the attempt.
//!
//! Where commits are seen, a delivery shows a lease that was committed before. Where they are not,
//! one process sees the attempts of a message grow: what it read was granted in that order, unless it
//! reads several streams at once, so this is left out where commits say better.

use crate::ids::{Column, EntryId, FastMap, FastSet};
use crate::invariant::Invariant::{AttemptsCounted, AttemptsGrow};
use crate::report::Findings;
use crate::timeline::{Seen, Step, Timeline};

/// Judges every delivery.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let mut granted: Column<EntryId, Last> = timeline.places.entries.column(Last::default());
    let mut delivered: FastSet<(EntryId, u32)> = FastSet::default();
    let mut read: FastMap<(EntryId, u32), u32> = FastMap::default();
    for moment in &timeline.moments {
        if let Seen::Committed(batch) = moment.seen {
            for step in timeline.steps_of(&timeline.batches[batch]) {
                if let Step::Granted { entry, granted: grant } = *step {
                    granted[entry] = Last { attempt: grant.lease.attempt, spent: grant.spent };
                }
            }
        }
        let Seen::Delivered { entry, delivery, .. } = moment.seen else {
            continue;
        };
        let seq = moment.seq;
        let text = timeline.places.entry_text(entry);
        let (attempt, spent) = (delivery.lease.attempt, delivery.spent);
        if !delivered.insert((entry, attempt)) {
            findings.add(
                AttemptsGrow,
                seq,
                format_args!("attempt {attempt} of {text} is delivered twice"),
            );
        }
        if spent == 0 || spent > attempt {
            let detail = format_args!("{spent} of {attempt} attempts of {text} count");
            findings.add(AttemptsCounted, seq, detail);
        }
        if timeline.has_facts() {
            let last = granted[entry];
            if last.attempt < attempt {
                let detail = format_args!("attempt {attempt} of {text} is delivered, not granted");
                findings.add(AttemptsGrow, seq, detail);
            } else if last.attempt == attempt && last.spent != spent {
                let was = last.spent;
                let detail = format_args!(
                    "attempt {attempt} of {text} is delivered with spent {spent}, granted with {was}"
                );
                findings.add(AttemptsCounted, seq, detail);
            }
        } else {
            let process = moment.process;
            let highest = read.entry((entry, process)).or_insert(attempt);
            if *highest > attempt {
                let detail = format_args!(
                    "process {process} reads attempt {attempt} of {text} after {highest}"
                );
                findings.add(AttemptsGrow, seq, detail);
            }
            *highest = attempt.max(*highest);
        }
    }
}

/// The last grant of an entry.
#[derive(Clone, Copy, Default)]
struct Last {
    attempt: u32,
    spent: u32,
}
