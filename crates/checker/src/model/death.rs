//! Checks dead-lettering: `DeadLetteredOnce`, `NoEarlyDeadLetter`, and of `SameContent` that the
//! dead letter has the content of its message.
//!
//! The end of the lease, the reason and the dead letter are one commit. They are compared after the
//! whole batch, so their order inside it does not matter.

use crate::ids::{EntryId, LabelId};
use crate::invariant::Invariant::{DeadLetteredOnce, NoEarlyDeadLetter, SameContent};

use super::state::{Death, Message, Model, State};

impl<'a> Model<'_, 'a> {
    pub(super) fn died(&mut self, entry: EntryId, attempt: u32, reason: &'a str, id: LabelId) {
        if !self.is_current(entry) {
            return;
        }
        let state = self.entries[entry];
        if state.died.is_some() {
            self.breaks(DeadLetteredOnce, entry, format_args!("was dead-lettered a second time"));
            return;
        }
        self.entries[entry].died = Some(self.seq);
        if attempt == 0 && state.state == State::Fresh {
            self.goes_on(entry);
            self.becomes(entry, State::Dead { is_asked: false, seq: self.seq });
        } else if attempt != state.attempt {
            let last = state.attempt;
            let detail = format_args!(
                "was dead-lettered at attempt {attempt}, but the last attempt is {last}"
            );
            self.breaks(DeadLetteredOnce, entry, detail);
        }
        self.death_of[id] = Some(self.deaths.len());
        self.died.push(self.deaths.len());
        let spent = state.spent();
        self.deaths.push(Death { entry, reason, id, spent, seq: self.seq });
    }

    /// Compares the facts of the batch about dead-lettered messages.
    pub(super) fn close(&mut self) {
        for entry in std::mem::take(&mut self.ended_as_dead) {
            if self.entries[entry].died != Some(self.seq) {
                self.breaks(
                    DeadLetteredOnce,
                    entry,
                    format_args!("ended as dead, but no reason was recorded"),
                );
            }
        }
        for death in std::mem::take(&mut self.died) {
            self.is_dead(death);
            self.has_dead_letter(death);
            self.is_reasoned(death);
        }
        let came_back = std::mem::take(&mut self.came_back);
        for id in std::mem::take(&mut self.buried) {
            let is_known = came_back.contains(&id)
                || self.death_of[id].is_some_and(|death| self.deaths[death].seq == self.seq);
            if !is_known {
                let name = self.timeline.places.labels.key(id);
                let detail =
                    format_args!("dead letter {name} was stored, but no message was dead-lettered");
                self.findings.add(DeadLetteredOnce, self.seq, detail);
            }
        }
    }

    fn is_dead(&mut self, death: usize) {
        let entry = self.deaths[death].entry;
        let is_dead = matches!(
            self.entries[entry].state, State::Dead { seq, .. } if seq == self.seq
        );
        if !is_dead {
            self.breaks(
                DeadLetteredOnce,
                entry,
                format_args!("was dead-lettered, but its lease did not end"),
            );
        }
    }

    fn has_dead_letter(&mut self, death: usize) {
        let Death { entry, id, .. } = self.deaths[death];
        let letter = self.stored_as(id).filter(|letter| letter.seq == self.seq);
        let Some(letter) = letter.filter(|letter| letter.put.stored.dead_letter) else {
            self.breaks(
                DeadLetteredOnce,
                entry,
                format_args!("was dead-lettered, but its dead letter is not stored"),
            );
            return;
        };
        let content = self.message_of(entry).map(|message| &message.put.stored.message);
        if content.is_some_and(|content| *content != letter.put.stored.message) {
            self.breaks(
                SameContent,
                entry,
                format_args!("has different content in its dead letter"),
            );
        }
    }

    fn is_reasoned(&mut self, death: usize) {
        let Death { entry, reason, spent, .. } = self.deaths[death];
        let Some(message) = self.message_of(entry) else {
            return;
        };
        let is_asked = matches!(self.entries[entry].state, State::Dead { is_asked: true, .. });
        let stored = message.put.stored;
        let is_true = match reason {
            "exhausted" => !is_asked && self.is_exhausted(&message, spent),
            "rejected" => is_asked && self.was_asked(entry, |asked| asked.last),
            "deadline" => stored.deadline.is_some_and(|at| at <= self.now),
            _ => false,
        };
        if !is_true {
            let detail = format_args!(
                "was dead-lettered as {reason} after {spent} counted attempts, which is not the reason"
            );
            self.breaks(NoEarlyDeadLetter, entry, detail);
        }
    }

    /// Returns the message with this id.
    pub(super) fn stored_as(&self, id: LabelId) -> Option<Message<'a>> {
        self.positions[id].and_then(|at| self.messages[at])
    }
}
