//! Checks redriven dead letters: `RedrivenOnce`, and of `RestoreFencing` that an id issued before a
//! restore does not redrive another dead letter.

use crate::ids::{Column, FastMap, LabelId, NameId};
use crate::invariant::Invariant::{RedrivenOnce, RestoreFencing};
use crate::report::Findings;
use crate::timeline::{Ask, Batch, Outcome, Put, Step, Timeline};

/// Checks every redrive, as committed and as answered.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let labels = &timeline.places.labels;
    let mut judge = Judge {
        timeline,
        findings,
        messages: FastMap::default(),
        died_in: FastMap::default(),
        sent_as: labels.column(None),
        copy_of: labels.column(None),
    };
    for batch in &timeline.batches {
        judge.batch(batch);
    }
    judge.answers();
    judge.dead_letters();
}

struct Judge<'s, 'a> {
    timeline: &'s Timeline<'a>,
    findings: &'s mut Findings,
    /// Dead letters and messages for one group, with the batch that stored them.
    messages: FastMap<LabelId, (u64, Put<'a>)>,
    /// The group in which each dead letter failed.
    died_in: FastMap<LabelId, NameId>,
    /// The message that each dead letter was redriven as.
    sent_as: Column<LabelId, Option<LabelId>>,
    /// The dead letter that each redriven message comes from.
    copy_of: Column<LabelId, Option<LabelId>>,
}

impl<'a> Judge<'_, 'a> {
    fn batch(&mut self, batch: &Batch) {
        // Collects all stored messages first: the order of facts inside a batch has no meaning
        // here.
        for step in self.timeline.steps_of(batch) {
            match step {
                Step::Stored(put) if (put.stored.dead_letter || put.for_group.is_some()) => {
                    self.messages.insert(put.id, (batch.seq, *put));
                }
                &Step::Died { entry, id, .. } => {
                    let cursor = self.timeline.places.cursor_of(entry);
                    self.died_in.insert(id, self.timeline.places.group_of(cursor));
                }
                _ => {}
            }
        }
        for step in self.timeline.steps_of(batch) {
            if let Step::Redriven { id, new, group } = *step {
                self.redriven(batch.seq, id, new, group);
            }
        }
        for step in self.timeline.steps_of(batch) {
            if let Step::Stored(put) = step
                && put.for_group.is_some()
                && self.copy_of[put.id].is_none()
            {
                let new = self.timeline.places.labels.key(put.id);
                self.detail(
                    batch.seq,
                    format_args!(
                        "message {new} is restricted to one group but is no redriven dead letter"
                    ),
                );
            }
        }
    }

    fn message(&self, id: LabelId) -> Option<(u64, Put<'a>)> {
        self.messages.get(&id).copied()
    }

    fn redriven(&mut self, seq: u64, id: LabelId, new: LabelId, group: NameId) {
        let name = |id| self.timeline.places.labels.key(id);
        let (from, to) = (name(id), name(new));
        if let Some(first) = self.sent_as[id] {
            self.detail(
                seq,
                format_args!(
                    "dead letter {from} was redriven as {to}, but it was already redriven as {}",
                    name(first)
                ),
            );
            self.copy_of[new] = Some(id);
            return;
        }
        self.sent_as[id] = Some(new);
        self.copy_of[new] = Some(id);
        let Some((_, dead)) = self.message(id).filter(|(_, put)| put.stored.dead_letter) else {
            self.detail(seq, format_args!("{from} was redriven but is not a dead letter"));
            return;
        };
        let copy = self.message(new).filter(|(stored, _)| *stored == seq).map(|(_, put)| put);
        let Some(copy) = copy else {
            self.detail(
                seq,
                format_args!(
                    "dead letter {from} was redriven as {to}, which is not stored in the same batch"
                ),
            );
            return;
        };
        if copy.for_group != Some(group) || self.died_in.get(&id).is_some_and(|died| *died != group)
        {
            self.detail(
                seq,
                format_args!(
                    "message {to} is not for the group in which dead letter {from} failed"
                ),
            );
        }
        if copy.stored.message.body != dead.stored.message.body {
            self.detail(
                seq,
                format_args!("message {to} has a different body than dead letter {from}"),
            );
        }
    }

    fn answers(&mut self) {
        let mut is_answered = self.timeline.places.labels.column(false);
        for call in self.timeline.calls.iter() {
            let (Ask::Redrive(id), Outcome::Redriven { new, already }) = (call.ask, call.outcome)
            else {
                continue;
            };
            let name = |id| self.timeline.places.labels.key(id);
            let seq = call.answered;
            if !self.timeline.has_facts() {
                self.sent_as[id].get_or_insert(new);
            }
            if self.sent_as[id] != Some(new)
                && self.timeline.has_facts()
                && self.message(id).is_none()
            {
                // The storage never issued this id, or a restore has revoked it.
                let detail = format_args!(
                    "the redrive of {} succeeded, but it is not a dead letter of this storage",
                    name(id)
                );
                self.findings.add(RestoreFencing, seq, detail);
            } else if self.sent_as[id] != Some(new) {
                self.detail(
                    seq,
                    format_args!(
                        "the redrive of {} was answered with {}, which is not its copy",
                        name(id),
                        name(new)
                    ),
                );
            }
            if !already && std::mem::replace(&mut is_answered[id], true) {
                self.detail(
                    seq,
                    format_args!("dead letter {} was redriven a second time", name(id)),
                );
            }
        }
    }

    fn dead_letters(&mut self) {
        for letter in &self.timeline.dead_letters {
            let sent_as = self.sent_as[letter.id];
            let is_known = self.timeline.has_facts() || sent_as.is_some();
            if is_known && letter.redriven != sent_as {
                let name = self.timeline.places.labels.key(letter.id);
                self.detail(
                    letter.seq,
                    format_args!(
                        "dead letter {name} does not name the message that it was redriven as"
                    ),
                );
            }
        }
    }

    fn detail(&mut self, seq: u64, detail: std::fmt::Arguments<'_>) {
        self.findings.add(RedrivenOnce, seq, detail);
    }
}
