//! Effects under a delivery, and their state after the attempt or the message has ended.

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
    /// The attempt has ended and its message has not: puts its unfinished effects in doubt at once.
    pub(crate) fn doubt_effects(
        &self,
        effects: OpenEffects,
        cause: DoubtCause,
        changes: &mut Vec<Change>,
    ) {
        for row in effects.rows.iter().filter_map(|row| doubted(self.now, row, cause)) {
            self.put_effect(row, changes);
        }
    }

    /// The message is acked: its outcomes start to expire. Rejects the ack while an outcome is
    /// unknown.
    pub(crate) fn end_effects(
        &self,
        held: &OpenDelivery<'_>,
        effects: OpenEffects,
        changes: &mut Vec<Change>,
    ) -> Result<(), Rejection> {
        let all = effects.rows.iter().chain(&effects.others);
        let unknown = all.filter(|row| !row.state.is_known());
        let unknown: Vec<Text> = unknown.map(|row| row.name.key.clone()).collect();
        if !unknown.is_empty() {
            return Err(Rejection::Unfinished(unknown));
        }
        self.release_effects(held, effects, changes);
        Ok(())
    }

    /// The message is dead-lettered or purged: known outcomes start to expire, the others are in
    /// doubt.
    pub(crate) fn detach_effects(
        &self,
        held: &OpenDelivery<'_>,
        mut effects: OpenEffects,
        cause: DoubtCause,
        changes: &mut Vec<Change>,
    ) {
        for row in &mut effects.rows {
            if let Some(doubted) = doubted(self.now, row, cause) {
                *row = doubted;
            }
        }
        self.release_effects(held, effects, changes);
    }

    fn release_effects(
        &self,
        held: &OpenDelivery<'_>,
        effects: OpenEffects,
        changes: &mut Vec<Change>,
    ) {
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

    /// Returns the effects of an open entry. Reads nothing if none were begun.
    pub(crate) fn effects_of_delivery(
        &self,
        held: &OpenDelivery<'_>,
    ) -> Result<OpenEffects, Refusal> {
        if held.entry.begun == 0 {
            return Ok(OpenEffects::default());
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
        Ok(OpenEffects { hashes, rows, others })
    }

    /// Whether an effect was begun under an open entry. Reads nothing if none were begun.
    pub(super) fn holds(&self, held: &OpenDelivery<'_>, hash: Hash16) -> Result<bool, Refusal> {
        if held.entry.begun == 0 {
            return Ok(false);
        }
        let generation = held.group.cursor(held.lane).start.generation;
        Ok(self.rows.held(generation, held.lane, held.offset)?.contains(&hash))
    }
}

/// Returns the effect in doubt, if it was in progress when its attempt ended.
fn doubted(now: Timestamp, row: &EffectRow, cause: DoubtCause) -> Option<EffectRow> {
    let is_left = row.state == EffectState::InProgress;
    is_left.then(|| super::in_doubt(EffectRow { updated_at: now, ..row.clone() }, cause, now))
}

/// Effects begun under an open entry.
#[derive(Default)]
pub(crate) struct OpenEffects {
    hashes: Vec<Hash16>,
    /// Effects that were last begun under this entry.
    pub(crate) rows: Vec<EffectRow>,
    /// Effects that were last begun under another message of the same key.
    pub(crate) others: Vec<EffectRow>,
}

impl OpenEffects {
    /// Replaces rows that the same command has already changed.
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

    /// Returns how long the effect that expires first is kept after its message has ended.
    pub(crate) fn kept_ms(&self) -> Option<u64> {
        self.rows.iter().chain(&self.others).map(|row| row.ttl_ms).min()
    }

    pub(crate) fn all(mut self) -> Vec<EffectRow> {
        self.rows.extend(self.others);
        self.rows
    }
}
