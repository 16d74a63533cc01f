//! Retention and trimming of settled messages.
//!
//! A message that some group has not received yet is never trimmed, regardless of its age. A
//! message that every group has received is kept for the retention time. Marks record the position
//! of the slowest group over time. An open message below the first kept offset keeps its page: the
//! gaps between open messages are trimmed, and a page is deleted when its last open message ends.

use crate::change::{Change, Chore, LaneMark, LaneState, VolatileChange};
use crate::id::{Lane, Offset, TopicId};
use crate::limits::{
    MARKS_MAX, MARKS_PER_RETENTION, PAGE_MESSAGES_MAX, TRIM_GAPS_MAX, TRIM_OFFSETS_MAX,
};
use crate::shard::context::Context;
use crate::shard::{Shard, Topic};
use crate::time::Timestamp;

/// A page that contains an offset starts and ends at most this far from it.
const PAGE_REACH: u64 = PAGE_MESSAGES_MAX as u64 - 1;

/// Returns the state of a lane after `changes`.
pub(crate) fn lane_state(topic: &Topic, lane: Lane, changes: &[Change]) -> LaneState {
    let changed = changes.iter().rev().find_map(|change| {
        let Change::Lane { topic: id, lane: of, state } = change else { return None };
        ((*id, *of) == (topic.row.id, lane)).then_some(state)
    });
    changed.unwrap_or_else(|| topic.lane(lane)).clone()
}

/// Returns the share of a lane in the `retention_bytes` of its topic.
fn retention_bytes(topic: &Topic) -> u64 {
    topic.settings.retention_bytes / u64::from(topic.row.partitions)
}

impl Shard {
    /// Returns the position of the slowest group. Everything below it was delivered to every group.
    fn slowest(&self, topic: &Topic, lane: Lane) -> Option<(Offset, u64)> {
        let cursors = topic.groups.values().map(|group| self.groups[group].cursor(lane));
        cursors.map(|cursor| (cursor.next, cursor.bytes)).min()
    }

    /// Whether a lane has messages that retention will delete.
    pub(crate) fn has_settled(&self, topic: TopicId, lane: Lane) -> bool {
        let Some(topic) = self.topics.get(&topic) else {
            return false;
        };
        let state = topic.lane(lane);
        !topic.is_dlq()
            && (state.trimmed < state.first
                || self.slowest(topic, lane).is_some_and(|(next, _)| next > state.first))
    }

    /// Whether every group has received enough bytes since the last mark for another mark.
    pub(crate) fn needs_mark(&self, topic: TopicId, lane: Lane) -> bool {
        let Some(topic) = self.topics.get(&topic).filter(|topic| !topic.is_dlq()) else {
            return false;
        };
        let state = topic.lane(lane);
        let last_bytes = state.marks.last().map_or(state.first_bytes, |mark| mark.bytes);
        let step = retention_bytes(topic) / MARKS_PER_RETENTION;
        state.marks.len() < MARKS_MAX
            && self
                .slowest(topic, lane)
                .is_some_and(|(_, bytes)| bytes.saturating_sub(last_bytes) >= step.max(1))
    }

    /// Decides one step for a lane: sets a mark, moves `first`, trims a range.
    pub(crate) fn retain(
        &self,
        now: Timestamp,
        id: TopicId,
        lane: Lane,
    ) -> (Vec<Change>, VolatileChange) {
        let chore = |at| VolatileChange::Chore(Chore::Retain { topic: id, lane }, at);
        let Some(topic) = self.topics.get(&id) else {
            return (Vec::new(), chore(None));
        };
        if !self.may_trim(topic, lane) {
            return (Vec::new(), chore(Some(now.after(topic.retention_interval_ms()))));
        }
        let before = topic.lane(lane);
        let mut state = before.clone();
        let slowest = self.slowest(topic, lane);
        if let Some(slowest) = slowest {
            set_mark(now, &mut state, slowest, topic);
            move_first(now, &mut state, slowest, topic);
        }
        let mut changes = self.trim_step(topic, lane, &mut state);
        let at = if state.trimmed < state.first {
            Some(now)
        } else if slowest.is_some_and(|(next, _)| next > state.first) {
            Some(now.after(topic.retention_interval_ms()))
        } else {
            None
        };
        if state != *before {
            changes.push(Change::Lane { topic: id, lane, state });
        }
        (changes, chore(at))
    }

    /// Trims the gaps between open messages in a bounded range below `first`.
    fn trim_step(&self, topic: &Topic, lane: Lane, state: &mut LaneState) -> Vec<Change> {
        if state.trimmed >= state.first {
            return Vec::new();
        }
        let to = state.first.min(state.trimmed + TRIM_OFFSETS_MAX);
        // The page at the boundary may start before the end of the last step, after the last
        // message that is open there.
        let seam = state.trimmed.saturating_sub(PAGE_REACH);
        let open_below = self.open_offsets(topic, lane, seam, state.trimmed);
        let from = open_below.last().map_or(seam, |open| open + 1);
        let mut gaps = Vec::new();
        let mut gap_begins = from;
        for open in self.open_offsets(topic, lane, from, to) {
            if gap_begins < open {
                gaps.push((gap_begins, open));
            }
            gap_begins = open + 1;
            if gaps.len() == TRIM_GAPS_MAX {
                break;
            }
        }
        if gaps.len() < TRIM_GAPS_MAX {
            gaps.push((gap_begins, to));
            state.trimmed = to;
        } else {
            state.trimmed = state.trimmed.max(gap_begins);
        }
        let topic = topic.row.id;
        gaps.into_iter()
            .filter(|(from, to)| from < to)
            .map(|(from, to)| Change::Trim { topic, lane, from, to })
            .collect()
    }

    pub(crate) fn open_offsets(
        &self,
        topic: &Topic,
        lane: Lane,
        from: Offset,
        to: Offset,
    ) -> Vec<Offset> {
        let mut offsets: Vec<Offset> = topic
            .groups
            .values()
            .flat_map(|group| self.groups[group].cursor(lane).open.range(from, to))
            .map(|(offset, _)| offset)
            .collect();
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    }
}

impl Context<'_> {
    /// A cursor starts at `offset`: deletes the marks above it, because the cursor has not received
    /// those messages.
    pub(crate) fn unmark(
        &self,
        topic: &Topic,
        lane: Lane,
        offset: Offset,
        changes: &mut Vec<Change>,
    ) {
        let mut state = lane_state(topic, lane, changes);
        if state.marks.last().is_some_and(|mark| mark.offset > offset) {
            state.marks.retain(|mark| mark.offset <= offset);
            changes.push(Change::Lane { topic: topic.row.id, lane, state });
        }
    }
}

impl Shard {
    /// Trims the gap around an entry that ends below `trimmed`, as far as a page that contains the
    /// entry can extend. Returns `None` while another group has the same message open.
    pub(crate) fn trim_gap(&self, topic: &Topic, lane: Lane, offset: Offset) -> Option<Change> {
        let state = topic.lane(lane);
        if offset >= state.trimmed || topic.is_dlq() || !self.may_trim(topic, lane) {
            return None;
        }
        let reach =
            (offset.saturating_sub(PAGE_REACH), (offset + PAGE_REACH + 1).min(state.trimmed));
        let holders = topic.groups.values().map(|group| &self.groups[group].cursor(lane).open);
        let mut still_open = 0;
        let (mut from, mut to) = reach;
        for open in holders {
            still_open += usize::from(open.contains(offset));
            if let Some((below, _)) = open.range(reach.0, offset).last() {
                from = from.max(below + 1);
            }
            if let Some((above, _)) = open.range(offset + 1, reach.1.max(offset + 1)).next() {
                to = to.min(above);
            }
        }
        // The ending entry is still counted.
        (still_open <= 1).then_some(Change::Trim { topic: topic.row.id, lane, from, to })
    }
}

/// Records the position of the slowest group. Marks are an eighth of the retention apart.
fn set_mark(now: Timestamp, state: &mut LaneState, slowest: (Offset, u64), topic: &Topic) {
    let (offset, bytes) = slowest;
    let last = state.marks.last();
    let is_further = offset > last.map_or(state.first, |mark| mark.offset);
    let by_time = last.is_none_or(|mark| now.since(mark.at) >= topic.retention_interval_ms());
    let step_bytes = retention_bytes(topic) / MARKS_PER_RETENTION;
    let last_bytes = last.map_or(state.first_bytes, |mark| mark.bytes);
    let by_bytes = bytes.saturating_sub(last_bytes) >= step_bytes.max(1);
    if is_further && (by_time || by_bytes) && state.marks.len() < MARKS_MAX {
        state.marks.push(LaneMark { at: now, offset, bytes });
    }
}

/// Moves `first` past messages that exceed the retention time or bytes.
fn move_first(now: Timestamp, state: &mut LaneState, slowest: (Offset, u64), topic: &Topic) {
    let is_over = |mark: &LaneMark| {
        now.since(mark.at) >= topic.settings.retention_ms
            || slowest.1.saturating_sub(mark.bytes) >= retention_bytes(topic)
    };
    // A group that was moved back needs the messages before the mark again.
    let is_safe = |mark: &LaneMark| mark.offset <= slowest.0;
    while let Some(mark) =
        state.marks.first().copied().filter(|mark| is_over(mark) && is_safe(mark))
    {
        state.marks.remove(0);
        if mark.offset > state.first {
            state.first = mark.offset;
            state.first_bytes = mark.bytes;
        }
    }
}
