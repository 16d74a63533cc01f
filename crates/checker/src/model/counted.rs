//! Checks counters against the model: `Conservation`.

use crate::ids::FastMap;
use crate::invariant::Invariant::Conservation;
use crate::timeline::{Batch, Counted, Step, Timeline};

use super::state::Model;

/// Counters that wait for the batch they were reported for.
pub(super) struct Expected<'s, 'a> {
    /// Per shard, in descending order of batches.
    waiting: FastMap<u32, Vec<&'s Counted<'a>>>,
}

impl<'s, 'a> Expected<'s, 'a> {
    pub(super) fn new(timeline: &'s Timeline<'a>) -> Self {
        let places = &timeline.places;
        let mut shards = places.names.column(None);
        for batch in &timeline.batches {
            for step in timeline.steps_of(batch) {
                if let Step::Opened { life, .. } = *step {
                    let cursor = places.lives.key(life).0;
                    shards[places.topic_of(cursor)] = Some(batch.shard);
                }
            }
        }
        let mut waiting: FastMap<u32, Vec<&Counted<'_>>> = FastMap::default();
        for counted in timeline.counted.iter().filter(|counted| counted.batch.is_some()) {
            if let Some(shard) = shards[places.topic_of(counted.cursor)] {
                waiting.entry(shard).or_default().push(counted);
            }
        }
        for counted in waiting.values_mut() {
            counted.sort_by_key(|counted| std::cmp::Reverse(counted.batch));
        }
        Self { waiting }
    }

    /// Checks the counters that were reported for `batch`.
    pub(super) fn after(&mut self, model: &mut Model<'_, '_>, batch: &Batch) {
        let Some(waiting) = self.waiting.get_mut(&batch.shard) else {
            return;
        };
        while let Some(counted) = waiting.pop_if(|next| next.batch <= Some(batch.number)) {
            if counted.batch == Some(batch.number) {
                model.counted(counted);
            } else {
                model.never_committed(counted);
            }
        }
    }

    /// Checks the counters that were reported for a batch that was never committed.
    pub(super) fn finish(self, model: &mut Model<'_, '_>) {
        for counted in self.waiting.values().flatten() {
            model.never_committed(counted);
        }
    }
}

impl Model<'_, '_> {
    fn counted(&mut self, counted: &Counted<'_>) {
        let told = counted.counters;
        let is_true = self.counts(counted.cursor, told)
            && self.is_blocked_by(counted.cursor, told.blocked.as_deref());
        if !is_true {
            let state = &self.cursors[counted.cursor];
            let high = self.lanes[self.timeline.places.cursors.key(counted.cursor).1].high;
            let text = self.timeline.places.cursor_text(counted.cursor);
            let detail = format_args!(
                "{text} has generation {}, next {}, high {high}, {} leased, {} waiting, but a node reported {told:?}",
                state.generation, state.next, state.leased, state.waiting,
            );
            self.findings.add(Conservation, counted.seq, detail);
        }
    }

    fn never_committed(&mut self, counted: &Counted<'_>) {
        let text = self.timeline.places.cursor_text(counted.cursor);
        let batch = counted.batch.unwrap_or_default();
        let detail = format_args!(
            "the counters of {text} were reported as of batch {batch}, which was never committed"
        );
        self.findings.add(Conservation, counted.seq, detail);
    }
}
