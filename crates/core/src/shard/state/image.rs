//! The durable part of a shard, for comparison: recovery must restore it exactly.

use std::collections::BTreeMap;

use crate::audit::Tip;
use crate::change::{Entry, Garbage, GroupRow, LaneState, TopicRow};
use crate::id::{GroupId, Lane, Offset, OwnerId, Text, TopicId};
use crate::row::MarkKind;
use crate::shard::Shard;

/// Everything that recovery must restore from rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    ids: u64,
    topics: BTreeMap<TopicId, (TopicRow, Vec<LaneState>)>,
    groups: BTreeMap<GroupId, GroupRow>,
    cursors: BTreeMap<(GroupId, Lane), CursorImage>,
    owners: BTreeMap<OwnerId, Text>,
    marks: BTreeMap<(MarkKind, u64), u64>,
    garbage: BTreeMap<u64, Garbage>,
    chains: BTreeMap<Text, Tip>,
}

/// `next`, the byte total there, and the open entries.
type CursorImage = (Offset, u64, BTreeMap<Offset, Entry>);

impl Shard {
    /// Returns the durable part.
    pub fn image(&self) -> Image {
        let cursors = self.groups.iter().flat_map(|(id, group)| {
            group.cursors.iter().enumerate().map(|(index, cursor)| {
                let open = cursor.open.iter().map(|(offset, open)| (offset, open.entry)).collect();
                ((*id, Lane::of(index as u32)), (cursor.next, cursor.bytes, open))
            })
        });
        Image {
            ids: self.ids,
            topics: self
                .topics
                .iter()
                .map(|(id, topic)| (*id, (topic.row.clone(), topic.lanes.clone())))
                .collect(),
            groups: self.groups.iter().map(|(id, group)| (*id, group.row.clone())).collect(),
            cursors: cursors.collect(),
            owners: self.owners.by_id.iter().map(|(id, owner)| (*id, owner.name.clone())).collect(),
            marks: self.marks.clone(),
            garbage: self.garbage.clone(),
            chains: self.chains.clone(),
        }
    }
}
