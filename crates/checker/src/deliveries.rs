//! Checks deliveries as consumers read them: `AttemptsGrow`, and of `AttemptsCounted` that `spent`
//! fits the attempt.
//!
//! If the history has commits, every delivery must belong to a lease that was committed before it.
//! Without commits, each process must see the attempt numbers of a message grow. A process that
//! reads several streams may see them out of order, so this check is skipped if there are commits.

use crate::ids::{Column, EntryId, FastMap, FastSet};
use crate::invariant::Invariant::{AttemptsCounted, AttemptsGrow};
use crate::report::Findings;
use crate::timeline::{Seen, Step, Timeline};

/// Checks every delivery.
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
                format_args!("attempt {attempt} of {text} was delivered twice"),
            );
        }
        if spent == 0 || spent > attempt {
            let detail = format_args!(
                "attempt {attempt} of {text} was delivered with spent {spent}, which must be between 1 and {attempt}"
            );
            findings.add(AttemptsCounted, seq, detail);
        }
        if timeline.has_facts() {
            let last = granted[entry];
            if last.attempt < attempt {
                let detail =
                    format_args!("attempt {attempt} of {text} was delivered but never granted");
                findings.add(AttemptsGrow, seq, detail);
            } else if last.attempt == attempt && last.spent != spent {
                let was = last.spent;
                let detail = format_args!(
                    "attempt {attempt} of {text} was delivered with spent {spent} but granted with spent {was}"
                );
                findings.add(AttemptsCounted, seq, detail);
            }
        } else {
            let process = moment.process;
            let highest = read.entry((entry, process)).or_insert(attempt);
            if *highest > attempt {
                let detail = format_args!(
                    "process {process} read attempt {attempt} of {text} after attempt {highest}"
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
