//! Access to private decoders for the fuzz targets. Compiled only for fuzzing.

use super::audit::{AuditRun, audit_rows, open_audit};
use super::block::block_row;
use super::effect::{effect_row, put_effect};
use super::json_rows::{put_dead, put_group, put_topic};
use super::message::{open_outgoing, seal_outgoing};
use super::page::pages;
use super::pointer::put_pointer;
use super::{CursorItem, Damaged, HeadBody, LaneItem, MarkItem, open, seal, verify};
use super::{dead_row, group_row, open_block, open_page, pointer_row, topic_row};
use crate::audit::Link;
use crate::change::Garbage;
use crate::command::Event;
use crate::id::Offset;
use crate::message::Message;
use crate::row::{Columns, Key, RecordKind, Row};
use crate::shard::{CommitRecord, DedupeRecord, Open, OpenEntries, RoutePin, Tombstone};

/// A decoded row in a form that can be compared, and the rows it encodes to.
#[derive(Debug)]
pub struct RoundTrip {
    /// Every decoded field.
    pub message: String,
    /// The rows, packed again.
    pub again: Vec<Row>,
}

/// Decodes a row by its table, and packs the result again.
pub fn reread(row: &Row) -> Result<RoundTrip, Damaged> {
    verify(row)?;
    match row.key {
        Key::Head { .. } => packed::<HeadBody>(row),
        Key::Lane { .. } => packed::<LaneItem>(row),
        Key::Cursor { .. } => packed::<CursorItem>(row),
        Key::Mark { .. } => packed::<MarkItem>(row),
        Key::Garbage { .. } => packed::<Garbage>(row),
        Key::Topic { .. } => topic_row(row).map(|topic| reread_as(&topic, vec![put_topic(&topic)])),
        Key::Group { .. } => group_row(row).map(|group| reread_as(&group, vec![put_group(&group)])),
        Key::Dead { .. } => dead_row(row).map(|dead| reread_as(&dead, vec![put_dead(&dead)])),
        Key::Page { .. } => page(row),
        Key::Block { .. } => block(row),
        Key::Note { .. } | Key::Owner { .. } => Ok(reread_as(&row.body, vec![row.clone()])),
        Key::Record { kind, .. } => record(kind, row),
        Key::History { .. } => packed::<Vec<(Offset, Event)>>(row),
        Key::Pointer { .. } => {
            pointer_row(row).map(|pointer| reread_as(&pointer, vec![put_pointer(&pointer)]))
        }
        Key::Outbox { .. } => open_outgoing(row).map(|outgoing| {
            let body = seal_outgoing(&outgoing);
            reread_as(&outgoing, vec![Row { body, ..row.clone() }])
        }),
        Key::Audit { .. } => audit(row),
        // Its key is its only content.
        Key::Held { .. } => Ok(reread_as(&(), vec![row.clone()])),
    }
}

fn record(kind: RecordKind, row: &Row) -> Result<RoundTrip, Damaged> {
    match kind {
        RecordKind::Dedupe | RecordKind::Routed => packed::<DedupeRecord>(row),
        RecordKind::Pin => packed::<RoutePin>(row),
        RecordKind::Tombstone => packed::<Tombstone>(row),
        RecordKind::Commit => packed::<CommitRecord>(row),
        RecordKind::Nonce => packed::<NonceRecord>(row),
        RecordKind::Effect => {
            effect_row(row).map(|effect| reread_as(&effect, vec![put_effect(&effect)]))
        }
    }
}

/// Also formats each record as the text that the chain hashes.
fn audit(row: &Row) -> Result<RoundTrip, Damaged> {
    let AuditRun { chain, before, records } = open_audit(row)?;
    let mut tip = before;
    let links: Vec<Link> = records
        .into_iter()
        .map(|record| {
            let before = std::mem::replace(&mut tip, tip.next(&record).0);
            Link { chain: chain.clone(), before, record, tip }
        })
        .collect();
    let again = audit_rows(&links.iter().collect::<Vec<_>>())
        .map(|again| Row { key: row.key.clone(), ..again });
    Ok(reread_as(&links, again.collect()))
}

fn reread_as<T: std::fmt::Debug>(value: &T, again: Vec<Row>) -> RoundTrip {
    RoundTrip { message: format!("{value:?}"), again }
}

fn packed<T>(row: &Row) -> Result<RoundTrip, Damaged>
where
    T: std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let value: T = open(row)?;
    let body = seal(&value);
    Ok(reread_as(&value, vec![Row { body, ..row.clone() }]))
}

fn page(row: &Row) -> Result<RoundTrip, Damaged> {
    let page = open_page(row)?;
    let (Key::Page { topic, lane, .. }, Columns::Page { at, .. }) = (&row.key, &row.columns) else {
        unreachable!("it was decoded as a page")
    };
    let messages: Vec<&Message> = page.messages.iter().map(|kept| &*kept.message).collect();
    let bytes_before = page.messages.first().map_or(0, |kept| kept.bytes_before);
    let again = pages(*topic, *lane, page.base, bytes_before, *at, &messages, false);
    let numbered: Vec<_> = (page.base..).zip(&page.messages).collect();
    Ok(reread_as(&numbered, again))
}

/// Packs each entry once, in offset order, as they are kept in memory.
fn block(row: &Row) -> Result<RoundTrip, Damaged> {
    let Key::Block { generation, lane, block, batch } = row.key else {
        unreachable!("the caller matched a block")
    };
    let entries = open_block(row)?;
    let mut open = OpenEntries::default();
    for &(offset, entry) in &entries {
        open.insert(offset, Open { entry, holder: None, granted_at: None });
    }
    let again = block_row((generation, lane, block), batch, open.block(block), &mut Vec::new());
    Ok(reread_as(&entries, again.into_iter().collect()))
}
