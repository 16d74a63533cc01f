//! Good histories pass, and for each promise there is a bad one that is found.
//!
//! A case is one history told twice: as it should be, and with one thing wrong.

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

/// A history that is right or, by one edit, wrong.
type Case = fn(&mut Tale, wrong: bool);

#[track_caller]
fn assert_clean(tale: &Tale) {
    let report = check(&tale.events);
    assert!(report.is_clean(), "{report}");
}

/// Told right, the history is clean; told wrong, it breaks exactly what it should.
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
