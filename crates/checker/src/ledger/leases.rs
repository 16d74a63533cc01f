//! Tracks which deliveries are leased and which messages are open, as far as effects depend on it.

use crate::history::How;
use crate::ids::{Column, CursorId, EntryId};
use crate::timeline::{Step, Timeline};

pub(super) struct Leases<'s, 'a> {
    timeline: &'s Timeline<'a>,
    entries: Column<EntryId, Entry>,
    /// The generation of each cursor, while the topic and group exist.
    cursors: Column<CursorId, Option<u64>>,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    /// The leased attempt; 0 = none.
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

    /// Whether the cursor was moved, or the topic or group was deleted.
    pub(super) fn is_left(&self, entry: EntryId) -> bool {
        !self.is_current(entry)
    }

    /// Whether the attempt holds its lease.
    pub(super) fn is_out(&self, entry: EntryId, attempt: u32) -> bool {
        self.entries[entry].leased == attempt && self.is_current(entry)
    }

    /// Whether the message is neither settled nor dropped by its group.
    pub(super) fn is_open(&self, entry: EntryId) -> bool {
        self.entries[entry].is_open && self.is_current(entry)
    }
}
