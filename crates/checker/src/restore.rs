//! A history in which the storage was restored from a backup is two: one that ends with the restore, and one in
//! which nothing was committed between the backup and the restore.
//!
//! In the second one, calls of the time in between keep their invocation, for what they sent may come again,
//! and have no known end: whatever they were told, nothing of it is left.

use crate::history::{Event, What};

/// The histories to be judged one by one.
pub(crate) fn split(events: &[Event]) -> Option<[Vec<Event>; 2]> {
    let restored = events.iter().find_map(|event| {
        if let What::Restored { to } = event.what { Some((event.seq, to)) } else { None }
    });
    let (at, to) = restored?;
    let before = events.iter().filter(|event| event.seq < at).cloned().collect();
    let after = events.iter().filter_map(|event| match event.seq {
        seq if seq > to && seq < at => without_end(event),
        seq if seq == at => None,
        _ => Some(event.clone()),
    });
    Some([before, after.collect()])
}

/// What is left of an event between the backup and the restore.
fn without_end(event: &Event) -> Option<Event> {
    match &event.what {
        What::Done { call, .. } | What::Refused { call, .. } | What::Unknown { call } => {
            Some(Event { what: What::Unknown { call: *call }, ..event.clone() })
        }
        What::Invoked { .. }
        | What::Fault { .. }
        | What::Healed
        | What::Limits { .. }
        | What::Corrupted { .. }
        | What::Clock { .. }
        | What::Left { .. } => Some(event.clone()),
        What::Delivered(_)
        | What::Committed { .. }
        | What::Claimed { .. }
        | What::Renewed { .. }
        | What::Stopped { .. }
        | What::Decided { .. }
        | What::Damaged { .. }
        | What::Written { .. }
        | What::Restored { .. }
        | What::Leaked { .. }
        | What::Counted { .. }
        | What::DeadLetter(_)
        | What::Ended => None,
    }
}
