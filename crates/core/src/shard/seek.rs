//! Moving the cursors of a group.
//!
//! A cursor that moves begins a new life: attempts start at 1 again, and every token of before is
//! stale by its generation.

use crate::change::{Change, CursorStart, Decision, GroupRow};
use crate::command::{Rejection, Reply, Seek, SeekTo, Sought};
use crate::id::{Generation, Lane, Offset};
use crate::shard::{Decided, Shard, Topic};
use crate::time::Timestamp;

impl Shard {
    pub(super) fn seek(&self, now: Timestamp, seek: &Seek) -> Decided {
        let (topic, group) = self.group_named(&seek.name)?;
        if !group.is_paused(now) && !group.consumers.is_empty() {
            return Err(Rejection::HasConsumers.into());
        }
        let targets = targets(topic, seek.to)?;
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
            let bytes = match offset {
                at if at == state.high => state.high_bytes,
                at if at == state.first => state.first_bytes,
                // Exact where it is known, else in proportion until the next delivery tells.
                at if at == cursor.next => cursor.bytes,
                at => {
                    proportional(state.first, state.first_bytes, state.high, state.high_bytes, at)
                }
            };
            // Each a life of its own: the next seek may move one of them alone.
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
}

fn targets(topic: &Topic, to: SeekTo) -> Result<Vec<(Lane, Offset)>, Rejection> {
    let all = (0..topic.row.partitions).map(Lane::of);
    match to {
        SeekTo::Earliest => Ok(all.map(|lane| (lane, 0)).collect()),
        SeekTo::Latest => Ok(all.map(|lane| (lane, Offset::MAX)).collect()),
        SeekTo::Offset { partition, .. } if partition >= topic.row.partitions => {
            Err(Rejection::invalid("partition", "there is no such partition"))
        }
        SeekTo::Offset { partition, offset } => Ok(vec![(Lane::of(partition), offset)]),
    }
}

fn proportional(first: u64, first_bytes: u64, high: u64, high_bytes: u64, at: u64) -> u64 {
    let share =
        u128::from(high_bytes - first_bytes) * u128::from(at - first) / u128::from(high - first);
    first_bytes + share as u64
}
