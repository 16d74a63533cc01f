//! Messages in memory: recently produced, read ahead, or loaded for a retry.
//!
//! Everything here is a copy of immutable rows. Losing it costs a read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::id::{Generation, Lane, Offset, Text, TopicId};
use crate::limits::{PAGE_BYTES_MAX, PAGE_MESSAGES_MAX};
use crate::message::{Kept, Message};

/// Bytes counted for a message besides its content.
const MESSAGE_OVERHEAD: usize = 256;

type Place = (TopicId, Lane, Offset);

/// Consecutive messages of a lane.
#[derive(Debug, Clone)]
struct Segment {
    /// Number of offsets right before it that have no message.
    hole: u64,
    messages: Vec<Kept>,
    bytes: usize,
    used: u64,
}

/// A message and the last error of its entry, ready for a retry.
#[derive(Debug, Clone)]
pub(crate) struct Staged {
    pub(crate) message: Arc<Message>,
    pub(crate) last_error: Text,
}

/// Messages in memory. The least recently used segment is evicted first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cache {
    bytes_max: usize,
    retry_bytes_max: usize,
    segments: BTreeMap<Place, Segment>,
    /// Segments by last use.
    by_use: BTreeMap<u64, Place>,
    uses: u64,
    bytes: usize,
    staged: BTreeMap<(Generation, Lane, Offset), Staged>,
    staged_bytes: usize,
    /// In insertion order. Some may already be removed.
    staged_order: VecDeque<(Generation, Lane, Offset)>,
}

/// Most retries whose message is kept in memory.
const STAGED_MAX: usize = 4_096;

fn weight(message: &Message) -> usize {
    message.content_bytes() as usize + MESSAGE_OVERHEAD
}

impl Cache {
    /// Creates a cache of `bytes_max` bytes, plus `retry_bytes_max` for retries.
    pub(crate) fn new(bytes_max: usize, retry_bytes_max: usize) -> Cache {
        Cache { bytes_max, retry_bytes_max, ..Cache::default() }
    }

    /// Returns the consecutive messages of a lane in memory from `offset` on.
    pub(crate) fn run(&self, topic: TopicId, lane: Lane, offset: Offset) -> &[Kept] {
        let Some((&(_, _, base), segment)) = self.holding(topic, lane, offset) else {
            return &[];
        };
        segment.messages.get((offset - base) as usize..).unwrap_or(&[])
    }

    pub(crate) fn get(&self, topic: TopicId, lane: Lane, offset: Offset) -> Option<&Kept> {
        self.run(topic, lane, offset).first()
    }

    fn holding(&self, topic: TopicId, lane: Lane, offset: Offset) -> Option<(&Place, &Segment)> {
        self.segments.range((topic, lane, 0)..=(topic, lane, offset)).next_back()
    }

    /// Marks the segment of `offset` as recently used.
    pub(crate) fn touch(&mut self, topic: TopicId, lane: Lane, offset: Offset) {
        let Some((&place, segment)) = self.holding(topic, lane, offset) else {
            return;
        };
        let used = segment.used;
        self.uses += 1;
        self.by_use.remove(&used);
        self.by_use.insert(self.uses, place);
        self.segments.get_mut(&place).expect("found above").used = self.uses;
    }

    /// Caches a message that was appended to its lane.
    pub(crate) fn append(&mut self, topic: TopicId, lane: Lane, offset: Offset, kept: Kept) {
        let bytes = weight(&kept.message);
        let tail = self.segments.range_mut((topic, lane, 0)..=(topic, lane, offset)).next_back();
        if let Some((&(_, _, base), segment)) = tail
            && base + segment.messages.len() as u64 == offset
            && segment.messages.len() < PAGE_MESSAGES_MAX
            && segment.bytes + bytes <= PAGE_BYTES_MAX
        {
            segment.messages.push(kept);
            segment.bytes += bytes;
            self.bytes += bytes;
            self.shrink();
        } else {
            self.insert(topic, lane, offset, vec![kept]);
        }
    }

    /// Caches messages that were read.
    pub(crate) fn insert(&mut self, topic: TopicId, lane: Lane, base: Offset, messages: Vec<Kept>) {
        let place = (topic, lane, base);
        let hole = self.segments.get(&place).map_or(0, |segment| segment.hole);
        self.drop_segment(place);
        let bytes = messages.iter().map(|kept| weight(&kept.message)).sum();
        self.uses += 1;
        self.by_use.insert(self.uses, place);
        self.segments.insert(place, Segment { hole, messages, bytes, used: self.uses });
        self.bytes += bytes;
        self.shrink();
    }

    /// Records that nothing is stored from `from` up to `to`.
    pub(crate) fn hole(&mut self, topic: TopicId, lane: Lane, from: Offset, to: Offset) {
        if from >= to {
            return;
        }
        if !self.segments.contains_key(&(topic, lane, to)) {
            self.insert(topic, lane, to, Vec::new());
        }
        let after = self.segments.get_mut(&(topic, lane, to));
        let after = after.expect("the newest segment stays");
        after.hole = after.hole.max(to - from);
    }

    /// Returns the end of the hole that contains `offset`, if one is known.
    pub(crate) fn hole_end(&self, topic: TopicId, lane: Lane, offset: Offset) -> Option<Offset> {
        let beyond = (topic, lane, offset + 1)..=(topic, lane, Offset::MAX);
        let (&(_, _, base), segment) = self.segments.range(beyond).next()?;
        (offset + segment.hole >= base).then_some(base)
    }

    /// Drops the segments of a message that is no longer stored.
    pub(crate) fn forget(&mut self, topic: TopicId, lane: Lane, offset: Offset) {
        let reach = offset.saturating_sub(PAGE_MESSAGES_MAX as u64);
        let near = self.segments.range((topic, lane, reach)..=(topic, lane, offset));
        let holds = |base: Offset, segment: &Segment| offset - base < segment.messages.len() as u64;
        let holding = near.filter(|((_, _, base), segment)| holds(*base, segment));
        let places: Vec<Place> = holding.map(|(&place, _)| place).collect();
        places.into_iter().for_each(|place| self.drop_segment(place));
    }

    fn shrink(&mut self) {
        // The newest segment stays, however large it is, because it was just requested.
        while self.bytes > self.bytes_max && self.by_use.len() > 1 {
            let (_, &oldest) = self.by_use.first_key_value().expect("not empty");
            self.drop_segment(oldest);
        }
    }

    fn drop_segment(&mut self, place: Place) {
        if let Some(segment) = self.segments.remove(&place) {
            self.by_use.remove(&segment.used);
            self.bytes -= segment.bytes;
        }
    }

    /// Drops all segments of a topic.
    pub(crate) fn forget_topic(&mut self, topic: TopicId) {
        let places: Vec<Place> = self
            .segments
            .range((topic, Lane(0), 0)..=(topic, Lane(u32::MAX), Offset::MAX))
            .map(|(&place, _)| place)
            .collect();
        for place in places {
            self.drop_segment(place);
        }
    }

    /// Caches a message for a retry.
    pub(crate) fn stage(
        &mut self,
        generation: Generation,
        lane: Lane,
        offset: Offset,
        staged: Staged,
    ) {
        let place = (generation, lane, offset);
        self.unstage(generation, lane, offset);
        self.staged_bytes += weight(&staged.message);
        self.staged.insert(place, staged);
        self.staged_order.push_back(place);
        let is_over = |cache: &Cache| {
            cache.staged_bytes > cache.retry_bytes_max || cache.staged_order.len() > STAGED_MAX
        };
        while self.staged.len() > 1 && is_over(self) {
            let (generation, lane, offset) = self.staged_order.pop_front().expect("not empty");
            self.unstage(generation, lane, offset);
        }
    }

    pub(crate) fn staged(
        &self,
        generation: Generation,
        lane: Lane,
        offset: Offset,
    ) -> Option<&Staged> {
        self.staged.get(&(generation, lane, offset))
    }

    /// Drops the staged message of an entry that changed.
    pub(crate) fn unstage(&mut self, generation: Generation, lane: Lane, offset: Offset) {
        if let Some(staged) = self.staged.remove(&(generation, lane, offset)) {
            self.staged_bytes -= weight(&staged.message);
        }
        if self.staged.is_empty() {
            self.staged_order.clear();
        }
    }

    /// Returns the bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.staged_bytes
    }
}
