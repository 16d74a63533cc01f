//! When the key of a message was accepted as new: an outcome from before is another message's.

use crate::ids::{EntryId, FastMap, LabelId, NameId, PositionId};
use crate::timeline::{Step, Timeline};

/// When messages that took their keys were stored, by the batches so far.
#[derive(Default)]
pub(super) struct Accepted {
    labels: FastMap<PositionId, LabelId>,
    /// Dead letters, and what they were brought back as, are accepted when the message was.
    times: FastMap<LabelId, (NameId, u64)>,
}

impl Accepted {
    pub(super) fn step(&mut self, timeline: &Timeline<'_>, now: u64, step: &Step<'_>) {
        if let Step::Stored(put) = step {
            self.labels.insert(put.at, put.id);
            if let (Some(_), Some(key)) = (put.identity, put.key) {
                self.times.insert(put.id, (key, now));
            }
        }
        if let Step::Died { entry, id, .. } = step {
            let time = self.of(timeline, *entry).copied();
            self.times.extend(time.map(|time| (*id, time)));
        }
        if let Step::Redriven { id, new, .. } = step {
            let time = self.times.get(id).copied();
            self.times.extend(time.map(|time| (*new, time)));
        }
    }

    /// When this key was, if it is the one of the message that an entry is of.
    pub(super) fn at(&self, timeline: &Timeline<'_>, entry: EntryId, key: NameId) -> Option<u64> {
        let (of, at) = self.of(timeline, entry)?;
        (*of == key).then_some(*at)
    }

    fn of(&self, timeline: &Timeline<'_>, entry: EntryId) -> Option<&(NameId, u64)> {
        let label = self.labels.get(&timeline.places.position_of(entry))?;
        self.times.get(label)
    }
}
