//! Message history: the events of a message's entries, kept for topics that enable it.
//!
//! Events are derived from the changes of an entry, so no verb has to report its own. Rows are
//! packed when a batch is closed, so `explain` does not see events of its own batch.

use crate::change::{Change, End, Entry, EntryState};
use crate::command::{Event, EventKind};
use crate::id::cut;
use crate::id::{GroupId, Lane, Offset, Text, TopicId, no_text};
use crate::limits::{BLOCK_OFFSETS, HISTORY_ERROR_BYTES_MAX};
use crate::pack::history_row;
use crate::refusal::Refusal;
use crate::shard::Shard;
use crate::shard::context::Context;
use crate::time::Timestamp;

impl Shard {
    /// Returns the history event of a change, if it has one. `all` are the changes of its decision.
    /// Must be called before the change is absorbed.
    pub(crate) fn event(&self, now: Timestamp, change: &Change, all: &[Change]) -> Option<Change> {
        let (of, lane, offset, after) = match change {
            Change::Open { group, lane, offset, entry, .. } => (group, *lane, *offset, Ok(entry)),
            Change::Close { group, lane, offset, end } => (group, *lane, *offset, Err(end)),
            _ => {
                return None;
            }
        };
        let group = self.groups.get(of)?;
        let topic = self.topics.get(&group.row.topic).filter(|topic| topic.settings.history)?;
        let before = group.cursors.get(lane.index())?.open.get(offset).map(|open| &open.entry);
        let kind = match after {
            Ok(entry) => changed(before, entry)?,
            Err(End::Acked) => EventKind::Acked,
            Err(End::Dead { .. }) => EventKind::Dead,
            Err(End::Purged) => EventKind::Purged,
        };
        let entry = after.ok().or(before)?;
        let is_delivered = kind == EventKind::Delivered;
        let owner = if is_delivered { self.owners.name(entry.owner) } else { no_text() };
        let event = Event {
            at: now,
            group: group.row.name.clone(),
            kind,
            attempt: entry.attempt,
            owner,
            error: error_of(kind, *of, lane, offset, all),
        };
        let (topic, event) = (topic.row.id, Box::new(event));
        Some(Change::History { topic, lane, offset, event })
    }
}

impl Context<'_> {
    /// Returns the stored events of a message, oldest first.
    pub(crate) fn history(
        &self,
        topic: TopicId,
        lane: Lane,
        offset: Offset,
    ) -> Result<Vec<Event>, Refusal> {
        let mut events = Vec::new();
        for row in self.rows.history(topic, lane, offset / BLOCK_OFFSETS)? {
            let told = history_row(row)?.into_iter();
            events.extend(told.filter(|(of, _)| *of == offset).map(|(_, event)| event));
        }
        Ok(events)
    }
}

impl Shard {
    /// Whether the messages of a block are all trimmed and none is open.
    pub(crate) fn is_deleted(&self, topic: TopicId, lane: Lane, block: u64) -> bool {
        let Some(topic) = self.topics.get(&topic) else { return true };
        let has_open =
            |group: &GroupId| self.groups[group].cursor(lane).open.block(block).next().is_some();
        (block + 1) * BLOCK_OFFSETS <= topic.lane(lane).first
            && !topic.groups.values().any(has_open)
    }
}

/// Returns the event of an entry's change, or None if the change is not recorded.
fn changed(before: Option<&Entry>, after: &Entry) -> Option<EventKind> {
    let before = before.filter(|before| before.attempt == after.attempt);
    let is_same = before.is_some_and(|before| before.state == after.state);
    match after.state {
        EntryState::Leased if before.is_none() => Some(EventKind::Delivered),
        EntryState::Leased => {
            before.filter(|before| before.at != after.at).map(|_| EventKind::Extended)
        }
        EntryState::Expired if !is_same => Some(EventKind::Expired),
        EntryState::Nacked if !is_same => Some(EventKind::Nacked),
        EntryState::Returned if !is_same => Some(EventKind::Returned),
        EntryState::Expired | EntryState::Nacked | EntryState::Returned => None,
    }
}

/// Returns the last error that the decision stores for a failed entry.
fn error_of(kind: EventKind, of: GroupId, lane: Lane, offset: Offset, all: &[Change]) -> Text {
    if !matches!(kind, EventKind::Nacked | EventKind::Dead) {
        return no_text();
    }
    let error = all.iter().find_map(|change| {
        let Change::LastError { group, lane: at, offset: place, text, .. } = change else {
            return None;
        };
        ((*group, *at, *place) == (of, lane, offset)).then_some(text)
    });
    error.map_or_else(no_text, |error| cut(error, HISTORY_ERROR_BYTES_MAX))
}
