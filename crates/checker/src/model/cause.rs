//! Whether the reason is true that a node gives for delivering nothing new to a group.
//!
//! A node may give the first of several reasons. Each reason must be true of the committed state,
//! and a node that gives none must have none.

use crate::history::Counters;
use crate::ids::{CursorId, ReaderId};

use super::state::{Connected, Model};

/// A disconnected consumer may still count for so long: the node must learn that it has left. Longer
/// than a node is stopped.
const DISCONNECTS_WITHIN_MS: u64 = 30_000;

impl Model<'_, '_> {
    /// The cursor that counters belong to.
    pub(super) fn cursor_named(&self, counters: &Counters) -> Option<CursorId> {
        let places = &self.timeline.places;
        let topic = places.names.find(&counters.topic)?;
        let reader = places.readers.find((topic, places.names.find(&counters.group)?))?;
        let lane = places.lanes.find((topic, counters.partition))?;
        places.cursors.find((reader, lane))
    }

    /// Whether these are the counters of a cursor now.
    pub(super) fn counts(&self, cursor: CursorId, counters: &Counters) -> bool {
        let state = &self.cursors[cursor];
        let high = self.lanes[self.timeline.places.cursors.key(cursor).1].high;
        state.life.is_some()
            && counters.generation == state.generation
            && counters.next == state.next
            && counters.high == high
            && counters.leased == state.leased
            && counters.waiting == state.waiting
    }

    /// Whether the reason is true now. `None`: new messages are delivered.
    pub(super) fn is_blocked_by(&self, cursor: CursorId, why: Option<&str>) -> bool {
        let places = &self.timeline.places;
        let (reader, lane) = places.cursors.key(cursor);
        let state = &self.cursors[cursor];
        let Some(settings) = self.operator.settings[places.readers.key(reader).0] else {
            return true;
        };
        let is_paused = self.paused_until(reader).is_some();
        let is_full = state.leased >= u64::from(settings.max_in_flight);
        let is_open = state.leased + state.waiting >= u64::from(settings.max_open);
        let is_read = state.next >= self.lanes[lane].high;
        match why {
            Some("quarantined") => self.timeline.corrupted.iter().any(|(_, of, _)| *of == lane),
            // The node reads its state shortly before the batch time: a pause may have ended in
            // between.
            Some("paused") => self.has_pause(reader),
            Some("in_flight_limit") => is_full && !is_paused,
            Some("max_open") => is_open && !is_paused && !is_full,
            Some("nothing_new") => is_read && !is_paused && !is_full && !is_open,
            Some("no_consumers") => !is_paused && !self.has_consumers(reader),
            Some("consumers_full") => {
                !is_paused && !self.with_room(reader).any(|of| !of.may_be_of_deleted_group)
            }
            Some("open_limit") => {
                !is_paused && !is_full && !is_open && !is_read && !self.group_has_room(reader)
            }
            // Only the node knows which messages are in memory.
            Some("loading") => !is_paused && !is_full && !is_open && !is_read,
            Some(_) => false,
            None => {
                let is_free =
                    self.with_room(reader).next().is_some() || self.has_just_lost_one(reader);
                !is_paused && !is_full && !is_open && !is_read && is_free
            }
        }
    }

    /// The connected consumers of a group that may have another delivery.
    fn with_room(&self, reader: ReaderId) -> impl Iterator<Item = &Connected<'_>> {
        self.connected(reader).filter(|of| {
            let credit = u64::from(of.joined.credit);
            !of.is_answered && self.leases_of(of.joined.consumer) < credit
        })
    }

    /// Whether a consumer of a group disconnected a moment ago.
    fn has_just_lost_one(&self, reader: ReaderId) -> bool {
        let left_at = self.connections.left_at.get(&reader);
        left_at.is_some_and(|at| self.at < *at + DISCONNECTS_WITHIN_MS)
    }
}
