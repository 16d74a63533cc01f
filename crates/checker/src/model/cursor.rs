//! Checks cursors: `CursorMovesForward` and `NoSkip`, of `MonotonicNumbers` that generations grow,
//! and of `NoLoss` that no message is skipped or trimmed that a group still has to read.

use crate::ids::{CursorId, EntryId, LaneId, LifeId};
use crate::invariant::Invariant::{CursorMovesForward, MonotonicNumbers, NoLoss, NoSkip, OneEnd};

use super::state::{Model, State, lower};

impl Model<'_, '_> {
    pub(super) fn opened(&mut self, life: LifeId, offset: u64) {
        let (cursor, generation) = self.timeline.places.lives.key(life);
        self.closed(cursor);
        let former = self.cursors[cursor].generation;
        if generation <= former {
            let text = self.timeline.places.cursor_text(cursor);
            let detail = format_args!(
                "{text} has generation {generation}, but before it had generation {former}"
            );
            self.findings.add(MonotonicNumbers, self.seq, detail);
        }
        let state = &mut self.cursors[cursor];
        state.life = Some(life);
        state.generation = generation.max(former);
        state.start = offset;
        state.next = offset;
    }

    /// Ends the generation of a cursor.
    pub(super) fn closed(&mut self, cursor: CursorId) {
        let state = &mut self.cursors[cursor];
        state.life = None;
        for entry in std::mem::take(&mut state.granted) {
            if let State::Leased { consumer, .. } = self.entries[entry].state {
                self.consumers.entry(consumer).and_modify(lower);
            }
        }
        let state = &mut self.cursors[cursor];
        (state.leased, state.waiting, state.settled) = (0, 0, 0);
    }

    /// Whether the entry belongs to the current generation of its cursor. Records a violation if
    /// not.
    pub(super) fn is_current(&mut self, entry: EntryId) -> bool {
        let cursor = self.timeline.places.cursor_of(entry);
        let is_current = self.cursors[cursor].life == Some(self.timeline.places.life_of(entry));
        if !is_current {
            self.breaks(
                OneEnd,
                entry,
                format_args!("was changed, but its generation does not exist"),
            );
        }
        is_current
    }

    /// Advances the cursor to an entry that it has not read before.
    pub(super) fn goes_on(&mut self, entry: EntryId) {
        let places = &self.timeline.places;
        let offset = places.offset_of(entry);
        let cursor = places.cursor_of(entry);
        let next = self.cursors[cursor].next;
        if offset < next {
            self.breaks(
                CursorMovesForward,
                entry,
                format_args!("was read for the first time, but the cursor is already at {next}"),
            );
        }
        let lane = &self.lanes[places.cursors.key(cursor).1];
        // Only dead letters are trimmed or deleted before every group has read them.
        let is_purged = lane.has_dead_letters && offset <= lane.first
            || (next..offset).all(|offset| self.is_dropped(cursor, offset));
        if offset > next && !is_purged {
            self.breaks(
                NoSkip,
                entry,
                format_args!("was read for the first time, but the cursor is only at {next}"),
            );
        }
        self.cursors[cursor].next = next.max(offset.saturating_add(1));
    }

    pub(super) fn passed(&mut self, entry: EntryId) {
        if !self.is_current(entry) {
            return;
        }
        if self.entries[entry].state != State::Fresh {
            self.breaks(OneEnd, entry, format_args!("was skipped, but it had been read before"));
            return;
        }
        self.goes_on(entry);
        self.becomes(entry, State::Passed);
        let group = self.timeline.places.group_of(self.timeline.places.cursor_of(entry));
        let for_group = self.message_of(entry).and_then(|message| message.put.for_group);
        let is_dropped = {
            let places = &self.timeline.places;
            self.is_dropped(places.cursor_of(entry), places.offset_of(entry))
        };
        if for_group.is_none_or(|only| only == group) && !is_dropped {
            self.breaks(NoLoss, entry, format_args!("was skipped, but it is for this group"));
        }
    }

    pub(super) fn trimmed(&mut self, lane: LaneId, first: u64) {
        let state = &mut self.lanes[lane];
        let former = state.first;
        state.first = former.max(first);
        if first < former {
            let text = self.timeline.places.lane_text(lane);
            let detail =
                format_args!("{text} was trimmed to {first}, but it had been trimmed to {former}");
            self.findings.add(MonotonicNumbers, self.seq, detail);
            return;
        }
        if state.has_dead_letters {
            return;
        }
        let places = &self.timeline.places;
        for cursor in places.cursors.ids().filter(|id| places.cursors.key(*id).1 == lane) {
            let state = &self.cursors[cursor];
            if state.life.is_some() && state.next < first {
                let (text, next) = (places.cursor_text(cursor), state.next);
                let detail =
                    format_args!("{text} was trimmed to {first}, but the cursor is only at {next}");
                self.findings.add(NoLoss, self.seq, detail);
            }
        }
    }
}
