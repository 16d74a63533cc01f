//! Packing: encodes decided changes as rows. Pure code without I/O.
//!
//! A packed body is a version byte, a postcard value and a CRC-32C of both. Golden bytes in the
//! tests make any change of layout visible. Each kind of body has its own versions. A new layout gets
//! a new version, and old versions stay readable. A row without a new fact is written in the old
//! version, so its bytes do not change.

mod audit;
mod block;
mod effect;
#[cfg(fuzzing)]
pub mod fuzzing;
mod head;
mod history;
mod json_rows;
mod message;
mod page;
mod pointer;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::change::Change;
use crate::id::{Lane, TopicId};
use crate::row::{Columns, Hash16, Key, RecordKind, Row, Table};

pub(crate) use audit::{AuditRun, audit_rows, chain_hash, open_audit};
pub(crate) use block::{block_of, block_row, open_block};
pub(crate) use effect::{effect_hash, effect_row};
pub(crate) use head::{CursorItem, HeadBody, LaneItem, MarkItem};
pub(crate) use history::{history_row, put_history};
pub(crate) use json_rows::{dead_row, group_row, put_group, put_topic, topic_row};
pub(crate) use message::open_outgoing;
pub(crate) use page::{Page, open_page, pages};
pub(crate) use pointer::{dataset_hash, pointer_row};

/// The first version of a body.
const V1: u8 = 1;
/// Messages with an extension, and audit records with a delivery.
const V2: u8 = 2;
/// Audit rows of administrative acts.
const V3: u8 = 3;
const CHECKSUM_BYTES: usize = 4;

/// A row that is missing, or whose bytes are not those that were written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("row {key} is damaged: {why}")]
pub struct Damaged {
    /// The row's key.
    pub key: String,
    /// The kind of damage.
    pub why: &'static str,
    /// The lane whose messages it holds, if it is a page.
    pub(crate) lane: Option<(TopicId, Lane)>,
}

impl Damaged {
    pub(crate) fn of(key: &Key, why: &'static str) -> Damaged {
        let lane =
            if let Key::Page { topic, lane, .. } = *key { Some((topic, lane)) } else { None };
        Damaged { key: format!("{key:?}"), why, lane }
    }

    /// Whether a later release has written the row, so that nothing is lost.
    pub fn is_newer(&self) -> bool {
        self.why == UNKNOWN_VERSION
    }
}

/// Packs a value that has one version.
pub(crate) fn seal<T: Serialize>(value: &T) -> Bytes {
    seal_as(V1, value)
}

pub(crate) fn seal_as<T: Serialize>(version: u8, value: &T) -> Bytes {
    let mut packed = postcard::to_extend(value, vec![version]).expect("plain values can be packed");
    let checksum = crc32c::crc32c(&packed);
    packed.extend_from_slice(&checksum.to_le_bytes());
    packed.into()
}

/// Returns the version and the content of a packed body, if its checksum is valid.
fn unseal(body: &[u8]) -> Result<(u8, &[u8]), &'static str> {
    let split =
        body.len().checked_sub(CHECKSUM_BYTES).filter(|at| *at > 0).ok_or("it is too short")?;
    let (packed, checksum) = body.split_at(split);
    if crc32c::crc32c(packed).to_le_bytes() != checksum {
        return Err("its checksum is wrong");
    }
    Ok((packed[0], &packed[1..]))
}

const UNKNOWN_VERSION: &str = "its version is unknown";

/// Unpacks a value that has one version.
pub(crate) fn open<T: DeserializeOwned>(row: &Row) -> Result<T, Damaged> {
    let damaged = |why| Damaged::of(&row.key, why);
    match unseal(&row.body).map_err(damaged)? {
        (V1, packed) => content(packed).map_err(damaged),
        _ => Err(damaged(UNKNOWN_VERSION)),
    }
}

/// Unpacks a value with the addition that version 2 has.
pub(crate) fn open_with<T: DeserializeOwned, A: DeserializeOwned>(
    row: &Row,
) -> Result<(T, Option<A>), Damaged> {
    let damaged = |why| Damaged::of(&row.key, why);
    match unseal(&row.body).map_err(damaged)? {
        (V1, packed) => Ok((content(packed).map_err(damaged)?, None)),
        (V2, packed) => {
            let (value, addition) = content(packed).map_err(damaged)?;
            Ok((value, Some(addition)))
        }
        _ => Err(damaged(UNKNOWN_VERSION)),
    }
}

/// Packs a value with an addition, as version 2.
pub(crate) fn seal_with<T: Serialize, A: Serialize>(value: &T, addition: &A) -> Bytes {
    seal_as(V2, &(value, addition))
}

fn content<T: DeserializeOwned>(packed: &[u8]) -> Result<T, &'static str> {
    postcard::from_bytes(packed).map_err(|_| "its content is invalid")
}

/// The newest version that this release reads.
fn newest(table: Table) -> u8 {
    match table {
        Table::Audit => V3,
        Table::Page | Table::Outbox | Table::Record => V2,
        _ => V1,
    }
}

/// Checks that a row is not damaged. Every row that an engine returns is checked once.
pub fn verify(row: &Row) -> Result<(), Damaged> {
    let damaged = |why| Damaged::of(&row.key, why);
    let is_text =
        || std::str::from_utf8(&row.body).map(drop).map_err(|_| damaged("it is not UTF-8 text"));
    match row.key.table() {
        Table::Record if matches!(row.key, Key::Record { kind: RecordKind::Effect, .. }) => {
            is_text()
        }
        Table::Topic | Table::Group | Table::Dead | Table::Owner | Table::Note | Table::Pointer => {
            is_text()
        }
        Table::Held => Ok(()),
        Table::Head
        | Table::Lane
        | Table::Cursor
        | Table::Mark
        | Table::Page
        | Table::Block
        | Table::Record
        | Table::Outbox
        | Table::History
        | Table::Audit
        | Table::Garbage => match unseal(&row.body).map_err(damaged)? {
            (version, _) if (V1..=newest(row.key.table())).contains(&version) => Ok(()),
            _ => Err(damaged(UNKNOWN_VERSION)),
        },
    }
}

/// Returns the hash in a record's key: the first half of the hash of its identity.
pub(crate) fn hash16<T: Serialize>(kind: RecordKind, identity: &T) -> Hash16 {
    fingerprint(&(kind as u8, identity))
}

/// Returns a 16-byte fingerprint of a value.
pub(crate) fn fingerprint<T: Serialize>(value: &T) -> [u8; 16] {
    let bytes = postcard::to_stdvec(value).expect("plain values can be packed");
    let hash = blake3::hash(&bytes);
    hash.as_bytes()[..16].try_into().expect("a hash has 32 bytes")
}

/// A hash that tells which of several values differs. It is too short to tell that two are equal.
pub(crate) fn short_hash<T: Serialize>(value: &T) -> [u8; 2] {
    let bytes = postcard::to_stdvec(value).expect("plain values can be packed");
    let [low, high, ..] = crc32c::crc32c(&bytes).to_le_bytes();
    [low, high]
}

/// Returns the row that a change writes or deletes, if deciding looks it up and it can be packed
/// from the change alone.
pub(crate) fn record_row(change: &Change) -> Option<(Key, Option<Row>)> {
    let note_key = |generation, lane, offset| Key::Note { generation, lane, offset };
    let row = match change {
        Change::Record(record) => Row {
            key: Key::Record { kind: record.kind, hash: record.hash },
            columns: Columns::Record { expires: record.expires, bucket: record.bucket },
            body: record.body.clone(),
        },
        Change::LastError { generation, lane, offset, text, .. } => {
            plain(note_key(*generation, *lane, *offset), Bytes::copy_from_slice(text.as_bytes()))
        }
        Change::NoteGone { generation, lane, offset } => {
            return Some((note_key(*generation, *lane, *offset), None));
        }
        &Change::DeadGone { topic, seq } => {
            return Some((Key::Dead { topic, seq }, None));
        }
        &Change::MessageGone { topic, lane, offset } => {
            return Some((Key::Page { topic, lane, last: offset }, None));
        }
        Change::Dead(dead) => json_rows::put_dead(dead),
        Change::Effect(effect) => effect::put_effect(effect),
        &Change::EffectLink { generation, lane, offset, hash } => {
            plain(Key::Held { generation, lane, offset, hash }, Bytes::new())
        }
        Change::Outbox { target, seq, message } => {
            plain(Key::Outbox { target: *target, seq: *seq }, message::seal_outgoing(message))
        }
        Change::Pointer(row) => pointer::put_pointer(row),
        &Change::OutboxGone { target, seq } => {
            return Some((Key::Outbox { target, seq }, None));
        }
        &Change::HeldGone { generation, lane, offset, hash } => {
            return Some((Key::Held { generation, lane, offset, hash }, None));
        }
        _ => {
            return None;
        }
    };
    Some((row.key.clone(), Some(row)))
}

/// Creates a row without columns.
pub(crate) fn plain(key: Key, body: Bytes) -> Row {
    Row { key, columns: Columns::None, body }
}
