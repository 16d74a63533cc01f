//! Deletes the rows of deleted topics and of moved or deleted cursors, in bounded steps.
//!
//! All of these rows are dead by rule before they are swept. A dropped cursor may have held
//! outcomes of effects. They start to expire when the sweep reaches them.

use std::collections::BTreeSet;

use crate::change::{
    Change, Chore, Decision, Garbage, POINTER_PARTS, Reads, Sweep, VolatileChange,
};
use crate::id::{Generation, Lane, Offset};
use crate::limits::TRIM_OFFSETS_MAX;
use crate::refusal::{Decided, Refusal};
use crate::row::Hash16;
use crate::shard::context::Context;
use crate::shard::{Shard, done};

/// Ranges left to delete: (lane, from, to).
type Extents = Vec<(Lane, Offset, Offset)>;

impl Shard {
    /// Returns the ranges left to delete of a dropped cursor.
    fn swept_cursor(&self, id: u64) -> Option<(Generation, &Extents)> {
        match self.garbage.get(&id)? {
            Garbage::Cursor { generation, lanes } => Some((*generation, lanes)),
            Garbage::Topic { .. } | Garbage::Named { .. } => None,
        }
    }

    pub(crate) fn sweep_reads(&self, id: u64) -> Reads {
        let Some((generation, lanes)) = self.swept_cursor(id) else { return Vec::new() };
        let stretch = lanes.first().map(|(lane, from, to)| (*lane, *from, step_end(*from, *to)));
        stretch.map(|stretch| Shard::held_lookup(generation, stretch)).into_iter().collect()
    }
}

impl Context<'_> {
    /// Decides one bounded step through a dropped cursor: its blocks, errors and links to effects.
    pub(crate) fn sweep_cursor(&self, id: u64) -> Decided {
        let again = |at| VolatileChange::Chore(Chore::Sweep(id), at);
        let Some((generation, lanes)) = self.swept_cursor(id) else {
            return Ok(Decision { volatile: vec![again(None)], ..done() });
        };
        let Some(&(lane, from, to)) = lanes.first() else {
            let decision = done().with(Change::GarbageGone(id));
            return Ok(Decision { volatile: vec![again(None)], ..decision });
        };
        let (held, end) = self.rows.held_within(generation, lane, from, step_end(from, to))?;
        let mut decision = Decision { volatile: vec![again(Some(self.now))], ..done() };
        self.start_expiry(held, &mut decision.changes)?;
        decision.changes.push(Change::Sweep(Sweep::Blocks { generation, lane, from, to: end }));
        if end == to {
            decision.changes.push(Change::Sweep(Sweep::Cursor { generation, lane }));
        }
        let garbage = Box::new(Garbage::Cursor { generation, lanes: left(lanes, end) });
        Ok(decision.with(Change::Garbage { id, garbage }))
    }

    /// Outcomes that no open message needs any more start to expire.
    fn start_expiry(
        &self,
        hashes: BTreeSet<Hash16>,
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        let mut needs: Reads = Vec::new();
        for hash in hashes {
            match self.find_record(hash) {
                Ok(Some(mut row)) if row.holders == 0 && row.state.is_known() => {
                    row.expires = row.expires.min(self.now.after(row.ttl_ms));
                    self.put_effect(row, changes);
                }
                Ok(_) => {}
                Err(Refusal::Needs(reads)) => needs.extend(reads),
                Err(refusal) => return Err(refusal),
            }
        }
        if needs.is_empty() { Ok(()) } else { Err(needs.into()) }
    }
}

impl Shard {
    /// Decides one bounded step through a deleted topic.
    pub(crate) fn sweep_topic(&self, id: u64) -> Decision {
        let mut decision = done();
        let changes = &mut decision.changes;
        match self.garbage.get(&id) {
            Some(Garbage::Topic { topic, lanes }) => {
                let topic = *topic;
                let Some(&(lane, from, to)) = lanes.first() else {
                    let garbage = Box::new(Garbage::Named { topic, done: 0 });
                    changes.push(Change::Garbage { id, garbage });
                    return decision;
                };
                let end = step_end(from, to);
                changes.push(Change::Sweep(Sweep::Pages { topic, lane, from, to: end }));
                if end == to {
                    changes.push(Change::Sweep(Sweep::Lane { topic, lane }));
                }
                let garbage = Box::new(Garbage::Topic { topic, lanes: left(lanes, end) });
                changes.push(Change::Garbage { id, garbage });
            }
            Some(Garbage::Named { topic, done }) => {
                let (topic, done) = (*topic, *done);
                let from = done * TRIM_OFFSETS_MAX;
                let of = u8::try_from(done).ok().filter(|of| *of < POINTER_PARTS);
                // Dead letters have numbers below the shard's counter.
                if from >= self.ids && of.is_none() {
                    changes.push(Change::GarbageGone(id));
                    return decision;
                }
                if from < self.ids {
                    let to = from + TRIM_OFFSETS_MAX;
                    changes.push(Change::Sweep(Sweep::Dead { topic, from, to }));
                }
                changes.extend(of.map(|of| Change::Sweep(Sweep::Pointers { topic, of })));
                let garbage = Box::new(Garbage::Named { topic, done: done + 1 });
                changes.push(Change::Garbage { id, garbage });
            }
            Some(Garbage::Cursor { .. }) | None => {}
        }
        decision
    }
}

fn step_end(from: Offset, to: Offset) -> Offset {
    to.min(from + TRIM_OFFSETS_MAX)
}

/// Returns the ranges that are left when the first is done up to `end`.
fn left(lanes: &Extents, end: Offset) -> Extents {
    let mut left = lanes.clone();
    if end < left[0].2 {
        left[0].1 = end;
    } else {
        left.remove(0);
    }
    left
}
