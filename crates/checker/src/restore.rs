//! Splits a history in which the storage was restored from a backup. The first part ends with the
//! restore. In the second part, nothing was committed between the backup and the restore.
//!
//! In the second part, calls made between the backup and the restore keep their invocation, because
//! their messages may be sent again. Their outcome becomes unknown: the restore has discarded it.

use crate::history::{Event, What};

/// Returns the two histories, which are checked separately.
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

/// Converts an event between the backup and the restore for the second history.
fn without_end(event: &Event) -> Option<Event> {
    match &event.what {
        What::Done { call, .. } | What::Refused { call, .. } | What::Unknown { call } => {
            Some(Event { what: What::Unknown { call: *call }, ..event.clone() })
        }
        What::Invoked { .. }
        | What::Fault { .. }
        | What::Healed
        | What::Limits { .. }
        | What::OlderNodes { .. }
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
