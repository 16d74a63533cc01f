//! Checks dead letters as read at the end: `DeadLetteredOnce` and `FaithfulDeadLetter`.

use std::fmt;

use crate::ids::{FastSet, LabelId};
use crate::invariant::Invariant::{DeadLetteredOnce, FaithfulDeadLetter};
use crate::timeline::Letter;

use super::state::{Death, Model};

impl Model<'_, '_> {
    pub(super) fn dead_letters(&mut self) {
        let mut read: FastSet<LabelId> = FastSet::default();
        for letter in self.timeline.dead_letters.iter().filter(|letter| !letter.is_undeliverable())
        {
            let name = self.timeline.places.labels.key(letter.id);
            if !read.insert(letter.id) {
                self.findings.add(
                    DeadLetteredOnce,
                    letter.seq,
                    format_args!("dead letter {name} exists twice"),
                );
                continue;
            }
            match self.death_of[letter.id] {
                Some(death) => self.faithful(letter, death),
                None => {
                    let detail = format_args!(
                        "dead letter {name} exists, but no message was dead-lettered as it"
                    );
                    self.findings.add(DeadLetteredOnce, letter.seq, detail);
                }
            }
        }
        let Some(ended) = self.timeline.ended else {
            return;
        };
        for death in &self.deaths {
            if !read.contains(&death.id) && !self.may_be_gone(death) {
                let text = self.timeline.places.entry_text(death.entry);
                let detail = format_args!(
                    "{text} was dead-lettered, but its dead letter does not exist at the end"
                );
                self.findings.add(DeadLetteredOnce, ended, detail);
            }
        }
    }

    /// Whether the dead letter was deleted: with its topic, by retention, or by a purge.
    fn may_be_gone(&self, death: &Death<'_>) -> bool {
        let places = &self.timeline.places;
        let topic = places.topic_of(places.cursor_of(death.entry));
        let is_trimmed = self.positions[death.id].is_some_and(|at| {
            let (lane, offset) = places.positions.key(at);
            self.topics_gone[places.lanes.key(lane).0]
                || offset < self.lanes[lane].first
                || self.operator.dropped[death.id]
        });
        self.topics_gone[topic] || is_trimmed
    }

    fn faithful(&mut self, told: &Letter<'_>, death: usize) {
        let places = &self.timeline.places;
        let Death { entry, reason, spent, .. } = self.deaths[death];
        let letter = told.letter;
        if told.at != places.position_of(entry) || told.cursor != places.cursor_of(entry) {
            self.differs(told, format_args!("is the dead letter of {}", places.entry_text(entry)));
        }
        if &*letter.reason != reason {
            self.differs(told, format_args!("has reason {reason}"));
        }
        if letter.attempts != spent {
            self.differs(told, format_args!("was dead-lettered after {spent} counted attempts"));
        }
        if letter.attempts > 0 && letter.last_error.is_empty() {
            self.differs(told, format_args!("must have a last error"));
        }
        let Some(message) = self.message_of(entry) else {
            return;
        };
        if told.origin != message.put.id {
            self.differs(told, format_args!("has origin {}", message.put.stored.id));
        }
        // A redriven message may carry the key of the original or no key.
        let is_copy = message.put.for_group.is_some();
        if told.key != message.put.key && !(is_copy && message.put.key.is_none()) {
            self.differs(told, format_args!("has key {:?}", message.put.stored.idem));
        }
    }

    fn differs(&mut self, told: &Letter<'_>, truth: fmt::Arguments<'_>) {
        let name = self.timeline.places.labels.key(told.id);
        let letter = told.letter;
        let detail = format_args!("dead letter {name} {truth}, but it was read as {letter:?}");
        self.findings.add(FaithfulDeadLetter, told.seq, detail);
    }
}
