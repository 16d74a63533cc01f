//! Effects under a delivery: what becomes of them when its attempt, or its message, is over.

use crate::change::{Change, Reads};
use crate::command::{LeaseId, Rejection};
use crate::effect::{DoubtCause, EffectRow, EffectState};
use crate::id::Text;
use crate::refusal::Refusal;
use crate::row::Hash16;
use crate::shard::context::Context;
use crate::shard::state::open_delivery::OpenDelivery;
use crate::time::Timestamp;

impl Context<'_> {
    /// The attempt is over and its message is not: what it began and did not finish is in doubt at once.
    pub(crate) fn doubt_effects(
        &self,
        effects: Effects,
        cause: DoubtCause,
        changes: &mut Vec<Change>,
    ) {
        for row in effects.rows.iter().filter_map(|row| doubted(self.now, row, cause)) {
            self.put_effect(row, changes);
        }
    }

    /// The message is done: the time of its outcomes begins. Refused while one is not known.
    pub(crate) fn end_effects(
        &self,
        held: &OpenDelivery<'_>,
        effects: Effects,
        changes: &mut Vec<Change>,
    ) -> Result<(), Rejection> {
        let all = effects.rows.iter().chain(&effects.others);
        let unknown = all.filter(|row| !row.state.is_known());
        let unknown: Vec<Text> = unknown.map(|row| row.name.key.clone()).collect();
        if !unknown.is_empty() {
            return Err(Rejection::Unfinished(unknown));
        }
        self.let_go(held, effects, changes);
        Ok(())
    }

    /// The message is a dead letter: the time of what is known begins, the rest stays in doubt.
    pub(crate) fn orphan_effects(
        &self,
        held: &OpenDelivery<'_>,
        mut effects: Effects,
        cause: DoubtCause,
        changes: &mut Vec<Change>,
    ) {
        for row in &mut effects.rows {
            if let Some(doubted) = doubted(self.now, row, cause) {
                *row = doubted;
            }
        }
        self.let_go(held, effects, changes);
    }

    fn let_go(&self, held: &OpenDelivery<'_>, effects: Effects, changes: &mut Vec<Change>) {
        let OpenDelivery { lane, offset, .. } = *held;
        let generation = held.group.cursor(lane).start.generation;
        let gone = |hash| Change::HeldGone { generation, lane, offset, hash };
        changes.extend(effects.hashes.into_iter().map(gone));
        for row in effects.rows.into_iter().chain(effects.others) {
            let mut row = row;
            row.release(generation, lane);
            if row.state.is_known() && row.holders == 0 {
                row.expires = self.now.after(row.ttl_ms);
            }
            self.put_effect(row, changes);
        }
    }

    /// Effects of an open entry. Nothing is read where none were begun.
    pub(crate) fn effects_of_delivery(&self, held: &OpenDelivery<'_>) -> Result<Effects, Refusal> {
        if held.entry.begun == 0 {
            return Ok(Effects::default());
        }
        let OpenDelivery { group, lane, offset, .. } = *held;
        let generation = group.cursor(lane).start.generation;
        let hashes = self.rows.held(generation, lane, offset)?;
        let mut rows = Vec::new();
        let mut needs: Reads = Vec::new();
        for hash in &hashes {
            match self.find_record(*hash) {
                Ok(row) => rows.extend(row),
                Err(Refusal::Needs(reads)) => needs.extend(reads),
                Err(refusal) => return Err(refusal),
            }
        }
        if !needs.is_empty() {
            return Err(needs.into());
        }
        let hold = LeaseId { group: group.row.id, lane, generation, offset, attempt: 0 };
        let is_own = |row: &EffectRow| row.under.is_some_and(|under| under.is_of_same_entry(&hold));
        let (rows, others) = rows.into_iter().partition(is_own);
        Ok(Effects { hashes, rows, others })
    }

    /// Whether an effect was begun under an open entry before. Nothing is read where none was.
    pub(super) fn holds(&self, held: &OpenDelivery<'_>, hash: Hash16) -> Result<bool, Refusal> {
        if held.entry.begun == 0 {
            return Ok(false);
        }
        let generation = held.group.cursor(held.lane).start.generation;
        Ok(self.rows.held(generation, held.lane, held.offset)?.contains(&hash))
    }
}

/// An effect that was in progress when its attempt ended.
fn doubted(now: Timestamp, row: &EffectRow, cause: DoubtCause) -> Option<EffectRow> {
    let is_left = row.state == EffectState::InProgress;
    is_left.then(|| super::in_doubt(EffectRow { updated_at: now, ..row.clone() }, cause, now))
}

/// What was begun under an open entry.
#[derive(Default)]
pub(crate) struct Effects {
    hashes: Vec<Hash16>,
    /// As they are now.
    pub(crate) rows: Vec<EffectRow>,
    /// Those that have gone on to another message of the same key.
    pub(crate) others: Vec<EffectRow>,
}

impl Effects {
    /// Takes rows that the same command has already changed instead of those that were read.
    pub(crate) fn as_changed_by(&mut self, changes: &[Change]) {
        for row in self.rows.iter_mut().chain(&mut self.others) {
            let changed = changes.iter().rev().find_map(|change| {
                let Change::Effect(changed) = change else { return None };
                (changed.name == row.name).then_some(changed)
            });
            if let Some(changed) = changed {
                row.clone_from(changed);
            }
        }
    }

    /// How long the first of them is remembered, once its message is over.
    pub(crate) fn kept_ms(&self) -> Option<u64> {
        self.rows.iter().chain(&self.others).map(|row| row.ttl_ms).min()
    }

    pub(crate) fn all(mut self) -> Vec<EffectRow> {
        self.rows.extend(self.others);
        self.rows
    }
}
