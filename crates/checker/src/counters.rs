//! Checks the counters that nodes report: of `Conservation` that they add up, of `EventualDrain`
//! that the last ones are empty.
//!
//! The model checks their values after each batch.

use crate::ids::{Column, CursorId};
use crate::invariant::Invariant::{Conservation, EventualDrain};
use crate::report::Findings;
use crate::timeline::{Ask, Counted, Step, Timeline};

/// Checks every set of counters, and the last one of each cursor.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let mut last: Column<CursorId, Option<&Counted<'_>>> = timeline.places.cursors.column(None);
    for counted in &timeline.counted {
        let text = timeline.places.cursor_text(counted.cursor);
        let counters = counted.counters;
        let open = counters.leased.saturating_add(counters.waiting);
        let unread = counters.high.checked_sub(counters.next);
        if unread.and_then(|unread| unread.checked_add(open)) != Some(counters.backlog) {
            findings.add(
                Conservation,
                counted.seq,
                format_args!("the counters of {text} do not add up: {counters:?}"),
            );
        }
        if timeline.healed.is_some_and(|healed| healed < counted.seq) {
            last[counted.cursor] = Some(counted);
        }
    }
    if timeline.ended.is_none() {
        return;
    }
    let gone = gone(timeline);
    for counted in last.iter().flatten().filter(|counted| !gone[counted.cursor]) {
        let counters = counted.counters;
        let is_read = counters.next == counters.high;
        if !is_read || counters.leased > 0 || counters.waiting > 0 || counters.backlog > 0 {
            let text = timeline.places.cursor_text(counted.cursor);
            findings.add(
                EventualDrain,
                counted.seq,
                format_args!("{text} is not drained: {counters:?}"),
            );
        }
    }
}

/// The cursors whose topic or group was deleted by the end of the run, or may have been.
fn gone(timeline: &Timeline<'_>) -> Column<CursorId, bool> {
    let places = &timeline.places;
    let mut gone = places.cursors.column(false);
    for step in &timeline.steps {
        match *step {
            Step::Opened { life, .. } => {
                gone[places.lives.key(life).0] = false;
            }
            Step::GroupGone { reader } => {
                places.cursors_of(reader).for_each(|cursor| gone[cursor] = true);
            }
            Step::TopicGone { topic } => {
                places.cursors_on(topic).for_each(|cursor| gone[cursor] = true);
            }
            _ => {}
        }
    }
    if timeline.has_facts() {
        return gone;
    }
    for call in timeline.calls.iter().filter(|call| !call.outcome.is_refused()) {
        match call.ask {
            Ask::DeleteGroup(reader) => {
                places.cursors_of(reader).for_each(|cursor| gone[cursor] = true);
            }
            Ask::DeleteTopic(topic) => {
                places.cursors_on(topic).for_each(|cursor| gone[cursor] = true);
            }
            _ => {}
        }
    }
    gone
}
