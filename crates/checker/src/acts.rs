//! Checks `RecordedActs`: what operators change is recorded, once, in the commit that changes it.
//!
//! An act under an epoch in which a node of an older release was alive need not be recorded.

use std::collections::BTreeSet;

use crate::ids::CallId;
use crate::invariant::Invariant::RecordedActs;
use crate::report::Findings;
use crate::timeline::{Ask, Call, Outcome, Seen, Step, Timeline};

/// Checks every call of an operator that succeeded. Skipped if the history has no commits.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    for moment in &timeline.moments {
        let Seen::Committed(batch) = moment.seen else { continue };
        let batch = &timeline.batches[batch];
        let mut recorded: BTreeSet<CallId> = BTreeSet::new();
        let mut decided: BTreeSet<CallId> = BTreeSet::new();
        for step in timeline.steps_of(batch) {
            match *step {
                Step::Acted { call } if !recorded.insert(call) => {
                    findings.add(RecordedActs, batch.seq, format_args!("an act is recorded twice"));
                }
                Step::Decided { call } => drop(decided.insert(call)),
                _ => {}
            }
        }
        for call in recorded.difference(&decided) {
            let sent = timeline.calls[*call].invoked;
            let detail = format_args!(
                "the call of event {sent} is recorded in a commit that did not decide it"
            );
            findings.add(RecordedActs, batch.seq, detail);
        }
        if timeline.older_nodes.contains(&(batch.shard, batch.epoch)) {
            continue;
        }
        for call in decided.difference(&recorded).map(|call| &timeline.calls[*call]) {
            if changes_something(call) {
                let sent = call.invoked;
                let detail =
                    format_args!("the call of event {sent} changed something and is not recorded");
                findings.add(RecordedActs, batch.seq, detail);
            }
        }
    }
}

/// Whether a call of an operator has changed something for certain.
fn changes_something(call: &Call<'_>) -> bool {
    match (call.ask, call.outcome) {
        (Ask::Purge { dry_run, .. }, Outcome::Purged { count }) => !dry_run && count > 0,
        (Ask::Redrive(_), Outcome::Redriven { already, .. }) => !already,
        (Ask::DeleteGroup(_) | Ask::DeleteTopic(_) | Ask::Seek(_) | Ask::SeekAll(..), outcome) => {
            outcome.is_done()
        }
        (_, _) => false,
    }
}
