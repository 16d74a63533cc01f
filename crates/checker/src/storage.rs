//! Checks what a harness sees of the storage: `Readable`, and of `RestoreFencing` that a lease
//! issued before a restore is rejected.

use std::collections::BTreeSet;

use crate::history::{Event, What};
use crate::invariant::Invariant::{Readable, RestoreFencing};
use crate::report::Findings;
use crate::timeline::{Ask, Outcome, Timeline};

/// Checks for missing rows and leaked rows.
pub(crate) fn judge(events: &[Event], findings: &mut Findings) {
    let mut corrupted: BTreeSet<u32> = BTreeSet::new();
    for event in events {
        match &event.what {
            What::Corrupted { shard, .. } => {
                corrupted.insert(*shard);
            }
            What::Damaged { shard, why } if !corrupted.contains(shard) => {
                findings.add(
                    Readable,
                    event.seq,
                    format_args!("shard {shard} has a damaged row: {why}"),
                );
            }
            What::Leaked { shard, rows, example } => {
                let detail = format_args!(
                    "shard {shard} has {rows} leaked rows of deleted objects, such as {example}"
                );
                findings.add(Readable, event.seq, detail);
            }
            _ => {}
        }
    }
}

/// Checks calls that use a lease issued before a restore.
pub(crate) fn judge_outdated(timeline: &Timeline<'_>, findings: &mut Findings) {
    for call in timeline.calls.iter() {
        let is_outdated = if let Ask::Commit(commit) = call.ask {
            timeline.commits[commit].is_outdated
        } else {
            matches!(call.ask, Ask::Outdated)
        };
        // A commit that the backup contains returns its original result.
        let is_repeat = matches!(call.outcome, Outcome::Committed { repeated: true, .. });
        if is_outdated && call.outcome.is_done() && !is_repeat {
            let detail = format_args!("a lease that was issued before the restore was accepted");
            findings.add(RestoreFencing, call.answered, detail);
        }
    }
}
