//! Which open messages an effect was begun under.
//!
//! 1. An effect counts them by cursor life. A cursor that is moved or deleted ends all its entries at once, and what it
//!    counted is not counted any more from that moment on.
//! 2. Every other end of an entry releases its effects in the same commit.
//! 3. Releases up to 0.1 forgot some ends and kept one count for all cursors. Such a count is not believed: the `held`
//!    rows of open entries say what is still held.

use crate::change::{Lookup, Reads};
use crate::effect::{EffectName, EffectRow, HeldBy};
use crate::id::{Generation, Lane, Offset};
use crate::limits::HOLDERS_READ_MAX;
use crate::pack::effect_hash;
use crate::refusal::Refusal;
use crate::shard::context::Context;
use crate::shard::{Group, Shard};

impl EffectRow {
    /// Counts an open entry of this cursor.
    pub(super) fn hold(&mut self, generation: Generation, lane: Lane) {
        let of = |by: &&mut HeldBy| (by.generation, by.lane) == (generation, lane);
        match self.held_by.iter_mut().find(of) {
            Some(by) => by.count += 1,
            None => self.held_by.push(HeldBy { generation, lane, count: 1 }),
        }
        self.holders += 1;
    }

    /// An open entry of this cursor has ended.
    pub(super) fn release(&mut self, generation: Generation, lane: Lane) {
        let of = |by: &&mut HeldBy| (by.generation, by.lane) == (generation, lane);
        if let Some(by) = self.held_by.iter_mut().find(of) {
            by.count -= 1;
            self.holders -= 1;
        }
        self.held_by.retain(|by| by.count > 0);
    }
}

impl Context<'_> {
    /// The row without cursors that have been moved or deleted.
    pub(super) fn with_live_holders(&self, mut row: EffectRow) -> Result<EffectRow, Refusal> {
        if row.holders == 0 {
            return Ok(row);
        }
        let group = self.group_of_effect(&row.name);
        let counted: u32 = row.held_by.iter().map(|by| by.count).sum();
        if counted == row.holders {
            row.held_by.retain(|by| group.is_some_and(|group| is_live(group, by)));
        } else {
            row.held_by = self.holders_by_rows(&row, group)?;
        }
        row.holders = row.held_by.iter().map(|by| by.count).sum();
        Ok(row)
    }

    /// The group whose deliveries an effect is begun under, if there still is one of that name.
    fn group_of_effect(&self, name: &EffectName) -> Option<&Group> {
        let topic = self.topics.get(&name.topic?)?;
        let rest = name.scope.strip_prefix("effect/")?.strip_prefix(&*topic.row.name)?;
        let group = topic.groups.get(rest.strip_prefix('/')?)?;
        self.groups.get(group)
    }

    /// Counts the open entries that hold an effect, for a row that does not say which they are.
    fn holders_by_rows(
        &self,
        row: &EffectRow,
        group: Option<&Group>,
    ) -> Result<Vec<HeldBy>, Refusal> {
        let Some(group) = group else { return Ok(Vec::new()) };
        let latest = row.under.and_then(|under| self.open_entry(&under.hold).map(|_| under.hold));
        if row.holders == 1
            && let Some(hold) = latest
        {
            return Ok(vec![HeldBy { generation: hold.generation, lane: hold.lane, count: 1 }]);
        }
        let candidates = candidates(group);
        if candidates.len() > HOLDERS_READ_MAX {
            // To forget an outcome that is still needed would repeat its effect. The count stands.
            let HeldBy { generation, lane, .. } = candidates[0].0;
            return Ok(vec![HeldBy { generation, lane, count: row.holders }]);
        }
        let hash = effect_hash(&row.name);
        let mut counted = EffectRow { holders: 0, held_by: Vec::new(), ..row.clone() };
        let mut needs: Reads = Vec::new();
        for (HeldBy { generation, lane, .. }, offset) in candidates {
            match self.rows.held(generation, lane, offset) {
                Ok(hashes) if hashes.contains(&hash) => counted.hold(generation, lane),
                Ok(_) => {}
                Err(reads) => needs.extend(reads),
            }
        }
        if needs.is_empty() { Ok(counted.held_by) } else { Err(needs.into()) }
    }
}

impl Shard {
    /// Rows that tell what the first stretch of a dropped cursor held.
    pub(crate) fn held_lookup(
        generation: Generation,
        (lane, from, to): (Lane, Offset, Offset),
    ) -> Lookup {
        Lookup::HeldWithin { generation, lane, from, to }
    }
}

fn is_live(group: &Group, by: &HeldBy) -> bool {
    let cursor = group.cursors.get(by.lane.index());
    cursor.is_some_and(|cursor| cursor.start.generation == by.generation)
}

/// Open entries of a group under which effects were begun.
fn candidates(group: &Group) -> Vec<(HeldBy, Offset)> {
    let mut candidates = Vec::new();
    for (index, cursor) in group.cursors.iter().enumerate() {
        let (generation, lane) = (cursor.start.generation, Lane::of(index as u32));
        let begun = cursor.open.iter().filter(|(_, open)| open.entry.begun > 0);
        candidates.extend(begun.map(|(offset, _)| (HeldBy { generation, lane, count: 1 }, offset)));
    }
    candidates
}
