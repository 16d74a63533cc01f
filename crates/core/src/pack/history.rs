//! Message history: one row per batch and block of offsets.

use crate::command::Event;
use crate::id::{BatchNo, Lane, Offset, TopicId};
use crate::pack::{Damaged, open, plain, seal};
use crate::row::{Key, Row};

/// Packs the events of a batch for one block.
pub(crate) fn put_history(
    topic: TopicId,
    lane: Lane,
    block: u64,
    batch: BatchNo,
    events: &[(Offset, &Event)],
) -> Row {
    plain(Key::History { topic, lane, block, batch }, seal(&events))
}

/// Unpacks the events of a row.
pub(crate) fn history_row(row: &Row) -> Result<Vec<(Offset, Event)>, Damaged> {
    open(row)
}
