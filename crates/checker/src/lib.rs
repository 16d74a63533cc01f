//! Reads the history of a run and says which promise it breaks.
//!
//! 1. Only what is in the history counts: no clock, no configuration, no knowledge of the code that
//!    made it. The same history gives the same report.
//! 2. An unknown outcome is never held against the system: both possibilities are fine.
//! 3. With `Committed` events the order of commits decides; without them, what clients saw.
//! 4. The work grows with n log n, so that the simulator can check every run.
//!
//! Each module is a judge of its own and knows nothing of the others; they share the `timeline`, in
//! which every name has become a number.

mod attempts;
mod clients;
mod clock;
mod commits;
mod content;
mod counters;
mod dedupe;
mod deliveries;
mod durable_refusals;
pub mod history;
mod ids;
mod invariant;
mod ledger;
mod model;
mod order;
mod outbox;
mod owners;
mod pointers;
mod reading;
mod redrive;
mod report;
mod restore;
mod settles;
mod storage;
mod timeline;

use history::Event;
pub use invariant::Invariant;
pub use reading::{ReadError, read_lines};
use report::Findings;
pub use report::{Counts, Report, Violation};
use timeline::Timeline;

/// Judges a history.
pub fn check(events: &[Event]) -> Report {
    let mut findings = Findings::default();
    // Epochs grow over a restore as well.
    owners::judge(events, &mut findings);
    storage::judge(events, &mut findings);
    clock::judge(events, &mut findings);
    let mut counts = Counts::default();
    match restore::split(events) {
        Some([before, after]) => {
            judge(&Timeline::of(&before), &mut findings);
            let timeline = Timeline::of(&after);
            judge(&timeline, &mut findings);
            counts.clone_from(&timeline.counts);
        }
        None => {
            let timeline = Timeline::of(events);
            judge(&timeline, &mut findings);
            counts.clone_from(&timeline.counts);
        }
    }
    counts.events = events.len() as u64;
    findings.into_report(counts)
}

/// Everything that is judged by the order of what was seen.
fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    content::judge(timeline, findings);
    order::judge(timeline, findings);
    deliveries::judge(timeline, findings);
    settles::judge(timeline, findings);
    durable_refusals::judge(timeline, findings);
    dedupe::judge(timeline, findings);
    redrive::judge(timeline, findings);
    ledger::judge(timeline, findings);
    commits::judge(timeline, findings);
    outbox::judge(timeline, findings);
    counters::judge(timeline, findings);
    pointers::judge(timeline, findings);
    attempts::judge(timeline, findings);
    storage::judge_outdated(timeline, findings);
    if timeline.has_facts() {
        model::judge(timeline, findings);
    } else {
        clients::judge(timeline, findings);
    }
}
