//! Pages: messages of a lane that were committed together.

use std::sync::Arc;

use crate::id::{Lane, Offset, TopicId};
use crate::limits::{PAGE_BYTES_MAX, PAGE_MESSAGES_MAX};
use crate::message::{Kept, Message};
use crate::pack::Damaged;
use crate::pack::message::{open_messages, seal_messages};
use crate::row::{Columns, Key, Row};
use crate::time::Timestamp;

/// Most bytes of a message in a page besides its content.
const MESSAGE_OVERHEAD: u64 = 64;

/// Messages of a page, unpacked.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) base: Offset,
    pub(crate) messages: Vec<Kept>,
}

/// Packs the messages of a lane that the commit at `at` stores, from `base` on.
pub(crate) fn pages(
    topic: TopicId,
    lane: Lane,
    base: Offset,
    bytes_before: u64,
    at: Timestamp,
    messages: &[&Message],
    one_each: bool,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let (mut base, mut bytes_before, mut rest) = (base, bytes_before, messages);
    while !rest.is_empty() {
        let count = if one_each { 1 } else { page_length(rest) };
        let (page, after) = rest.split_at(count);
        let bytes = page.iter().map(|message| message.size()).sum();
        let last = base + count as u64 - 1;
        let columns = Columns::Page { base, bytes, at };
        let body = seal_messages(bytes_before, page);
        rows.push(Row { key: Key::Page { topic, lane, last }, columns, body });
        base += count as u64;
        bytes_before += bytes;
        rest = after;
    }
    rows
}

/// Returns how many of the messages fit into one page. A message larger than a page gets its own.
fn page_length(messages: &[&Message]) -> usize {
    let mut bytes = 0;
    let fits = messages.iter().take(PAGE_MESSAGES_MAX).take_while(|message| {
        bytes += message.content_bytes() + MESSAGE_OVERHEAD;
        bytes <= PAGE_BYTES_MAX as u64
    });
    fits.count().max(1)
}

/// Unpacks a page.
pub(crate) fn open_page(row: &Row) -> Result<Page, Damaged> {
    let damaged = |why| Damaged::of(&row.key, why);
    let (mut bytes_before, messages) = open_messages(&row.body).map_err(damaged)?;
    let (Key::Page { last, .. }, Columns::Page { base, .. }) = (&row.key, &row.columns) else {
        return Err(damaged("it is not a page"));
    };
    if base + messages.len() as u64 != last + 1 {
        return Err(damaged("its message count does not match its offsets"));
    }
    let keep = |message: Message| {
        let kept = Kept { bytes_before, message: Arc::new(message) };
        bytes_before += kept.message.size();
        kept
    };
    Ok(Page { base: *base, messages: messages.into_iter().map(keep).collect() })
}
