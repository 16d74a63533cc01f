//! A clean history is no longer clean if a fact or a commit is removed or repeated.

use driftq_checker::check;
use driftq_checker::history::{Event, Fact, How, What};

use crate::good::everything;
use crate::tale::Tale;

#[test]
fn removing_a_fact_is_detected_unless_harmless() {
    for (batch, at) in facts() {
        let mut events = whole();
        let fact = facts_of(&mut events[batch]).remove(at);
        // Some removals are harmless:
        // - a lease that was not extended may still expire later
        // - keeping messages longer loses nothing
        // - the reply also reports a duplicate key
        // - two messages are settled shortly after in any case
        let is_harmless = matches!(
            &fact,
            Fact::Extended { .. } | Fact::Trimmed { .. } | Fact::Deduplicated { .. }
        ) || matches!(
            &fact,
            Fact::Ended { lease, how: How::Expired { .. } | How::Nacked { .. } }
                if [2, 7].contains(&lease.offset)
        );
        assert_eq!(check(&events).is_clean(), is_harmless, "without {fact:?}");
    }
}

#[test]
fn repeating_a_fact_is_detected_unless_harmless() {
    for (batch, at) in facts() {
        let mut events = whole();
        let facts = facts_of(&mut events[batch]);
        let fact = facts[at].clone();
        facts.insert(at + 1, fact.clone());
        let is_harmless = matches!(
            fact,
            Fact::Extended { .. }
                | Fact::Trimmed { .. }
                | Fact::Deduplicated { .. }
                | Fact::GroupGone { .. }
                | Fact::Recorded(_)
                | Fact::Arrived { .. }
                | Fact::TurnedAway { .. }
        );
        assert_eq!(check(&events).is_clean(), is_harmless, "with {fact:?} twice");
    }
}

#[test]
fn removing_or_repeating_a_commit_violates_an_invariant() {
    for batch in (0..whole().len()).filter(|at| is_commit(&whole()[*at])) {
        let mut events = whole();
        let again = events.remove(batch);
        // The last batch leaves no gap, and it only trims.
        let is_last = !events[batch..].iter().any(is_commit);
        assert!(is_last || !check(&events).is_clean(), "without {again:?}");
        events.insert(batch, again.clone());
        events.insert(batch, again.clone());
        assert!(!check(&events).is_clean(), "with {again:?} twice");
    }
}

fn whole() -> Vec<Event> {
    let mut tale = Tale::new();
    everything(&mut tale);
    tale.events
}

fn is_commit(event: &Event) -> bool {
    matches!(event.what, What::Committed { .. })
}

/// Every fact, as the index of its batch and its index in the batch.
fn facts() -> Vec<(usize, usize)> {
    let mut events = whole();
    let batches = events.iter_mut().enumerate().filter(|(_, event)| is_commit(event));
    batches
        .flat_map(|(batch, event)| (0..facts_of(event).len()).map(move |at| (batch, at)))
        .collect()
}

fn facts_of(event: &mut Event) -> &mut Vec<Fact> {
    let What::Committed { facts, .. } = &mut event.what else {
        panic!("only commits have facts");
    };
    facts
}
