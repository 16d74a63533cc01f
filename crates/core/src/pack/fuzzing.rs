//! The door of the fuzz targets to decoders that nobody else may use. Not in any build that is served.

use super::audit::AuditBody;
use super::block::block_row;
use super::effect::{effect_row, put_effect};
use super::named::{put_dead, put_group, put_topic};
use super::page::pages;
use super::pointer::put_pointer;
use super::{CursorItem, Damaged, HeadBody, LaneItem, MarkItem, seal, try_open, verify};
use super::{dead_row, group_row, open_block, open_page, pointer_row, topic_row};
use crate::audit::AuditRecord;
use crate::change::Garbage;
use crate::message::Message;
use crate::row::{Columns, Key, RecordKind, Row};
use crate::shard::{Open, OpenEntries};

/// What a row says, in words that can be compared, and the rows that say it again.
#[derive(Debug)]
pub struct Reread {
    /// Every field of what was read.
    pub says: String,
    /// Packed anew.
    pub again: Vec<Row>,
}

/// Reads a row as its table is read, and packs what was read.
pub fn reread(row: &Row) -> Result<Reread, Damaged> {
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
        Key::Record { kind: RecordKind::Effect, .. } => {
            effect_row(row).map(|effect| reread_as(&effect, vec![put_effect(&effect)]))
        }
        Key::History { .. } => packed::<Vec<(crate::id::Offset, crate::command::Event)>>(row),
        Key::Pointer { .. } => {
            pointer_row(row).map(|pointer| reread_as(&pointer, vec![put_pointer(&pointer)]))
        }
        Key::Outbox { .. } => packed::<crate::command::Outgoing>(row),
        Key::Audit { .. } => packed::<AuditBody<AuditRecord>>(row),
        Key::Held { .. } => Ok(reread_as(&(), vec![row.clone()])),
        // Its content is known to the verbs alone.
        Key::Record { .. } => Ok(reread_as(&(), vec![row.clone()])),
    }
}

fn reread_as<T: std::fmt::Debug>(value: &T, again: Vec<Row>) -> Reread {
    Reread { says: format!("{value:?}"), again }
}

fn packed<T>(row: &Row) -> Result<Reread, Damaged>
where
    T: std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let value: T = try_open(row)?;
    let body = seal(&value);
    Ok(reread_as(&value, vec![Row { body, ..row.clone() }]))
}

fn page(row: &Row) -> Result<Reread, Damaged> {
    let page = open_page(row)?;
    let (Key::Page { topic, lane, .. }, Columns::Page { at, .. }) = (&row.key, &row.columns) else {
        unreachable!("it was read as a page")
    };
    let messages: Vec<&Message> = page.messages.iter().map(|kept| &*kept.message).collect();
    let bytes_before = page.messages.first().map_or(0, |kept| kept.bytes_before);
    let again = pages(*topic, *lane, page.base, bytes_before, *at, &messages, false);
    let numbered: Vec<_> = (page.base..).zip(&page.messages).collect();
    Ok(reread_as(&numbered, again))
}

/// Entries in the order of their offsets, each once: so they are kept in memory.
fn block(row: &Row) -> Result<Reread, Damaged> {
    let Key::Block { generation, lane, block, batch } = row.key else {
        unreachable!("it is looked at as a block")
    };
    let entries = open_block(row)?;
    let mut open = OpenEntries::default();
    for &(offset, entry) in &entries {
        open.insert(offset, Open { entry, holder: None });
    }
    let again = block_row((generation, lane, block), batch, &open, &mut Vec::new());
    Ok(reread_as(&entries, again.into_iter().collect()))
}
