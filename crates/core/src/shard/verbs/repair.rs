//! Repairs a lane in [`quarantine`](crate::shard::rules::quarantine), one bounded step at a time.
//!
//! 1. Pages first, in offset order. A damaged page is deleted. The messages of missing pages are
//!    lost: a page of placeholders is stored in their place, and placeholders are never delivered.
//!    Open deliveries of lost messages end.
//! 2. Then blocks ([`reopen`](crate::shard::verbs::reopen)).
//!
//! Rows of a later release are not repaired: that release can read them.
//!
//! An interrupted repair leaves the lane in quarantine. The next repair continues from there.

use std::sync::Arc;

use crate::change::{Change, Decision, End, Lookup, Reads};
use crate::command::{Rejection, Repair, Repaired, Reply};
use crate::effect::DoubtCause;
use crate::id::{Lane, Offset, Text};
use crate::limits::PAGE_MESSAGES_MAX;
use crate::message::{Envelope, Message};
use crate::pack::Damaged;
use crate::refusal::{Decided, Refusal};
use crate::shard::context::Context;
use crate::shard::state::open_delivery::OpenDelivery;
use crate::shard::verbs::seek::bytes_at;
use crate::shard::{Cursor, Shard, Topic, done};
use crate::time::Timestamp;

impl Shard {
    pub(crate) fn repair_reads(&self, repair: &Repair) -> Reads {
        let Ok(topic) = self.topic_named(&repair.topic) else { return Vec::new() };
        let lane = Lane::of(repair.partition);
        if repair.partition >= topic.row.partitions {
            return Vec::new();
        }
        let from = self.repair_from(topic, lane, repair.from);
        if from < topic.lane(lane).high {
            vec![Lookup::Pages { topic: topic.row.id, lane, from }]
        } else {
            Vec::new()
        }
    }
}

impl Context<'_> {
    /// Decides one step. The reply contains the offset of the next step.
    pub(crate) fn repair(&self, repair: &Repair) -> Decided {
        let topic = self.topic_named(&repair.topic)?;
        if repair.partition >= topic.row.partitions {
            let message = format!("must be below {}", topic.row.partitions);
            return Err(Rejection::invalid("partition", message).into());
        }
        let lane = Lane::of(repair.partition);
        let from = self.repair_from(topic, lane, repair.from);
        if from < topic.lane(lane).high {
            return self.repair_pages(topic, lane, from, repair.dry_run);
        }
        self.repair_blocks(topic, lane, repair.dry_run)
    }
}

impl Shard {
    /// The lowest offset at or above `from` that a group may need.
    fn repair_from(&self, topic: &Topic, lane: Lane, from: Offset) -> Offset {
        let cursors = topic.groups.values().map(|id| self.groups[id].cursor(lane));
        let lowest = cursors.map(Cursor::low).chain([topic.lane(lane).first]).min();
        from.max(lowest.unwrap_or(0))
    }
}

impl Context<'_> {
    /// Checks the pages of one read. Stops after the first repair.
    fn repair_pages(&self, topic: &Topic, lane: Lane, from: Offset, dry_run: bool) -> Decided {
        let state = topic.lane(lane);
        let (pages, end) = self.rows.page_states(topic.row.id, lane, from)?;
        let mut expected = from;
        for page in pages {
            if page.content.as_ref().is_err_and(Damaged::is_newer) {
                return Err(Rejection::NewerRows.into());
            }
            let is_whole = page.content.is_ok();
            // The neighbours of a damaged page determine its bounds.
            let base = page.content.as_ref().map_or(expected, |content| content.base);
            if base > expected && !topic.is_dlq() {
                let gap = Gap { from: expected, to: base, bytes: page.bytes_before(), at: page.at };
                if let Some(step) = self.lose(topic, lane, gap, dry_run)? {
                    return Ok(step);
                }
            }
            let after = page.last + 1;
            if !is_whole && dry_run {
                return Ok(reply(Repaired { lost: vec![(expected, after)], ..next(after) }));
            }
            if !is_whole {
                let lost = if topic.is_dlq() { vec![(page.last, after)] } else { Vec::new() };
                let gone = Change::MessageGone { topic: topic.row.id, lane, offset: page.last };
                return Ok(reply(Repaired { lost, ..next(expected) }).with(gone));
            }
            expected = expected.max(after);
        }
        let end = end.min(state.high).max(expected);
        if expected < end && !topic.is_dlq() {
            let gap = Gap { from: expected, to: end, bytes: None, at: self.now };
            if let Some(step) = self.lose(topic, lane, gap, dry_run)? {
                return Ok(step);
            }
        }
        Ok(reply(next(end)))
    }

    /// Repairs a gap, which is a range without stored messages. Below the first kept offset a gap
    /// is normal, unless a message is open there.
    fn lose(
        &self,
        topic: &Topic,
        lane: Lane,
        gap: Gap,
        dry_run: bool,
    ) -> Result<Option<Decision>, Refusal> {
        let first = topic.lane(lane).first;
        let (from, to) = if gap.from < first {
            match self.open_offsets(topic, lane, gap.from, gap.to.min(first)).first() {
                Some(open) => (*open, open + 1),
                None if gap.to > first => (first, gap.to),
                None => return Ok(None),
            }
        } else {
            (gap.from, gap.to)
        };
        let to = to.min(from + PAGE_MESSAGES_MAX as u64);
        let mut step = reply(Repaired { lost: vec![(from, to)], ..next(to) });
        if dry_run {
            return Ok(Some(step));
        }
        self.end_lost(topic, lane, from, to, &mut step.changes)?;
        if from >= first {
            let bytes = gap.bytes.filter(|_| to == gap.to);
            let bytes = bytes.unwrap_or_else(|| bytes_at(topic.lane(lane), to));
            let messages = (from..to).map(|_| self.placeholder(gap.at)).collect();
            let topic = topic.row.id;
            step.changes.push(Change::Lost { topic, lane, from, bytes, messages });
        }
        Ok(Some(step))
    }

    /// Ends the open deliveries of lost messages. The outcomes of their effects are kept.
    fn end_lost(
        &self,
        topic: &Topic,
        lane: Lane,
        from: Offset,
        to: Offset,
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        let mut needs: Reads = Vec::new();
        for id in topic.groups.values() {
            let group = &self.groups[id];
            for (offset, open) in group.cursor(lane).open.range(from, to) {
                let held = OpenDelivery { topic, group, lane, offset, entry: &open.entry };
                self.purge_open(&held, changes, &mut needs)?;
            }
        }
        if needs.is_empty() { Ok(()) } else { Err(needs.into()) }
    }

    /// Ends an open delivery of a message that is no longer stored.
    pub(crate) fn purge_open(
        &self,
        held: &OpenDelivery<'_>,
        changes: &mut Vec<Change>,
        needs: &mut Reads,
    ) -> Result<(), Refusal> {
        match self.effects_of_delivery(held) {
            Ok(mut effects) => {
                // Two messages may share an effect.
                effects.as_changed_by(changes);
                self.detach_effects(held, effects, DoubtCause::Abandoned, changes);
            }
            Err(Refusal::Needs(more)) => needs.extend(more),
            Err(refusal) => return Err(refusal),
        }
        self.end(held, End::Purged, changes);
        self.remember_ack(held, changes);
        Ok(())
    }

    /// Returns a message that is never delivered. It is for the group with the empty name, which
    /// cannot exist.
    fn placeholder(&self, produced_at: Timestamp) -> Arc<Message> {
        Arc::new(Message {
            restore: self.config.restore,
            produced_at,
            key: Default::default(),
            value: Default::default(),
            envelope: Envelope::default(),
            routing: None,
            trace: None,
            origin: None,
            redriven: 0,
            for_group: Some(Text::default()),
            death: None,
        })
    }
}

/// Offsets without a page.
struct Gap {
    from: Offset,
    to: Offset,
    /// The byte total of the lane after the gap, if known.
    bytes: Option<u64>,
    /// When the page after the gap was stored. Pages are ordered by time.
    at: Timestamp,
}

pub(crate) fn reply(repaired: Repaired) -> Decision {
    Decision { reply: Reply::Repaired(repaired), ..done() }
}

/// Returns an empty report. The repair continues at `from`.
pub(crate) fn next(from: Offset) -> Repaired {
    Repaired { next: Some(from), ..Repaired::default() }
}
