//! Checks the history of a run and reports the invariants that it breaks.
//!
//! 1. The report depends only on the history: no clock, no configuration, no knowledge of the code
//!    under test. The same history gives the same report.
//! 2. A call with an unknown outcome never causes a violation. Both outcomes are accepted.
//! 3. If the history has `Committed` events, it is checked in commit order; otherwise only what
//!    clients saw is checked.
//! 4. The check takes O(n log n) time, so the simulator can check every run.
//!
//! Each module checks its own invariants and does not depend on the others. They share the
//! `timeline`, in which every name is replaced by a number.

mod acts;
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
mod nonces;
mod order;
mod outbox;
mod owners;
mod pointers;
mod reading;
mod redrive;
mod repeats;
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

/// Checks a history.
pub fn check(events: &[Event]) -> Report {
    let mut findings = Findings::default();
    // Epochs keep growing across a restore, so these checks read the unsplit history.
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

/// Runs the checks that depend on the order of events.
fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    content::judge(timeline, findings);
    order::judge(timeline, findings);
    deliveries::judge(timeline, findings);
    settles::judge(timeline, findings);
    durable_refusals::judge(timeline, findings);
    dedupe::judge(timeline, findings);
    nonces::judge(timeline, findings);
    redrive::judge(timeline, findings);
    ledger::judge(timeline, findings);
    commits::judge(timeline, findings);
    outbox::judge(timeline, findings);
    counters::judge(timeline, findings);
    pointers::judge(timeline, findings);
    acts::judge(timeline, findings);
    attempts::judge(timeline, findings);
    storage::judge_outdated(timeline, findings);
    if timeline.has_facts() {
        model::judge(timeline, findings);
    } else {
        clients::judge(timeline, findings);
    }
}
