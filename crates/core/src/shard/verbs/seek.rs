//! Moves the cursors of a group.
//!
//! A moved cursor gets a new generation: attempts start at 1 again, and every token issued before
//! is stale.

use crate::change::{Change, CursorStart, Decision, GroupRow, LaneState};
use crate::command::{Rejection, Reply, Seek, SeekTo, Sought};
use crate::id::{Generation, Lane, Offset};
use crate::refusal::{Decided, Refusal};
use crate::shard::Topic;
use crate::shard::context::Context;

impl Context<'_> {
    pub(crate) fn seek(&self, seek: &Seek) -> Decided {
        let (topic, group) = self.group_named(&seek.name)?;
        if !group.is_paused(self.now) && !group.consumers.is_empty() {
            return Err(Rejection::HasConsumers.into());
        }
        let targets = self.targets(topic, seek.to)?;
        let mut ids = self.ids;
        let mut row = GroupRow { ..group.row.clone() };
        let mut sought = Sought { moved: Vec::new(), redelivers: 0, skips: 0, dropped_open: 0 };
        let mut changes = Vec::new();
        for (lane, offset) in targets {
            let (state, cursor) = (topic.lane(lane), group.cursor(lane));
            let offset = offset.clamp(state.first, state.high);
            sought.moved.push((lane.partition(), cursor.next, offset));
            sought.redelivers += cursor.next.saturating_sub(offset);
            sought.skips += offset.saturating_sub(cursor.next);
            sought.dropped_open += cursor.open.len() as u64;
            let is_end = offset == state.first || offset == state.high;
            let bytes = if offset == cursor.next && !is_end {
                cursor.bytes
            } else {
                bytes_at(state, offset)
            };
            // Each cursor gets its own generation, because the next seek may move only one of them.
            let generation = Generation(ids);
            ids += 1;
            row.cursors[lane.index()] = CursorStart { generation, offset, bytes };
            self.discard_cursor(topic, group, lane, &mut changes);
            self.unmark(topic, lane, offset, &mut changes);
        }
        let reply = Reply::Sought(sought);
        if seek.dry_run {
            return Ok(Decision::reply(reply));
        }
        changes.push(Change::Ids(ids));
        changes.push(Change::Group(Box::new(row)));
        Ok(Decision { changes, ..Decision::reply(reply) })
    }

    fn targets(&self, topic: &Topic, to: SeekTo) -> Result<Vec<(Lane, Offset)>, Refusal> {
        let all = (0..topic.row.partitions).map(Lane::of);
        match to {
            SeekTo::Earliest => Ok(all.map(|lane| (lane, 0)).collect()),
            SeekTo::Latest => Ok(all.map(|lane| (lane, Offset::MAX)).collect()),
            SeekTo::Time(at) => Ok(all.zip(self.offsets_for_time(topic, at)?).collect()),
            SeekTo::Offset { partition, .. } if partition >= topic.row.partitions => {
                Err(Rejection::invalid("partition", "does not exist in this topic").into())
            }
            SeekTo::Offset { partition, offset } => Ok(vec![(Lane::of(partition), offset)]),
        }
    }
}

/// Returns the byte total of a lane at an offset that it keeps. The total is exact at both ends and
/// interpolated in between, until the next delivery corrects it.
pub(crate) fn bytes_at(state: &LaneState, offset: Offset) -> u64 {
    if offset == state.high {
        return state.high_bytes;
    }
    let bytes = u128::from(state.high_bytes - state.first_bytes);
    let (part, whole) = (offset.saturating_sub(state.first), state.high - state.first);
    let share = (bytes * u128::from(part)).checked_div(u128::from(whole));
    state.first_bytes + share.unwrap_or(0) as u64
}
