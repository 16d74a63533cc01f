//! Creates a group.

use crate::change::{Change, CursorStart, Decision, GroupRow, LaneState};
use crate::command::{GroupName, Rejection, Reply, Start};
use crate::id::{Generation, GroupId, Lane, Offset};
use crate::limits::GROUP_BYTES_MAX;
use crate::refusal::Decided;
use crate::shard::Topic;
use crate::shard::context::Context;
use crate::shard::verbs::seek::bytes_at;
use crate::validate::check_name;

impl Context<'_> {
    pub(crate) fn create_group(&self, name: &GroupName, start: Start) -> Decided {
        let mut changes = Vec::new();
        let mut ids = self.ids;
        let topic = &*self.topic_to_read(&name.topic, &mut ids, &mut changes)?;
        if let Some(&group) = topic.groups.get(&name.group) {
            return Ok(Decision::reply(Reply::GroupExists { group }));
        }
        let starts = match start {
            Start::Earliest => earliest(topic),
            Start::Latest => latest(topic),
            Start::Time(at) => self.offsets_for_time(topic, at)?,
        };
        let row = self.new_group(topic, name, &starts, &mut ids)?;
        self.unmark_all(topic, &row, &mut changes);
        let decision =
            Decision { changes, ..Decision::reply(Reply::GroupCreated { group: row.id }) };
        Ok(decision.with(Change::Ids(ids)).with(Change::Group(Box::new(row))))
    }

    /// Deletes the retention marks that a new group makes invalid.
    pub(crate) fn unmark_all(&self, topic: &Topic, row: &GroupRow, changes: &mut Vec<Change>) {
        for (index, start) in row.cursors.iter().enumerate() {
            self.unmark(topic, Lane::of(index as u32), start.offset, changes);
        }
    }

    /// Returns a new group that starts at these offsets. Takes its ids from the counter.
    pub(crate) fn new_group(
        &self,
        topic: &Topic,
        name: &GroupName,
        starts: &[Offset],
        ids: &mut u64,
    ) -> Result<GroupRow, Rejection> {
        check_name("group", &name.group, GROUP_BYTES_MAX)?;
        self.check_cursors(topic)?;
        let (id, generation) = (GroupId(*ids), Generation(*ids + 1));
        *ids += 2;
        let begin = |(lane, offset): (&LaneState, &Offset)| CursorStart {
            generation,
            offset: *offset,
            bytes: bytes_at(lane, *offset),
        };
        Ok(GroupRow {
            id,
            topic: topic.row.id,
            name: name.group.clone(),
            created_at: self.now,
            seen: self.now,
            paused: None,
            cursors: topic.lanes.iter().zip(starts).map(begin).collect(),
        })
    }
}

/// The oldest offset that is kept, of each lane.
pub(crate) fn earliest(topic: &Topic) -> Vec<Offset> {
    topic.lanes.iter().map(|lane| lane.first).collect()
}

/// The end of each lane.
pub(crate) fn latest(topic: &Topic) -> Vec<Offset> {
    topic.lanes.iter().map(|lane| lane.high).collect()
}
