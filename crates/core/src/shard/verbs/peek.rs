//! Shows messages without leasing them: one slice of one partition.
//!
//! 1. A slice is the result of one read, or a run of messages in memory. The caller continues where
//!    it ended.
//! 2. A message below the first kept offset is shown only while some group has it open, even if its
//!    page is still stored.
//! 3. Purged dead letters are not shown.

use std::sync::Arc;

use crate::change::{Decision, Entry, LastError, Lookup, Reads};
use crate::command::{
    Missing, Peek, PeekFilter, PeekState, Peeked, PeekedLease, PeekedMessage, Rejection, Reply,
};
use crate::id::{Lane, Offset, Text, no_text};
use crate::limits::PEEK_ERRORS_MAX;
use crate::message::Message;
use crate::refusal::{Decided, Refusal};
use crate::shard::context::Context;
use crate::shard::{Group, Shard, Topic};

/// A peek with its names resolved.
struct View<'a> {
    topic: &'a Topic,
    lane: Lane,
    group: Option<&'a Group>,
    /// The first offset that is shown.
    from: Offset,
}

/// Consecutive messages, and the offset where the next slice starts.
struct Slice {
    messages: Vec<(Offset, Arc<Message>)>,
    end: Offset,
}

impl Shard {
    pub(crate) fn peek_reads(&self, peek: &Peek) -> Reads {
        let Ok(View { topic, lane, from, .. }) = self.peek_view(peek) else { return Vec::new() };
        let topic_id = topic.row.id;
        let is_read =
            from < topic.lane(lane).high && self.volatile.cache.get(topic_id, lane, from).is_none();
        if is_read { vec![Lookup::Pages { topic: topic_id, lane, from }] } else { Vec::new() }
    }
}

impl Context<'_> {
    pub(crate) fn peek(&self, peek: &Peek) -> Decided {
        if self.topic_named(&peek.topic).is_err() {
            // The topic of dead letters before the first one.
            self.topic_to_show(&peek.topic)?;
            let empty = Peeked { messages: Vec::new(), scanned: 0, next: None };
            return Ok(Decision::reply(Reply::Peeked(Box::new(empty))));
        }
        let view = self.peek_view(peek)?;
        let slice = self.peek_slice(&view)?;
        let mut peeked = Peeked { messages: Vec::new(), scanned: 0, next: Some(slice.end) };
        let mut needs: Reads = Vec::new();
        let mut errors = 0;
        for (offset, message) in slice.messages {
            if !self.is_shown(&view, offset) {
                continue;
            }
            let is_full = peeked.messages.len() >= peek.limit.max(1) as usize
                || peeked.scanned >= peek.scan.max(1)
                || errors >= PEEK_ERRORS_MAX;
            if is_full {
                peeked.next = Some(offset);
                break;
            }
            peeked.scanned += 1;
            let state = view.group.map(|group| state_in(group, view.lane, offset, &message));
            if !fits(&peek.filter, &message, state) {
                continue;
            }
            let entry = view.group.and_then(|group| entry_of(group, view.lane, offset));
            errors += usize::from(entry.is_some_and(|entry| entry.error == LastError::Note));
            match self.peek_message(&view, offset, message, state, entry) {
                Ok(message) => peeked.messages.push(message),
                Err(Refusal::Needs(more)) => needs.extend(more),
                Err(refusal) => return Err(refusal),
            }
        }
        if !needs.is_empty() {
            return Err(needs.into());
        }
        let high = view.topic.lane(view.lane).high;
        peeked.next = peeked.next.filter(|next| *next < high);
        Ok(Decision::reply(Reply::Peeked(Box::new(peeked))))
    }
}

impl Shard {
    fn peek_view(&self, peek: &Peek) -> Result<View<'_>, Rejection> {
        let topic = self.topic_named(&peek.topic)?;
        if peek.partition >= topic.row.partitions {
            return Err(Rejection::invalid("partition", "does not exist in this topic"));
        }
        if peek.filter.state.is_some() && peek.group.is_none() {
            return Err(Rejection::invalid("state", "requires a group"));
        }
        let group = match &peek.group {
            None => None,
            Some(name) => {
                let id = topic.groups.get(name).ok_or(Rejection::NotFound(Missing::Group))?;
                Some(&self.groups[id])
            }
        };
        let lane = Lane::of(peek.partition);
        let from = match (group, peek.filter.state) {
            (Some(group), Some(state @ (PeekState::Leased | PeekState::Waiting))) => {
                first_open(group, lane, peek.from, state).unwrap_or(topic.lane(lane).high)
            }
            _ => peek.from,
        };
        let from = self.first_shown(topic, lane, from);
        Ok(View { topic, lane, group, from })
    }

    /// Returns the first offset at or above `from` that is kept or open.
    fn first_shown(&self, topic: &Topic, lane: Lane, from: Offset) -> Offset {
        let first = topic.lane(lane).first;
        let cursors = topic.groups.values().map(|group| self.groups[group].cursor(lane));
        let open = cursors.filter_map(|cursor| cursor.open.range(from, first).next());
        open.map(|(offset, _)| offset).min().unwrap_or(from.max(first))
    }
}

impl Context<'_> {
    fn is_shown(&self, view: &View<'_>, offset: Offset) -> bool {
        let mut groups = view.topic.groups.values().map(|group| &self.groups[group]);
        offset >= view.topic.lane(view.lane).first
            || groups.any(|group| group.cursor(view.lane).open.contains(offset))
    }

    fn peek_slice(&self, view: &View<'_>) -> Result<Slice, Refusal> {
        let View { topic, lane, from, .. } = *view;
        if from >= topic.lane(lane).high {
            return Ok(Slice { messages: Vec::new(), end: from });
        }
        let kept = self.volatile.cache.run(topic.row.id, lane, from);
        if !kept.is_empty() {
            let messages = (from..).zip(kept.iter().map(|kept| kept.message.clone())).collect();
            return Ok(Slice { messages, end: from + kept.len() as u64 });
        }
        let run = self.rows.pages(topic.row.id, lane, from)?;
        let messages = run.pages.into_iter().flat_map(|page| (page.base..).zip(page.messages));
        let messages = messages.map(|(offset, kept)| (offset, kept.message));
        Ok(Slice {
            messages: messages.filter(|(offset, _)| *offset >= from).collect(),
            end: run.end,
        })
    }

    fn peek_message(
        &self,
        view: &View<'_>,
        offset: Offset,
        message: Arc<Message>,
        state: Option<PeekState>,
        entry: Option<&Entry>,
    ) -> Result<PeekedMessage, Refusal> {
        let last_error = match view.group {
            Some(group) => self.last_error(group, view.lane, offset, entry)?,
            None => no_text(),
        };
        Ok(PeekedMessage {
            id: self.message_id(view.topic.row.id, view.lane, offset).under(message.restore),
            partition: view.lane.partition(),
            offset,
            message,
            state,
            attempts: entry.map_or(0, |entry| entry.spent),
            last_error,
            next_attempt_at: entry.filter(|entry| !entry.is_leased()).map(|entry| entry.at),
            lease: entry.filter(|entry| entry.is_leased()).map(|entry| PeekedLease {
                owner: self.owners.name(entry.owner),
                attempt: entry.attempt,
                until: self.effective_end(entry),
            }),
        })
    }
}

/// Returns the first offset at or above `from` that is open in this state. Few messages are open, so
/// the others need not be read.
fn first_open(group: &Group, lane: Lane, from: Offset, state: PeekState) -> Option<Offset> {
    let is_leased = state == PeekState::Leased;
    let mut open = group.cursor(lane).open.range(from, Offset::MAX);
    open.find(|(_, open)| open.entry.is_leased() == is_leased).map(|(offset, _)| offset)
}

fn entry_of(group: &Group, lane: Lane, offset: Offset) -> Option<&Entry> {
    group.cursor(lane).open.get(offset).map(|open| &open.entry)
}

/// Returns the state of a message in a group.
pub(crate) fn state_in(group: &Group, lane: Lane, offset: Offset, message: &Message) -> PeekState {
    match entry_of(group, lane, offset) {
        Some(entry) if entry.is_leased() => PeekState::Leased,
        Some(_) => PeekState::Waiting,
        None if offset < group.cursor(lane).next || !is_for(group, message) => PeekState::Settled,
        None => PeekState::Ready,
    }
}

/// Whether the message is for this group. A redriven message is for the group that failed; other
/// groups skip it.
fn is_for(group: &Group, message: &Message) -> bool {
    message.for_group.as_ref().is_none_or(|name| *name == group.row.name)
}

fn fits(filter: &PeekFilter, message: &Message, state: Option<PeekState>) -> bool {
    let envelope = &message.envelope;
    let same = |wanted: &Option<Text>, is: Option<&str>| {
        wanted.as_ref().is_none_or(|wanted| is == Some(&**wanted))
    };
    filter.key.as_ref().is_none_or(|key| *key == message.key)
        && same(&filter.run_id, envelope.run_id.as_deref())
        && same(&filter.step_id, envelope.step_id.as_deref())
        && same(&filter.tenant_id, Some(message.tenant()))
        && same(&filter.idempotency_key, envelope.idempotency_key.as_deref())
        && filter.since.is_none_or(|since| message.produced_at >= since)
        && filter.until.is_none_or(|until| message.produced_at < until)
        && filter.state.is_none_or(|wanted| state == Some(wanted))
}
