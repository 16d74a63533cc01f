//! Which deliveries are out, and which messages are open, as far as effects need to know.

use crate::history::How;
use crate::ids::{Column, CursorId, EntryId};
use crate::timeline::{Step, Timeline};

pub(super) struct Leases<'s, 'a> {
    timeline: &'s Timeline<'a>,
    entries: Column<EntryId, Entry>,
    /// The generation of each cursor, while topic and group are there.
    cursors: Column<CursorId, Option<u64>>,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    /// The attempt that is out; 0 = none.
    leased: u32,
    is_open: bool,
}

impl<'s, 'a> Leases<'s, 'a> {
    pub(super) fn new(timeline: &'s Timeline<'a>) -> Self {
        let entries = timeline.places.entries.column(Entry::default());
        Self { timeline, entries, cursors: timeline.places.cursors.column(None) }
    }

    pub(super) fn step(&mut self, step: &Step<'_>) {
        let places = &self.timeline.places;
        match *step {
            Step::Granted { entry, granted } => {
                self.entries[entry] = Entry { leased: granted.lease.attempt, is_open: true };
            }
            Step::Ended { entry, how, .. } => {
                let is_open = match how {
                    How::Nacked { .. } | How::Expired { .. } | How::Returned { .. } => true,
                    How::Acked | How::Dead { .. } | How::Purged => false,
                };
                self.entries[entry] = Entry { leased: 0, is_open };
            }
            Step::Died { entry, .. } => {
                self.entries[entry] = Entry::default();
            }
            Step::Opened { life, .. } => {
                let (cursor, generation) = places.lives.key(life);
                self.cursors[cursor] = Some(generation);
            }
            Step::GroupGone { reader } => {
                places.cursors_of(reader).for_each(|cursor| self.cursors[cursor] = None);
            }
            Step::TopicGone { topic } => {
                places.cursors_on(topic).for_each(|cursor| self.cursors[cursor] = None);
            }
            _ => {}
        }
    }

    fn is_current(&self, entry: EntryId) -> bool {
        let places = &self.timeline.places;
        self.cursors[places.cursor_of(entry)] == Some(places.generation_of(entry))
    }

    /// The cursor was moved, or topic or group is gone.
    pub(super) fn is_left(&self, entry: EntryId) -> bool {
        !self.is_current(entry)
    }

    /// The attempt has its delivery.
    pub(super) fn is_out(&self, entry: EntryId, attempt: u32) -> bool {
        self.entries[entry].leased == attempt && self.is_current(entry)
    }

    /// The message is neither acked nor dead, nor has its group lost sight of it.
    pub(super) fn is_open(&self, entry: EntryId) -> bool {
        self.entries[entry].is_open && self.is_current(entry)
    }
}
