//! Quarantine: stored rows that cannot be read stop their lane or cursor, not the shard.
//!
//! A damaged or missing page stops its lane: it delivers and trims nothing, but still accepts
//! messages. A damaged block stops its cursor, and the lane trims nothing, because it is unknown
//! which pages are needed. No message is skipped until an operator repairs the lane
//! ([`repair`](crate::shard::verbs::repair)).
//!
//! Quarantine is never stored. After a restart, damaged blocks are detected during recovery and
//! damaged pages when they are read.

use crate::id::{GroupId, Lane, Offset, TopicId};
use crate::limits::BLOCK_OFFSETS;
use crate::pack::Damaged;
use crate::shard::state::DamagedBlock;
use crate::shard::{Cursor, Group, Shard, Topic};

impl Cursor {
    /// Returns the damage because of which it is unknown whether the message at `offset` is open.
    pub(crate) fn damage_at(&self, offset: Offset) -> Option<&Damaged> {
        self.damaged.get(&(offset / BLOCK_OFFSETS)).map(|block| &block.why)
    }

    /// Whether a later release has written a block that cannot be read.
    pub(crate) fn has_newer_blocks(&self) -> bool {
        self.damaged.values().any(|block| block.why.is_newer())
    }
}

impl Shard {
    /// Stops the lane of a damaged or missing page.
    pub(crate) fn quarantine_lane(&mut self, damaged: &Damaged) {
        let Some((topic, lane)) = damaged.lane else { return };
        if let Some(topic) = self.topics.get_mut(&topic) {
            topic.damaged.entry(lane).or_insert_with(|| damaged.clone());
        }
    }

    /// Stops the cursor of a damaged or missing block.
    pub(crate) fn quarantine_block(
        &mut self,
        group: GroupId,
        lane: Lane,
        block: u64,
        damaged: DamagedBlock,
    ) {
        if let Some(group) = self.groups.get_mut(&group) {
            group.cursors[lane.index()].damaged.insert(block, damaged);
        }
    }

    /// Records that a repair has reopened the messages of a damaged block below `to`.
    pub(crate) fn reopened_to(&mut self, group: GroupId, lane: Lane, block: u64, to: Offset) {
        let group = self.groups.get_mut(&group);
        let cursor = group.and_then(|group| group.cursors.get_mut(lane.index()));
        if let Some(damaged) = cursor.and_then(|cursor| cursor.damaged.get_mut(&block)) {
            damaged.repaired_to = to;
        }
    }

    /// Resumes delivery from a repaired lane.
    pub(crate) fn end_quarantine(&mut self, topic: TopicId, lane: Lane) {
        let Some(of) = self.topics.get_mut(&topic) else { return };
        of.damaged.remove(&lane);
        let groups: Vec<GroupId> = of.groups.values().copied().collect();
        groups.into_iter().for_each(|group| self.offer(group, lane));
        self.plan_chore(topic, lane);
    }

    /// Returns the damage that stops delivery from a lane to a group, if there is any.
    pub(crate) fn damage_of<'a>(
        &self,
        topic: &'a Topic,
        group: &'a Group,
        lane: Lane,
    ) -> Option<&'a Damaged> {
        let of_cursor = group.cursor(lane).damaged.values().map(|block| &block.why).next();
        topic.damaged.get(&lane).or(of_cursor)
    }

    /// Whether pages of a lane may be trimmed.
    pub(crate) fn may_trim(&self, topic: &Topic, lane: Lane) -> bool {
        !topic.damaged.contains_key(&lane)
            && topic.groups.values().all(|id| self.groups[id].cursor(lane).damaged.is_empty())
    }

    /// Returns the blocks that recovery could not read.
    pub(crate) fn damaged_blocks(&self) -> impl Iterator<Item = &Damaged> {
        let cursors = self.groups.values().flat_map(|group| &group.cursors);
        cursors.flat_map(|cursor| cursor.damaged.values()).map(|block| &block.why)
    }
}
