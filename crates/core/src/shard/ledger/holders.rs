//! Counts the open messages that an effect was begun under.
//!
//! 1. An effect counts them per cursor and generation. A cursor that is moved or deleted ends all
//!    its entries at once, and from then on its count is ignored.
//! 2. Every other end of an entry releases its effects in the same commit.
//! 3. Releases up to 0.1 missed some ends and kept one count for all cursors. Such a count is not
//!    trusted: the `held` rows of open entries are counted instead.

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

    /// Uncounts an entry of this cursor that has ended.
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
    /// Returns the row without the counts of cursors that were moved or deleted.
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

    /// Returns the group whose deliveries an effect is begun under, if a group of that name exists.
    fn group_of_effect(&self, name: &EffectName) -> Option<&Group> {
        let topic = self.topics.get(&name.topic?)?;
        let rest = name.scope.strip_prefix("effect/")?.strip_prefix(&*topic.row.name)?;
        let group = topic.groups.get(rest.strip_prefix('/')?)?;
        self.groups.get(group)
    }

    /// Counts the open entries that hold an effect, for a row without counts per cursor.
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
            // Dropping an outcome that is still needed would repeat its effect, so the count is
            // kept.
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
    /// Rows that list the effects held by a range of a dropped cursor.
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
