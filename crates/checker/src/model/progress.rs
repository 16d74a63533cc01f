//! Checks progress while faults are active: of `EventualDrain` that a partition with deliverable
//! messages is not forgotten while a consumer of its group waits.
//!
//! Skipped without a `Limits` event.

use crate::ids::{CursorId, ReaderId};
use crate::invariant::Invariant::EventualDrain;
use crate::timeline::Batch;

use super::state::{LastCheck, Model};

/// How long a consumer may wait for a deliverable message. Longer than a node is stopped, than the
/// disk is slow, and than a lease lasts.
const WAIT_MS_MAX: u64 = 30_000;
/// How often the state is checked.
const LOOK_MS: u64 = 500;

impl Model<'_, '_> {
    /// Records that a cursor was granted a message or was moved.
    pub(super) fn progressed(&mut self, cursor: CursorId) {
        self.progress.waited[cursor] = 0;
        self.progress.grants[self.timeline.places.cursors.key(cursor).0] += 1;
    }

    pub(super) fn is_of_shard(&mut self, reader: ReaderId, shard: u32) {
        self.progress.shard_of[reader] = Some(shard);
    }

    pub(super) fn progress_after(&mut self, batch: &Batch) {
        let Some(open_max) = self.progress.open_max else { return };
        let Batch { shard, epoch, at, .. } = *batch;
        let last = *self.progress.shards.entry(shard).or_insert(LastCheck { at, epoch });
        let is_new = last.epoch != epoch;
        let elapsed_ms = at.saturating_sub(last.at);
        if elapsed_ms < LOOK_MS && !is_new {
            return;
        }
        self.progress.shards.insert(shard, LastCheck { at, epoch });
        let readers: Vec<ReaderId> = self.timeline.places.readers.ids().collect();
        let readers = readers.into_iter().filter(|id| self.progress.shard_of[*id] == Some(shard));
        let readers: Vec<ReaderId> = readers.collect();
        let total: u64 = readers.iter().map(|reader| self.open_of(*reader)).sum();
        for reader in readers {
            let of_group = self.open_of(reader);
            let has_room = of_group < open_max.saturating_sub(total - of_group) / 2;
            let was_idle = std::mem::take(&mut self.progress.grants[reader]) == 0;
            let is_waiting = was_idle && !is_new && self.has_free_consumer(reader);
            for index in 0..self.progress.cursors_of[reader].len() {
                let cursor = self.progress.cursors_of[reader][index];
                if is_new || !has_room || !self.could_give(cursor) {
                    self.progress.waited[cursor] = 0;
                } else if is_waiting {
                    self.waits(batch.seq, cursor, elapsed_ms.min(2 * LOOK_MS));
                }
            }
        }
    }

    /// The leased and waiting messages of a group.
    fn open_of(&self, reader: ReaderId) -> u64 {
        let cursors = self.progress.cursors_of[reader].iter();
        let cursors = cursors.map(|cursor| &self.cursors[*cursor]);
        cursors.map(|cursor| cursor.leased + cursor.waiting).sum()
    }

    /// Whether the shard allows a group more leased and waiting messages.
    pub(super) fn group_has_room(&self, reader: ReaderId) -> bool {
        let Some(open_max) = self.progress.open_max else { return true };
        let of_shard =
            |other: &ReaderId| self.progress.shard_of[*other] == self.progress.shard_of[reader];
        let readers = self.timeline.places.readers.ids().filter(of_shard);
        let total: u64 = readers.map(|reader| self.open_of(reader)).sum();
        let of_group = self.open_of(reader);
        of_group < open_max.saturating_sub(total - of_group) / 2
    }

    /// Whether a consumer of the group has no delivery.
    fn has_free_consumer(&self, reader: ReaderId) -> bool {
        self.connected(reader).any(|of| self.leases_of(of.joined.consumer) == 0)
    }

    /// Whether a cursor has a new message to deliver and may deliver it.
    fn could_give(&self, cursor: CursorId) -> bool {
        let places = &self.timeline.places;
        let (reader, lane) = places.cursors.key(cursor);
        let state = &self.cursors[cursor];
        let settings = self.operator.settings[places.readers.key(reader).0];
        state.life.is_some()
            && state.next < self.lanes[lane].high
            && self.paused_until(reader).is_none()
            && settings.is_some_and(|settings| {
                state.leased < u64::from(settings.max_in_flight)
                    && state.leased + state.waiting < u64::from(settings.max_open)
            })
    }

    fn waits(&mut self, seq: u64, cursor: CursorId, elapsed_ms: u64) {
        let before = self.progress.waited[cursor];
        let waited = before + elapsed_ms;
        self.progress.waited[cursor] = waited;
        if before <= WAIT_MS_MAX && waited > WAIT_MS_MAX {
            let places = &self.timeline.places;
            let text = places.cursor_text(cursor);
            let state = &self.cursors[cursor];
            let (next, high) = (state.next, self.lanes[places.cursors.key(cursor).1].high);
            let detail = format_args!(
                "{text} delivered nothing for {waited} ms while a consumer waited (next offset {next}, end {high})"
            );
            self.findings.add(EventualDrain, seq, detail);
        }
    }
}
