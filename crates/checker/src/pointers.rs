//! Checks pointers that commits set: of `AtomicCommit` that they are set with their commit, and of
//! `TrueAnswers` that a reader is shown the current location.

use crate::ids::{CallId, CursorId, EntryId, FastMap, LabelId, NameId};
use crate::invariant::Invariant::{AtomicCommit, TrueAnswers};
use crate::report::Findings;
use crate::timeline::{Ask, Batch, Outcome, Seen, Step, Timeline};

/// Checks every pointer. Skipped if the history has no commits.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let mut judge = Judge {
        timeline,
        findings,
        pointers: FastMap::default(),
        dead: FastMap::default(),
        originals: FastMap::default(),
    };
    for moment in &timeline.moments {
        if let Seen::Committed(batch) = moment.seen {
            judge.batch(&timeline.batches[batch]);
        }
    }
}

/// A pointer: its topic and its name.
type Place<'a> = (NameId, &'a str);

struct Judge<'s, 'a> {
    timeline: &'s Timeline<'a>,
    findings: &'s mut Findings,
    /// The location of each pointer and the message that set it.
    pointers: FastMap<Place<'a>, (&'a str, Option<Setter>)>,
    /// The original message of each dead letter.
    dead: FastMap<LabelId, Setter>,
    /// The original message of each redriven one: in the same partition, at another offset.
    originals: FastMap<Setter, Setter>,
}

/// A message in a group, independent of the generation that delivered it.
type Setter = (CursorId, u64);

impl<'a> Judge<'_, 'a> {
    fn batch(&mut self, batch: &Batch) {
        let steps = self.timeline.steps_of(batch);
        let mut earlier: FastMap<Place<'a>, Vec<&'a str>> = FastMap::default();
        let mut set: FastMap<Place<'a>, Vec<&'a str>> = FastMap::default();
        for step in steps {
            match *step {
                Step::Pointed { topic, name, location } => {
                    let place = (topic, name);
                    let before = self.pointers.get(&place).map(|(location, _)| *location);
                    earlier.entry(place).or_default().extend(before);
                    set.entry(place).or_default().push(location);
                }
                Step::TopicGone { topic } => {
                    self.pointers.retain(|(of, _), _| *of != topic);
                }
                Step::Died { entry, id, .. } => {
                    let (_, original) = self.place_of(entry);
                    self.dead.insert(id, original);
                }
                _ => {}
            }
        }
        self.redriven(batch);
        let mut is_claimed = Vec::new();
        for step in steps {
            if let Step::Committed { call, .. } = *step {
                self.committed(batch.seq, call, &set, &mut is_claimed);
            }
        }
        for (place, locations) in &set {
            for location in locations.iter().filter(|to| !is_claimed.contains(&(*place, **to))) {
                let detail =
                    format_args!("pointer {} was set to {location} without a commit", place.1);
                self.findings.add(AtomicCommit, batch.seq, detail);
            }
        }
        for step in steps {
            if let Step::Decided { call } = *step {
                self.read(call, &earlier);
            }
        }
    }

    /// Maps redriven messages to their original messages.
    fn redriven(&mut self, batch: &Batch) {
        let mut copies: FastMap<LabelId, u64> = FastMap::default();
        for step in self.timeline.steps_of(batch) {
            if let Step::Stored(put) = step {
                copies.insert(put.id, put.stored.offset);
            }
        }
        for step in self.timeline.steps_of(batch) {
            if let Step::Redriven { id, new, .. } = *step
                && let (Some(original), Some(offset)) = (self.dead.get(&id), copies.get(&new))
            {
                self.originals.insert((original.0, *offset), *original);
            }
        }
    }

    /// Checks that the pointers of a commit point to the committed locations.
    fn committed(
        &mut self,
        seq: u64,
        call: CallId,
        set: &FastMap<Place<'a>, Vec<&'a str>>,
        is_claimed: &mut Vec<(Place<'a>, &'a str)>,
    ) {
        let Ask::Commit(commit) = self.timeline.calls[call].ask else { return };
        let commit = &self.timeline.commits[commit];
        let (topic, setter) = self.place_of(commit.settle.entry);
        for pointer in &commit.asked.pointers {
            let (place, location) = ((topic, &*pointer.name), &*pointer.location);
            let is_set = set.get(&place).is_some_and(|set| set.contains(&location));
            let before = self.pointers.get(&place).copied();
            let is_same = before.is_some_and(|(before, _)| before == location);
            if !is_set && !is_same {
                let detail =
                    format_args!("pointer {} is part of a commit but was not set", pointer.name);
                self.findings.add(AtomicCommit, seq, detail);
                continue;
            }
            let is_other = before.is_some_and(|(_, of)| of.is_some_and(|of| of != setter));
            // If a pointer is set several times in one batch, the order is unknown.
            let is_once = set.get(&place).is_none_or(|set| set.len() == 1);
            if is_set && !is_same && is_other && is_once && !pointer.replace {
                let detail = format_args!(
                    "pointer {} of another message was replaced without permission",
                    pointer.name
                );
                self.findings.add(AtomicCommit, seq, detail);
            }
            is_claimed.push((place, location));
            if !is_same {
                self.pointers.insert(place, (location, Some(setter)));
            }
        }
    }

    fn place_of(&self, entry: EntryId) -> (NameId, Setter) {
        let places = &self.timeline.places;
        let cursor = places.cursor_of(entry);
        let setter = (cursor, places.offset_of(entry));
        (places.topic_of(cursor), self.originals.get(&setter).copied().unwrap_or(setter))
    }

    /// Checks that a reader is shown the current location, or an earlier one of the same batch.
    fn read(&mut self, call: CallId, earlier: &FastMap<Place<'a>, Vec<&'a str>>) {
        let call = &self.timeline.calls[call];
        let (Ask::ReadPointer { topic, name }, Outcome::Pointer(shown)) = (call.ask, call.outcome)
        else {
            return;
        };
        let place = (topic, name);
        let now = self.pointers.get(&place).map(|(location, _)| *location);
        let before = earlier.get(&place).into_iter().flatten().copied();
        if !now.into_iter().chain(before).any(|location| location == shown) {
            let detail =
                format_args!("pointer {name} was shown as {shown}, but it points to {now:?}");
            self.findings.add(TrueAnswers, call.answered, detail);
        }
    }
}
