//! Good histories pass, and each invariant has a bad history that is detected.
//!
//! A case is one history in two versions: correct, and with one error.

mod broken;
mod broken_for_clients;
mod doubt;
mod good;
mod left_out;
mod reading;
mod scrambled;
mod speed;
mod tale;
mod tale_of_commits;
mod tale_of_effects;

use driftq_checker::{Invariant, check};
use tale::Tale;

/// A history that is correct or, by one change, wrong.
type Case = fn(&mut Tale, wrong: bool);

#[track_caller]
fn assert_clean(tale: &Tale) {
    let report = check(&tale.events);
    assert!(report.is_clean(), "{report}");
}

/// The correct history is clean; the wrong one violates exactly these invariants.
#[track_caller]
fn assert_breaks(broken: &[Invariant], case: Case) {
    let mut right = Tale::new();
    case(&mut right, false);
    assert_clean(&right);
    let mut wrong = Tale::new();
    case(&mut wrong, true);
    let report = check(&wrong.events);
    let mut found: Vec<Invariant> = report.violations.iter().map(|v| v.invariant).collect();
    found.dedup();
    assert_eq!(found, broken, "{report}");
}
