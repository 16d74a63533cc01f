//! Tracks when the key of a message was accepted as new. An outcome from before that time belongs
//! to another message.

use crate::ids::{EntryId, FastMap, LabelId, NameId, PositionId};
use crate::timeline::{Step, Timeline};

/// When messages with a new key were stored, in the batches so far.
#[derive(Default)]
pub(super) struct Accepted {
    labels: FastMap<PositionId, LabelId>,
    /// Dead letters and their redriven copies have the time of the original message.
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

    /// When `key` was accepted, if it is the key of the message of `entry`.
    pub(super) fn at(&self, timeline: &Timeline<'_>, entry: EntryId, key: NameId) -> Option<u64> {
        let (of, at) = self.of(timeline, entry)?;
        (*of == key).then_some(*at)
    }

    fn of(&self, timeline: &Timeline<'_>, entry: EntryId) -> Option<&(NameId, u64)> {
        let label = self.labels.get(&timeline.places.position_of(entry))?;
        self.times.get(label)
    }
}
