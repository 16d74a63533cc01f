//! Blocks of open entries, the only body with a hand-written encoding.
#![no_main]

use driftq_core::row::{Columns, Key, Row};
use driftq_core::{BatchNo, Generation, Lane};
use driftq_fuzz::{bounded, check_packed, sealed};
use libfuzzer_sys::fuzz_target;

/// Length of an entry without optional fields, and the length that each of the upper four flags
/// adds.
const ENTRY_BYTES: usize = 42;
const RARE_BYTES: [usize; 4] = [1, 16, 6, 2];

fuzz_target!(|content: &[u8]| bounded(|| {
    let key =
        Key::Block { generation: Generation(41), lane: Lane(4), block: 3, batch: BatchNo(99) };
    let row = Row { key, columns: Columns::None, body: sealed(1, content) };
    let read = driftq_core::fuzzing::reread(&row);
    let indexes = indexes(content);
    assert_eq!(read.is_ok(), indexes.is_some(), "exactly the complete entries are valid");
    // Only entries that are sorted, unique and within the block are ever written.
    let is_written_so = indexes.is_some_and(|indexes| {
        indexes.is_sorted_by(|a, b| a < b) && indexes.iter().all(|index| *index < 128)
    });
    if is_written_so {
        check_packed(&row.key, &row.columns, content);
    }
}));

/// Returns the index of each entry in the block, or `None` if the last entry is truncated.
fn indexes(mut content: &[u8]) -> Option<Vec<u8>> {
    let mut indexes = Vec::new();
    while let [index, flags, ..] = *content {
        let rare = (0..4).filter(|flag| flags >> 4 >> flag & 1 == 1).map(|flag| RARE_BYTES[flag]);
        content = content.get(ENTRY_BYTES + rare.sum::<usize>()..)?;
        indexes.push(index);
    }
    content.is_empty().then_some(indexes)
}
