//! Blocks: open entries of 128 consecutive offsets.

use std::collections::BTreeMap;

use crate::change::Entry;
use crate::id::{BatchNo, Generation, Lane, Offset};
use crate::limits::BLOCK_OFFSETS;
use crate::pack::{Damaged, plain, seal, try_open};
use crate::row::{Key, Row};
use crate::shard::Open;

/// The block an offset lies in.
pub(super) fn block_of(offset: Offset) -> u64 {
    offset / BLOCK_OFFSETS
}

/// Packs the open entries of a block as they are now. None if there are none.
pub(super) fn block_row(
    generation: Generation,
    lane: Lane,
    block: u64,
    batch: BatchNo,
    open: &BTreeMap<Offset, Open>,
) -> Option<Row> {
    let first = block * BLOCK_OFFSETS;
    let entries: Vec<(u8, Entry)> = open
        .range(first..first + BLOCK_OFFSETS)
        .map(|(offset, open)| ((offset - first) as u8, open.entry))
        .collect();
    let key = Key::Block { generation, lane, block, batch };
    (!entries.is_empty()).then(|| plain(key, seal(&entries)))
}

/// Unpacks a block.
pub(crate) fn open_block(row: &Row) -> Result<Vec<(Offset, Entry)>, Damaged> {
    let entries: Vec<(u8, Entry)> = try_open(row)?;
    let Key::Block { block, .. } = row.key else {
        return Err(Damaged { key: format!("{:?}", row.key), why: "it is no block" });
    };
    let first = block * BLOCK_OFFSETS;
    Ok(entries.into_iter().map(|(index, entry)| (first + u64::from(index), entry)).collect())
}
