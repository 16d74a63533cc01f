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

mod clients;
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
mod reading;
mod redrive;
mod report;
mod settles;
mod story;

use history::Event;
pub use invariant::Invariant;
pub use reading::{ReadError, read_lines};
use report::Findings;
pub use report::{Counts, Report, Violation};
use story::Story;

/// Judges a history.
pub fn check(events: &[Event]) -> Report {
    let story = Story::of(events);
    let mut findings = Findings::default();
    content::judge(&story, &mut findings);
    order::judge(&story, &mut findings);
    deliveries::judge(&story, &mut findings);
    settles::judge(&story, &mut findings);
    covered::judge(&story, &mut findings);
    dedupe::judge(&story, &mut findings);
    redrive::judge(&story, &mut findings);
    ledger::judge(&story, &mut findings);
    commits::judge(&story, &mut findings);
    outbox::judge(&story, &mut findings);
    counters::judge(&story, &mut findings);
    owners::judge(events, &mut findings);
    if story.has_facts() {
        model::judge(&story, &mut findings);
    } else {
        clients::judge(&story, &mut findings);
    }
    findings.into_report(story.counts)
}
