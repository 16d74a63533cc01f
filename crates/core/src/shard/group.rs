//! Making a group.

use crate::change::{Change, CursorStart, Decision, GroupRow};
use crate::command::{GroupName, Rejection, Reply, Start};
use crate::id::{Generation, GroupId, Lane};
use crate::limits::GROUP_BYTES_MAX;
use crate::shard::topic::check_name;
use crate::shard::{Decided, Shard, Topic};
use crate::time::Timestamp;

impl Shard {
    pub(super) fn create_group(&self, now: Timestamp, name: &GroupName, start: Start) -> Decided {
        let topic = self.topic_named(&name.topic)?;
        if let Some(&group) = topic.groups.get(&name.group) {
            return Ok(Decision::reply(Reply::GroupExists { group }));
        }
        let (row, ids) = self.new_group(now, topic, name, start)?;
        let mut changes = Vec::new();
        self.unmark_all(topic, &row, &mut changes);
        let decision =
            Decision { changes, ..Decision::reply(Reply::GroupCreated { group: row.id }) };
        Ok(decision.with(ids).with(Change::Group(Box::new(row))))
    }

    /// The lanes' marks, after a group was made.
    pub(super) fn unmark_all(&self, topic: &Topic, row: &GroupRow, changes: &mut Vec<Change>) {
        for (index, start) in row.cursors.iter().enumerate() {
            self.unmark(topic, Lane::of(index as u32), start.offset, changes);
        }
    }

    /// A new group, and what the counter is then.
    pub(super) fn new_group(
        &self,
        now: Timestamp,
        topic: &Topic,
        name: &GroupName,
        start: Start,
    ) -> Result<(GroupRow, Change), Rejection> {
        check_name("group", &name.group, GROUP_BYTES_MAX)?;
        let generation = Generation(self.ids + 1);
        let begin = |lane: &crate::change::LaneState| match start {
            Start::Earliest => {
                CursorStart { generation, offset: lane.first, bytes: lane.first_bytes }
            }
            Start::Latest => CursorStart { generation, offset: lane.high, bytes: lane.high_bytes },
        };
        let row = GroupRow {
            id: GroupId(self.ids),
            topic: topic.row.id,
            name: name.group.clone(),
            created_at: now,
            paused: None,
            cursors: topic.lanes.iter().map(begin).collect(),
        };
        Ok((row, Change::Ids(self.ids + 2)))
    }
}
