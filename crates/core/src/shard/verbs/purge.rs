//! Purges dead letters: deletes messages that were never settled.
//!
//! A purge leaves a hole in the lane of the dead letters. Groups of `dlq.<topic>` skip it:
//!
//! 1. An open delivery of a purged message ends. For a late ack the message is settled.
//! 2. A cursor skips a hole when it reaches it ([`dispatch`](crate::shard::dispatch)). Until then
//!    the hole counts in the backlog of the group. If every message below an offset was deleted,
//!    cursors move to that offset at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::{Change, DeadRow, Decision, LaneState, Lookup, Reads};
use crate::command::{Purge, Rejection, Reply};
use crate::id::{Lane, MessageId, Offset, ShardId};
use crate::limits::PURGE_MAX;
use crate::pack;
use crate::refusal::{Decided, Refusal};
use crate::row::Key;
use crate::shard::chores::retention::lane_state;
use crate::shard::context::Context;
use crate::shard::state::open_delivery::OpenDelivery;
use crate::shard::{Shard, Topic, done};

/// Returns the ids that are inside the lanes of `dlq`, without duplicates.
fn ids_within(shard: ShardId, dlq: &Topic, ids: &[MessageId]) -> BTreeSet<MessageId> {
    let is_there = |id: &&MessageId| {
        (id.shard, id.topic) == (shard, dlq.row.id)
            && id.lane.0 < dlq.row.partitions
            && (dlq.lane(id.lane).first..dlq.lane(id.lane).high).contains(&id.offset)
    };
    ids.iter().filter(is_there).copied().collect()
}

impl Shard {
    pub(crate) fn purge_reads(&self, purge: &Purge) -> Reads {
        let source = self.topic_named(&purge.topic).ok();
        let Some(dlq) = source.and_then(|source| source.dlq) else { return Vec::new() };
        if purge.ids.len() > PURGE_MAX {
            return Vec::new();
        }
        let ids = ids_within(self.config.shard, &self.topics[&dlq], &purge.ids).into_iter();
        let absent = ids.filter(|id| self.volatile.cache.get(dlq, id.lane, id.offset).is_none());
        absent.map(|id| Lookup::Message { topic: dlq, lane: id.lane, offset: id.offset }).collect()
    }
}

impl Context<'_> {
    pub(crate) fn purge(&self, purge: &Purge) -> Decided {
        let source = self.topic_named(&purge.topic)?;
        let rows = self.meant(source, purge)?;
        let mut decision = done();
        if let Some(dlq) = source.dlq {
            let dlq = &self.topics[&dlq];
            self.delete_dead_letters(source, dlq, &rows, &mut decision.changes)?;
            self.advance_lane_start(dlq, &rows, &mut decision.changes);
        }
        Ok(Decision { reply: Reply::Purged { purged: rows.len() as u64 }, ..decision })
    }

    pub(crate) fn would_purge(&self, purge: &Purge) -> Decided {
        let rows = self.meant(self.topic_named(&purge.topic)?, purge)?;
        Ok(Decision::reply(Reply::Purged { purged: rows.len() as u64 }))
    }

    /// Returns the rows of the named dead letters that exist.
    fn meant(&self, source: &Topic, purge: &Purge) -> Result<Vec<DeadRow>, Refusal> {
        if purge.ids.len() > PURGE_MAX {
            return Err(
                Rejection::invalid("ids", format!("at most {PURGE_MAX} are allowed")).into()
            );
        }
        let Some(dlq) = source.dlq.map(|dlq| &self.topics[&dlq]) else { return Ok(Vec::new()) };
        let mut needs: Reads = Vec::new();
        let mut rows: Vec<DeadRow> = Vec::new();
        for id in ids_within(self.config.shard, dlq, &purge.ids) {
            match self.dead_row_at(dlq, id.lane, id.offset) {
                // Offsets are reused after a restore: an id issued before it may name another dead
                // letter.
                Ok(row) => rows.extend(row.filter(|row| row.restore == id.restore)),
                Err(Refusal::Needs(more)) => needs.extend(more),
                Err(refusal) => return Err(refusal),
            }
        }
        if needs.is_empty() { Ok(rows) } else { Err(needs.into()) }
    }

    /// Returns the row of the dead letter at an offset, unless it was deleted.
    fn dead_row_at(
        &self,
        dlq: &Topic,
        lane: Lane,
        offset: Offset,
    ) -> Result<Option<DeadRow>, Refusal> {
        let topic = dlq.row.id;
        let message = self.dead_message(topic, lane, offset)?;
        let Some(seq) = message.and_then(|dead| dead.death.as_ref().map(|death| death.seq)) else {
            return Ok(None);
        };
        let row = self.rows.row(Key::Dead { topic, seq })?;
        Ok(row.map(pack::dead_row).transpose()?)
    }

    /// Deletes the rows and pages of dead letters, and ends their open deliveries and effects.
    pub(crate) fn delete_dead_letters(
        &self,
        source: &Topic,
        dlq: &Topic,
        rows: &[DeadRow],
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        let mut needs: Reads = Vec::new();
        let mut still_dead: BTreeMap<Lane, u64> = BTreeMap::new();
        for row in rows {
            let DeadRow { topic, seq, lane, offset, .. } = *row;
            for id in dlq.groups.values() {
                let group = &self.groups[id];
                if let Some(open) = group.cursor(lane).open.get(offset) {
                    let held = OpenDelivery { topic: dlq, group, lane, offset, entry: &open.entry };
                    self.purge_open(&held, changes, &mut needs)?;
                }
            }
            changes.push(Change::MessageGone { topic, lane, offset });
            changes.push(Change::DeadGone { topic, seq });
            if row.redriven.is_none() {
                *still_dead.entry(lane).or_default() += 1;
            }
        }
        for (lane, count) in still_dead {
            let state = source.lane(lane);
            let dead = state.dead.saturating_sub(count);
            let state = LaneState { dead, ..state.clone() };
            changes.push(Change::Lane { topic: source.row.id, lane, state });
        }
        if needs.is_empty() { Ok(()) } else { Err(needs.into()) }
    }

    /// If the lowest dead letters of a lane were deleted, the lane starts after them.
    fn advance_lane_start(&self, dlq: &Topic, rows: &[DeadRow], changes: &mut Vec<Change>) {
        let gone: BTreeMap<(Lane, Offset), &DeadRow> =
            rows.iter().map(|row| ((row.lane, row.offset), row)).collect();
        let lanes: BTreeSet<Lane> = rows.iter().map(|row| row.lane).collect();
        for lane in lanes {
            let first = dlq.lane(lane).first;
            let lowest = (first..).map_while(|offset| gone.get(&(lane, offset)));
            if let Some(last) = lowest.last() {
                self.begin_after(dlq, last, changes);
            }
        }
    }

    /// Moves the start of the lane, and the cursors before it, to the offset after `row`. Every
    /// message up to there was deleted.
    pub(crate) fn begin_after(&self, dlq: &Topic, row: &DeadRow, changes: &mut Vec<Change>) {
        let lane = row.lane;
        let (first, first_bytes) = (row.offset + 1, row.bytes + row.size);
        let state = lane_state(dlq, lane, changes);
        let state = LaneState { first, first_bytes, trimmed: first, ..state };
        changes.push(Change::Lane { topic: dlq.row.id, lane, state });
        for id in dlq.groups.values() {
            if self.groups[id].cursor(lane).next < first {
                changes.push(Change::Cursor { group: *id, lane, next: first, bytes: first_bytes });
            }
        }
    }
}
