//! An open entry and what it belongs to.

use crate::change::{Change, Entry, LastError};
use crate::id::{Lane, Offset};
use crate::shard::state::{Group, Topic};

/// An open entry that a caller may act on.
pub(crate) struct OpenDelivery<'a> {
    pub(crate) topic: &'a Topic,
    pub(crate) group: &'a Group,
    pub(crate) lane: Lane,
    pub(crate) offset: Offset,
    pub(crate) entry: &'a Entry,
}

/// Returns the change that stores a new state of the entry.
pub(crate) fn open(held: &OpenDelivery<'_>, entry: Entry) -> Change {
    let OpenDelivery { group, lane, offset, .. } = *held;
    // An extended lease stays with its holder.
    let holder = if entry.is_leased() {
        group.cursor(lane).open.get(offset).and_then(|open| open.holder)
    } else {
        None
    };
    Change::Open { group: group.row.id, lane, offset, entry, holder }
}

/// Deletes the row of its last error, if there is one.
pub(crate) fn forget_note(held: &OpenDelivery<'_>, changes: &mut Vec<Change>) {
    if held.entry.error == LastError::Note {
        let OpenDelivery { group, lane, offset, .. } = *held;
        let generation = group.cursor(lane).start.generation;
        changes.push(Change::NoteGone { generation, lane, offset });
    }
}
