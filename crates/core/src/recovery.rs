//! Recovery: rebuilds a shard from its rows. A state machine without I/O; its caller performs the
//! reads.
//!
//! The state is the small rows, overlaid by the heads from the newest head's `clean` on, in order.
//! Then come the blocks of each cursor from its `low` on, and the last row of each audit chain.
//! Recovery reads no pages, however long the backlog is.

use std::collections::{BTreeMap, VecDeque};

use crate::change::{Change, Garbage, LaneState};
use crate::id::{BatchNo, Generation, GroupId, Lane, NUMBER_MAX, Offset, TopicId};
use crate::limits::{BLOCK_OFFSETS, PARTITIONS_MAX, RECOVERY_READ_ROWS};
use crate::pack::{
    self, AuditRun, CursorItem, Damaged, HeadBody, LaneItem, MarkItem, group_row, open, open_audit,
    topic_row,
};
use crate::packer::{Item, Packer};
use crate::row::{Columns, Key, MarkKind, Read, Row};
use crate::shard::{DamagedBlock, Shard, ShardConfig};
use crate::time::Timestamp;

/// A shard, as far as its rows have been read.
#[derive(Debug)]
pub struct Recovery {
    shard: Shard,
    heads: BTreeMap<BatchNo, Row>,
    cursors: BTreeMap<(Generation, Lane), CursorItem>,
    lanes: BTreeMap<(TopicId, Lane), LaneState>,
    owned: BTreeMap<Generation, GroupId>,
    versions: BTreeMap<(Generation, Lane, u64), BatchNo>,
    dirty_since: BTreeMap<Item, BatchNo>,
    /// Blocks to read, per cursor.
    blocks: VecDeque<(GroupId, Generation, Lane, Key)>,
    /// Entries that must be open: the lowest of each cursor.
    lowest: Vec<(GroupId, Generation, Lane, Offset)>,
    /// Audit chains below this key are not read yet.
    chains: Option<Key>,
    clean: BatchNo,
    last: BatchNo,
    stored_now: Timestamp,
}

/// A recovered shard, ready to serve.
pub struct Recovered {
    pub(crate) shard: Shard,
    pub(crate) packer: Packer,
    /// The last batch.
    pub last: BatchNo,
    /// Its time. The authority clock never goes below it.
    pub now: Timestamp,
}

impl Recovered {
    /// Describes the first inconsistency, if there is one. `ends` is where the last page of each
    /// lane ends.
    pub fn violation(&self, ends: &BTreeMap<(TopicId, Lane), Offset>) -> Option<String> {
        let damaged = self.shard.damaged_blocks().next().map(Damaged::to_string);
        damaged.or_else(|| self.shard.violation()).or_else(|| self.shard.pages_violation(ends))
    }
}

impl Recovery {
    /// Creates a recovery that has read nothing.
    pub fn new(config: ShardConfig) -> Recovery {
        Recovery {
            shard: Shard::empty(config),
            heads: BTreeMap::new(),
            cursors: BTreeMap::new(),
            lanes: BTreeMap::new(),
            owned: BTreeMap::new(),
            versions: BTreeMap::new(),
            dirty_since: BTreeMap::new(),
            blocks: VecDeque::new(),
            lowest: Vec::new(),
            chains: Some(Key::Audit { namespace: [u8::MAX; 16], last: NUMBER_MAX }),
            clean: BatchNo(0),
            last: BatchNo(0),
            stored_now: Timestamp(0),
        }
    }

    /// Accepts a row from the engine's `load`, in any order.
    pub fn row(&mut self, row: Row) -> Result<(), Damaged> {
        pack::verify(&row)?;
        match row.key {
            Key::Head { batch } => drop(self.heads.insert(batch, row)),
            Key::Topic { .. } => self.shard.absorb(&Change::Topic(Box::new(topic_row(&row)?))),
            Key::Group { .. } => {
                let group = group_row(&row)?;
                self.owned.extend(group.cursors.iter().map(|start| (start.generation, group.id)));
                self.shard.absorb(&Change::Group(Box::new(group)));
            }
            Key::Lane { .. } => self.lane(&row.key, open(&row)?)?,
            Key::Cursor { .. } => self.cursor(&row.key, open(&row)?)?,
            Key::Mark { .. } => self.mark(&open(&row)?),
            Key::Owner { owner } => {
                let name = std::str::from_utf8(&row.body).expect("verified above").into();
                self.shard.absorb(&Change::Owner { owner, name });
            }
            Key::Garbage { id } => {
                let garbage: Box<Garbage> = Box::new(open(&row)?);
                self.shard.absorb(&Change::Garbage { id, garbage });
            }
            Key::Page { .. }
            | Key::Block { .. }
            | Key::Note { .. }
            | Key::Record { .. }
            | Key::Held { .. }
            | Key::Outbox { .. }
            | Key::Pointer { .. }
            | Key::History { .. }
            | Key::Audit { .. }
            | Key::Dead { .. } => {
                return Err(Damaged::of(&row.key, "recovery does not load this table"));
            }
        }
        Ok(())
    }

    fn lane(&mut self, key: &Key, item: LaneItem) -> Result<(), Damaged> {
        check_lane(key, item.lane)?;
        self.lanes.insert((item.topic, item.lane), item.state);
        Ok(())
    }

    fn cursor(&mut self, key: &Key, item: CursorItem) -> Result<(), Damaged> {
        check_lane(key, item.lane)?;
        self.cursors.insert((item.generation, item.lane), item);
        Ok(())
    }

    fn mark(&mut self, mark: &MarkItem) {
        if let Some(kind) = MarkKind::of(mark.kind) {
            self.shard.absorb(&Change::Mark { kind, id: mark.id, value: mark.value });
        }
    }

    /// Overlays the heads and plans the reads of blocks. Called after all rows from `load`.
    pub fn loaded(&mut self) -> Result<(), Damaged> {
        let heads = std::mem::take(&mut self.heads);
        if let Some((last, row)) = heads.last_key_value() {
            let Columns::Head { now, clean, .. } = row.columns else {
                return Err(Damaged::of(&row.key, "it is not a head"));
            };
            (self.last, self.stored_now, self.clean) = (*last, now, clean);
        }
        let mut expected = self.clean;
        for (batch, row) in heads.range(self.clean..) {
            if *batch != expected && self.clean != BatchNo(0) {
                return Err(Damaged::of(&row.key, "the head before it is missing"));
            }
            expected = batch.next();
            self.overlay(*batch, &row.key, open(row)?)?;
        }
        // A topic may have been loaded after its groups.
        self.shard.adopt_groups();
        for ((topic, lane), state) in std::mem::take(&mut self.lanes) {
            self.shard.restore_lane(topic, lane, state);
        }
        for item in std::mem::take(&mut self.cursors).into_values() {
            let Some(group) = self.cursor_owner(&item) else {
                continue;
            };
            let CursorItem { generation, lane, next, low, bytes } = item;
            self.shard.absorb(&Change::Cursor { group, lane, next, bytes });
            if low < next {
                let from =
                    Key::Block { generation, lane, block: low / BLOCK_OFFSETS, batch: BatchNo(0) };
                self.blocks.push_back((group, generation, lane, from));
                self.lowest.push((group, generation, lane, low));
            }
        }
        Ok(())
    }

    fn overlay(&mut self, batch: BatchNo, key: &Key, body: HeadBody) -> Result<(), Damaged> {
        self.shard.ids = body.ids;
        for item in body.cursors {
            if let Some(group) = self.cursor_owner(&item) {
                self.dirty_since.entry(Item::Cursor(group, item.lane)).or_insert(batch);
            }
            self.cursor(key, item)?;
        }
        for item in body.lanes {
            if self.shard.topics.contains_key(&item.topic) {
                self.dirty_since.entry(Item::Lane(item.topic, item.lane)).or_insert(batch);
            }
            self.lane(key, item)?;
        }
        for mark in body.marks {
            if let Some(kind) = MarkKind::of(mark.kind) {
                self.dirty_since.entry(Item::Mark(kind, mark.id)).or_insert(batch);
            }
            self.mark(&mark);
        }
        Ok(())
    }

    /// Returns the group of a cursor, or None if its generation is old and it is dead by rule.
    fn cursor_owner(&self, item: &CursorItem) -> Option<GroupId> {
        let group = *self.owned.get(&item.generation)?;
        let start = self.shard.groups.get(&group)?.row.cursors.get(item.lane.index())?;
        (start.generation == item.generation).then_some(group)
    }

    /// Returns the next read to perform, if any.
    pub fn next_read(&self) -> Option<Read> {
        let Some((_, generation, lane, from)) = self.blocks.front().cloned() else {
            return self.chains.clone().map(last_below);
        };
        let to = Key::Block { generation, lane, block: NUMBER_MAX, batch: BatchNo(0) };
        Some(Read::Range {
            from,
            to,
            reverse: false,
            rows: RECOVERY_READ_ROWS,
            bytes: usize::MAX,
            bodies: true,
        })
    }

    /// Accepts the result of [`Recovery::next_read`].
    pub fn read(&mut self, rows: &[Row]) -> Result<(), Damaged> {
        let Some((group, generation, lane, _)) = self.blocks.pop_front() else {
            rows.iter().try_for_each(pack::verify)?;
            return self.chain(rows.first());
        };
        for row in rows {
            let Key::Block { block, batch, .. } = row.key else {
                continue;
            };
            match pack::verify(row).and_then(|()| pack::open_block(row)) {
                Ok(entries) => {
                    self.versions.insert((generation, lane, block), batch);
                    for (offset, entry) in entries {
                        self.shard.owners.restore(entry.owner);
                        let open = Change::Open { group, lane, offset, entry, holder: None };
                        self.shard.absorb(&open);
                    }
                }
                Err(why) => {
                    let damaged = DamagedBlock { why, batch: Some(batch), repaired_to: 0 };
                    self.shard.quarantine_block(group, lane, block, damaged);
                }
            }
        }
        if rows.len() == RECOVERY_READ_ROWS
            && let Some(Key::Block { block, .. }) = rows.last().map(|row| &row.key)
        {
            let from = Key::Block { generation, lane, block: *block + 1, batch: BatchNo(0) };
            self.blocks.push_front((group, generation, lane, from));
        }
        Ok(())
    }

    /// Restores the tip of an audit chain from its last row, and continues with the chain before
    /// it.
    fn chain(&mut self, row: Option<&Row>) -> Result<(), Damaged> {
        self.chains = None;
        if let Some(row) = row
            && let Key::Audit { namespace, .. } = row.key
        {
            let AuditRun { chain: name, before, records } = open_audit(row)?;
            let tip = records.iter().fold(before, |tip, record| tip.next(record).0);
            self.shard.chains.insert(name, tip);
            self.chains = Some(Key::Audit { namespace, last: 0 });
        }
        Ok(())
    }

    /// Completes the recovery after the last read. A cursor whose lowest entry is not open has lost
    /// a block, which is quarantined.
    pub fn finish(mut self) -> Recovered {
        for (group, generation, lane, low) in std::mem::take(&mut self.lowest) {
            let cursor = self.shard.groups[&group].cursor(lane);
            let block = low / BLOCK_OFFSETS;
            if !cursor.open.contains(low) && !cursor.damaged.contains_key(&block) {
                let key = Key::Block { generation, lane, block, batch: BatchNo(0) };
                let why = Damaged::of(&key, "it is missing");
                let damaged = DamagedBlock { why, batch: None, repaired_to: 0 };
                self.shard.quarantine_block(group, lane, block, damaged);
            }
        }

        let packer = Packer::recovered(self.versions, self.dirty_since, self.clean);
        Recovered { shard: self.shard, packer, last: self.last, now: self.stored_now }
    }
}

/// Returns the read for the last audit row before a key.
fn last_below(to: Key) -> Read {
    let from = Key::Audit { namespace: [0; 16], last: 0 };
    Read::Range { from, to, reverse: true, rows: 1, bytes: usize::MAX, bodies: true }
}

/// Rejects lanes of later releases. This release would take them for the lane of their partition.
fn check_lane(key: &Key, lane: Lane) -> Result<(), Damaged> {
    if lane.0 < PARTITIONS_MAX {
        Ok(())
    } else {
        Err(Damaged::of(key, "its lane is of a later release"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{plain, seal};

    #[test]
    fn a_lane_of_a_later_release_is_rejected() {
        let recover = |lane: u32| {
            let item =
                LaneItem { topic: TopicId(1), lane: Lane(lane), state: LaneState::default() };
            let key = Key::Lane { topic: item.topic, lane: item.lane };
            Recovery::new(ShardConfig::default()).row(plain(key, seal(&item)))
        };
        assert_eq!(recover(PARTITIONS_MAX - 1), Ok(()));
        let rejected = recover(PARTITIONS_MAX).expect_err("this release does not know the lane");
        assert_eq!(rejected.why, "its lane is of a later release");
    }
}
