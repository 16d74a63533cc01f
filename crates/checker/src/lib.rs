//! Reads the history of a run and says which promise it breaks.
//!
//! 1. Only what is in the history counts: no clock, no configuration, no knowledge of the code that
//!    made it. The same history gives the same report.
//! 2. An unknown outcome is never held against the system: both possibilities are fine.
//! 3. With `Committed` events the order of commits decides; without them, what clients saw.
//! 4. The work grows with n log n, so that the simulator can check every run.
//!
//! Each module is a judge of its own and knows nothing of the others; they share the `story`, in
//! which every name has become a number.

mod attempts;
mod clients;
mod clock;
mod commits;
mod content;
mod counters;
mod covered;
mod dedupe;
mod deliveries;
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
mod story;

use history::Event;
pub use invariant::Invariant;
pub use reading::{ReadError, read_lines};
use report::Findings;
pub use report::{Counts, Report, Violation};
use story::Story;

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
            judge(&Story::of(&before), &mut findings);
            let story = Story::of(&after);
            judge(&story, &mut findings);
            counts.clone_from(&story.counts);
        }
        None => {
            let story = Story::of(events);
            judge(&story, &mut findings);
            counts.clone_from(&story.counts);
        }
    }
    counts.events = events.len() as u64;
    findings.into_report(counts)
}

/// Everything that is judged by the order of what was seen.
fn judge(story: &Story<'_>, findings: &mut Findings) {
    content::judge(story, findings);
    order::judge(story, findings);
    deliveries::judge(story, findings);
    settles::judge(story, findings);
    covered::judge(story, findings);
    dedupe::judge(story, findings);
    redrive::judge(story, findings);
    ledger::judge(story, findings);
    commits::judge(story, findings);
    outbox::judge(story, findings);
    counters::judge(story, findings);
    pointers::judge(story, findings);
    attempts::judge(story, findings);
    storage::judge_outdated(story, findings);
    if story.has_facts() {
        model::judge(story, findings);
    } else {
        clients::judge(story, findings);
    }
}
