//! Checks the end of a run: `NoLoss`, `AckSettlesOne` and `EventualDrain`.

use crate::ids::{CursorId, LifeId};
use crate::invariant::Invariant::{AckSettlesOne, EventualDrain, NoLoss};

use super::state::{Model, State};

impl Model<'_, '_> {
    /// Checks that every existing group has settled all messages that it should read.
    pub(super) fn drained(&mut self, ended: u64) {
        for cursor in self.timeline.places.cursors.ids() {
            let state = &self.cursors[cursor];
            let high = self.lanes[self.timeline.places.cursors.key(cursor).1].high;
            let Some(life) = state.life else {
                continue;
            };
            if state.settled != high.saturating_sub(state.start) {
                self.unsettled(ended, cursor, life);
            }
        }
    }

    fn unsettled(&mut self, ended: u64, cursor: CursorId, life: LifeId) {
        let places = &self.timeline.places;
        let lane = &self.lanes[places.cursors.key(cursor).1];
        let group = places.group_of(cursor);
        let (mut n_open, mut n_unread) = (0, 0);
        for at in &lane.stored {
            let (_, offset) = places.positions.key(*at);
            if offset < self.cursors[cursor].start {
                continue;
            }
            let entry = places.entries.find(life, offset);
            let state = entry.map_or(State::Fresh, |entry| self.entries[entry].state);
            let text = places.position_text(*at);
            match state {
                State::Leased { .. } | State::Waiting { .. } => {
                    n_open += 1;
                    let group = places.names.key(group);
                    let detail =
                        format_args!("{text} was granted in group {group} but is not settled");
                    self.findings.add(AckSettlesOne, ended, detail);
                }
                // Dead letters may be deleted before a group has read them.
                State::Fresh if lane.has_dead_letters && offset < lane.first => {}
                State::Fresh if self.is_dropped(cursor, offset) => {}
                State::Fresh => {
                    n_unread += 1;
                    let only = self.messages[*at].and_then(|message| message.put.for_group);
                    if only.is_none_or(|only| only == group) {
                        let group = places.names.key(group);
                        let detail = format_args!("{text} was never granted in group {group}");
                        self.findings.add(NoLoss, ended, detail);
                    }
                }
                State::Acked | State::Dead { .. } | State::Passed => {}
            }
        }
        if n_open + n_unread > 0 {
            let text = places.cursor_text(cursor);
            let detail =
                format_args!("{text} has {n_unread} unread and {n_open} open messages at the end");
            self.findings.add(EventualDrain, ended, detail);
        }
    }
}
