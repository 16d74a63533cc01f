//! Pointers: rows that people may read, so their body is JSON text.

use crate::change::PointerRow;
use crate::pack::json_rows::{json, misplaced, parse};
use crate::pack::{Damaged, fingerprint};
use crate::row::{Columns, Hash16, Key, Row};

/// Returns the hash shared by all pointers of one version of a dataset.
pub(crate) fn dataset_hash(dataset: &str, version: &str) -> Hash16 {
    fingerprint(&("pointer", dataset, version))
}

pub(super) fn put_pointer(row: &PointerRow) -> Row {
    let PointerRow { topic, pointer } = row;
    let dataset = dataset_hash(&pointer.name.dataset, &pointer.name.version);
    let partition_key = pointer.name.partition_key.clone();
    let key = Key::Pointer { topic: *topic, dataset, partition_key };
    Row { key, columns: Columns::None, body: json(pointer) }
}

/// Unpacks a pointer.
pub(crate) fn pointer_row(row: &Row) -> Result<PointerRow, Damaged> {
    let Key::Pointer { topic, .. } = &row.key else { return Err(misplaced(row)) };
    Ok(PointerRow { topic: *topic, pointer: parse(row)? })
}
