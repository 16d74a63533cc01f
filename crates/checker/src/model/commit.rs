//! Checks the order of batches and the offsets that a batch stores: `MonotonicNumbers`.

use crate::invariant::Invariant::MonotonicNumbers;
use crate::timeline::{Batch, Put};

use super::state::{Message, Model, ShardState};

impl<'a> Model<'_, 'a> {
    pub(super) fn open(&mut self, batch: &Batch) {
        self.seq = batch.seq;
        (self.now, self.at) = (batch.now, batch.at);
        let Batch { seq, shard, epoch, number, now, .. } = *batch;
        let last = self.shards.insert(shard, ShardState { number, epoch, now });
        self.served_by(shard, last.is_some_and(|last| last.epoch != epoch));
        let Some(last) = last else { return };
        if number.checked_sub(1) != Some(last.number) {
            let detail =
                format_args!("batch {number} of shard {shard} follows batch {}", last.number);
            self.findings.add(MonotonicNumbers, seq, detail);
        }
        if epoch < last.epoch {
            let was = last.epoch;
            let detail = format_args!(
                "batch {number} of shard {shard} has epoch {epoch}, but the batch before it has epoch {was}"
            );
            self.findings.add(MonotonicNumbers, seq, detail);
        }
        if now < last.now {
            let was = last.now;
            let detail = format_args!(
                "batch {number} of shard {shard} has time {now}, but the batch before it has time {was}"
            );
            self.findings.add(MonotonicNumbers, seq, detail);
        }
    }

    pub(super) fn stored(&mut self, put: Put<'a>) {
        let (lane, offset) = self.timeline.places.positions.key(put.at);
        let high = self.lanes[lane].high;
        if offset != high {
            let text = self.timeline.places.position_text(put.at);
            let detail = format_args!("{text} was stored, but the next offset is {high}");
            self.findings.add(MonotonicNumbers, self.seq, detail);
        }
        let lane = &mut self.lanes[lane];
        lane.high = high.max(offset.saturating_add(1));
        lane.stored.push(put.at);
        lane.has_dead_letters |= put.stored.dead_letter;
        self.messages[put.at] = Some(Message { put, seq: self.seq, at: self.now });
        self.positions[put.id] = Some(put.at);
        if put.stored.dead_letter {
            self.buried.push(put.id);
        }
    }
}
