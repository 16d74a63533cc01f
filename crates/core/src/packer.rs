//! Packs the changes of a batch into the rows of a commit.
//!
//! 1. Each row is written at most once per commit, however often it changed.
//! 2. Blocks, cursors and lanes are packed from the shard's state when the batch is closed, so the
//!    caller packs before the next batch is decided.
//! 3. No row is updated in place at every commit. A new version of a block is inserted, and its old
//!    version is deleted by its full key. Items that change all the time are stored in heads and
//!    get their own row after 1 024 batches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::audit::Link;
use crate::change::{Change, Garbage, POINTER_PARTS, Sweep};
use crate::command::Event;
use crate::id::{BatchNo, Epoch, Generation, GroupId, Lane, NUMBER_MAX, Offset, Text, TopicId};
use crate::limits::{CHECKPOINT_AFTER_BATCHES, CHECKPOINTS_MAX};
use crate::message::Message;
use crate::pack::{
    CursorItem, HeadBody, LaneItem, MarkItem, audit_rows, block_of, block_row, pages, plain,
    put_group, put_history, put_topic, record_row, seal,
};
use crate::row::{Columns, Key, MarkKind, Row, Write};
use crate::shard::{Shard, Topic};
use crate::time::Timestamp;

/// An item that is stored in heads and checkpointed as a row from time to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    Cursor(GroupId, Lane),
    Lane(TopicId, Lane),
    Mark(MarkKind, u64),
}

/// Packs batches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packer {
    /// The batch that wrote the stored version of each block.
    versions: BTreeMap<(Generation, Lane, u64), BatchNo>,
    /// The batch since which an item is only in heads.
    dirty_since: BTreeMap<Item, BatchNo>,
    dirty: BTreeSet<(BatchNo, Item)>,
    /// The oldest head that recovery needs.
    clean: BatchNo,
    /// Buffer in which blocks are built.
    scratch: Vec<u8>,
}

/// The messages appended to each lane in a batch: first offset, and the messages.
type Appended<'a> = BTreeMap<(TopicId, Lane), (Offset, Vec<&'a Message>)>;

/// Placeholders for lost messages: first offset, the lane's byte total after them, and the
/// messages.
type Placeholders<'a> = (TopicId, Lane, Offset, u64, &'a [Arc<Message>]);

/// The events of the messages of each block.
type Events<'a> = BTreeMap<(TopicId, Lane, u64), Vec<(Offset, &'a Event)>>;

/// The rows, items and blocks that the changes of a batch touch.
#[derive(Default)]
struct Touched<'a> {
    /// The last version of each row. None: deleted.
    rows: BTreeMap<Key, Option<Row>>,
    /// Ranges to delete after the rows are written.
    ranges: Vec<Write>,
    appended: Appended<'a>,
    /// New links of each audit chain.
    audited: BTreeMap<&'a Text, Vec<&'a Link>>,
    /// About one per change. Sorted and deduplicated before use.
    items: Vec<Item>,
    blocks: Vec<(GroupId, Lane, u64)>,
    history: Events<'a>,
    /// Blocks with trimmed messages.
    trimmed: Vec<(TopicId, Lane, u64)>,
    /// Placeholders for lost messages.
    lost: Vec<Placeholders<'a>>,
    /// Damaged blocks to delete.
    repaired: Vec<(GroupId, Lane, u64, BatchNo)>,
}

impl Touched<'_> {
    /// Adds an item. The last item is often touched again, so skipping it leaves less to sort.
    fn item(&mut self, item: Item) {
        if self.items.last() != Some(&item) {
            self.items.push(item);
        }
    }

    fn block(&mut self, group: GroupId, lane: Lane, offset: Offset) {
        let block = (group, lane, block_of(offset));
        if self.blocks.last() != Some(&block) {
            self.blocks.push(block);
        }
    }
}

impl Packer {
    /// Creates the packer of a recovered shard, from block versions and the items only in heads.
    pub(crate) fn recovered(
        versions: BTreeMap<(Generation, Lane, u64), BatchNo>,
        dirty_since: BTreeMap<Item, BatchNo>,
        clean: BatchNo,
    ) -> Packer {
        let dirty = dirty_since.iter().map(|(item, since)| (*since, *item)).collect();
        Packer { versions, dirty_since, dirty, clean, scratch: Vec::new() }
    }

    /// Returns the writes of a batch. `shard` has absorbed this batch and nothing after it.
    pub(crate) fn pack<'a>(
        &mut self,
        shard: &Shard,
        batch: BatchNo,
        epoch: Epoch,
        now: Timestamp,
        changes: impl IntoIterator<Item = &'a Change>,
    ) -> Vec<Write> {
        let mut touched = Touched::default();
        for change in changes {
            self.touch(change, &mut touched);
        }
        let Touched {
            mut rows,
            mut ranges,
            appended,
            audited,
            mut items,
            mut blocks,
            history,
            trimmed,
            lost,
            repaired,
        } = touched;
        items.sort_unstable();
        items.dedup();
        blocks.sort_unstable();
        blocks.dedup();
        for ((topic, lane), (base, messages)) in appended {
            let Some(of) = shard.topics.get(&topic) else {
                continue;
            };
            let bytes: u64 = messages.iter().map(|message| message.size()).sum();
            let before = of.lane(lane).high_bytes - bytes;
            for row in pages(topic, lane, base, before, now, &messages, of.is_dlq()) {
                // A dead letter may be deleted in the batch that stored it.
                rows.entry(row.key.clone()).or_insert(Some(row));
            }
        }
        for (topic, lane, from, bytes, messages) in lost {
            let messages: Vec<&Message> = messages.iter().map(|message| &**message).collect();
            let at = messages.first().map_or(now, |message| message.produced_at);
            let placed = pages(topic, lane, from, bytes, at, &messages, false);
            rows.extend(placed.into_iter().map(|row| (row.key.clone(), Some(row))));
        }
        for (group, lane, block, batch) in repaired {
            let Some(group) = shard.groups.get(&group) else { continue };
            let generation = group.cursor(lane).start.generation;
            rows.insert(Key::Block { generation, lane, block, batch }, None);
        }
        for ((topic, lane, block), events) in history {
            let row = put_history(topic, lane, block, batch, &events);
            rows.insert(row.key.clone(), Some(row));
        }
        for (topic, lane, block) in trimmed {
            let keeps_history = shard.topics.get(&topic).is_some_and(Topic::keeps_history);
            if keeps_history && shard.is_deleted(topic, lane, block) {
                let of = |block| Key::History { topic, lane, block, batch: BatchNo(0) };
                ranges.push(Write::DeleteRange { from: of(block), to: of(block + 1) });
            }
        }
        for links in audited.values() {
            rows.extend(audit_rows(links).map(|row| (row.key.clone(), Some(row))));
        }
        let mut packed = Vec::with_capacity(2 * blocks.len());
        for (group, lane, block) in blocks {
            self.pack_block(shard, batch, group, lane, block, &mut packed);
        }
        let head = self.head(shard, batch, epoch, now, &items, &mut rows, &mut ranges);
        let mut writes = Vec::with_capacity(rows.len() + packed.len() + ranges.len() + 1);
        writes.push(Write::Put(head));
        writes.extend(rows.into_iter().map(|(key, row)| match row {
            Some(row) => Write::Put(row),
            None => Write::Delete(key),
        }));
        writes.extend(packed);
        writes.extend(ranges);
        writes
    }

    fn touch<'a>(&mut self, change: &'a Change, touched: &mut Touched<'a>) {
        let mut put = |row: Row| drop(touched.rows.insert(row.key.clone(), Some(row)));
        match change {
            // The counter is in every head.
            Change::Ids(_) => {}
            Change::Topic(topic) => put(put_topic(topic)),
            Change::TopicGone(topic) => {
                drop(touched.rows.insert(Key::Topic { topic: *topic }, None))
            }
            Change::Group(group) => put(put_group(group)),
            Change::GroupGone(group) => {
                drop(touched.rows.insert(Key::Group { group: *group }, None))
            }
            Change::Lane { topic, lane, .. } => {
                touched.item(Item::Lane(*topic, *lane));
            }
            Change::Message { topic, lane, offset, message } => {
                touched.item(Item::Lane(*topic, *lane));
                let appended = touched.appended.entry((*topic, *lane));
                appended.or_insert_with(|| (*offset, Vec::new())).1.push(message);
            }
            Change::Cursor { group, lane, .. } => {
                touched.item(Item::Cursor(*group, *lane));
            }
            Change::Open { group, lane, offset, .. }
            | Change::Close { group, lane, offset, .. } => {
                touched.item(Item::Cursor(*group, *lane));
                touched.block(*group, *lane, *offset);
            }
            Change::LastError { .. }
            | Change::NoteGone { .. }
            | Change::Record(_)
            | Change::Effect(_)
            | Change::EffectLink { .. }
            | Change::HeldGone { .. }
            | Change::Outbox { .. }
            | Change::OutboxGone { .. }
            | Change::Pointer(_)
            | Change::Dead(_)
            | Change::DeadGone { .. }
            | Change::MessageGone { .. } => {
                touched.rows.extend(record_row(change));
            }
            Change::Lost { topic, lane, from, bytes, messages } => {
                touched.lost.push((*topic, *lane, *from, *bytes, messages));
            }
            Change::BlockGone { group, lane, block, batch } => {
                touched.item(Item::Cursor(*group, *lane));
                touched.repaired.extend(batch.map(|batch| (*group, *lane, *block, batch)));
            }
            Change::Audit(link) => touched.audited.entry(&link.chain).or_default().push(link),
            Change::Owner { owner, name } => {
                put(plain(Key::Owner { owner: *owner }, Bytes::copy_from_slice(name.as_bytes())));
            }
            Change::OwnerGone(owner) => {
                drop(touched.rows.insert(Key::Owner { owner: *owner }, None))
            }
            Change::Trim { topic, lane, from, to } => {
                touched.ranges.push(Write::Trim {
                    topic: *topic,
                    lane: *lane,
                    from: *from,
                    to: *to,
                });
                let of = block_of(*from)..=block_of(to.saturating_sub(1));
                touched.trimmed.extend(of.map(|block| (*topic, *lane, block)));
            }
            Change::History { topic, lane, offset, event } => {
                let block = touched.history.entry((*topic, *lane, block_of(*offset))).or_default();
                block.push((*offset, event));
            }
            Change::Expire { from, to } => {
                touched.ranges.push(Write::Expire { from: *from, to: *to });
            }
            Change::Mark { kind, id, .. } => {
                touched.item(Item::Mark(*kind, *id));
            }
            Change::Garbage { id, garbage } => {
                self.forget_versions(garbage);
                put(plain(Key::Garbage { id: *id }, seal(garbage)));
            }
            Change::GarbageGone(id) => drop(touched.rows.insert(Key::Garbage { id: *id }, None)),
            Change::Sweep(sweep) => sweep_rows(sweep, touched),
        }
    }

    /// Drops the block versions of an old generation, whose blocks are deleted by range.
    fn forget_versions(&mut self, garbage: &Garbage) {
        let Garbage::Cursor { generation, lanes } = garbage else {
            return;
        };
        for (lane, ..) in lanes {
            let of_lane = (*generation, *lane, 0)..=(*generation, *lane, NUMBER_MAX);
            let keys: Vec<_> = self.versions.range(of_lane).map(|(key, _)| *key).collect();
            for key in keys {
                self.versions.remove(&key);
            }
        }
    }

    /// Writes a new version of a block and deletes the old one. No other change of a batch writes
    /// the same rows.
    fn pack_block(
        &mut self,
        shard: &Shard,
        batch: BatchNo,
        group: GroupId,
        lane: Lane,
        block: u64,
        writes: &mut Vec<Write>,
    ) {
        let Some(group) = shard.groups.get(&group) else { return };
        let cursor = group.cursor(lane);
        let generation = cursor.start.generation;
        let key = (generation, lane, block);
        let row = block_row(key, batch, cursor.open.block(block), &mut self.scratch);
        let before = match &row {
            Some(_) => self.versions.insert(key, batch),
            None => self.versions.remove(&key),
        };
        writes.extend(row.map(Write::Put));
        if let Some(before) = before {
            writes.push(Write::Delete(Key::Block { generation, lane, block, batch: before }));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a head has all of these parts")]
    fn head(
        &mut self,
        shard: &Shard,
        batch: BatchNo,
        epoch: Epoch,
        now: Timestamp,
        items: &[Item],
        rows: &mut BTreeMap<Key, Option<Row>>,
        ranges: &mut Vec<Write>,
    ) -> Row {
        let mut body =
            HeadBody { ids: shard.ids, cursors: Vec::new(), lanes: Vec::new(), marks: Vec::new() };
        for item in items {
            match stored(shard, *item) {
                Some(Stored::Cursor(cursor)) => body.cursors.push(cursor),
                Some(Stored::Lane(lane)) => body.lanes.push(lane),
                Some(Stored::Mark(mark)) => body.marks.push(mark),
                None => continue,
            }
            if !self.dirty_since.contains_key(item) {
                self.dirty_since.insert(*item, batch);
                self.dirty.insert((batch, *item));
            }
        }
        self.checkpoint(shard, batch, rows);
        let clean = self.dirty.first().map_or(batch, |(since, _)| *since);
        if clean > self.clean {
            let (from, to) = (Key::Head { batch: self.clean }, Key::Head { batch: clean });
            ranges.push(Write::DeleteRange { from, to });
            self.clean = clean;
        }
        let columns = Columns::Head { epoch, now, clean };
        Row { key: Key::Head { batch }, columns, body: seal(&body) }
    }

    /// Writes rows for items that have been only in heads for long enough.
    fn checkpoint(&mut self, shard: &Shard, batch: BatchNo, rows: &mut BTreeMap<Key, Option<Row>>) {
        for _ in 0..CHECKPOINTS_MAX {
            let Some(&(since, item)) = self.dirty.first() else {
                return;
            };
            if since.0 + CHECKPOINT_AFTER_BATCHES > batch.0 {
                return;
            }
            self.dirty.pop_first();
            self.dirty_since.remove(&item);
            let row = stored(shard, item).map(|stored| match stored {
                Stored::Cursor(item) => {
                    plain(Key::Cursor { generation: item.generation, lane: item.lane }, seal(&item))
                }
                Stored::Lane(item) => {
                    plain(Key::Lane { topic: item.topic, lane: item.lane }, seal(&item))
                }
                Stored::Mark(mark) => {
                    let kind = MarkKind::of(mark.kind).expect("the item was built from a kind");
                    plain(Key::Mark { kind, id: mark.id }, seal(&mark))
                }
            });
            rows.extend(row.map(|row| (row.key.clone(), Some(row))));
        }
    }
}

/// The current state of an item.
enum Stored {
    Cursor(CursorItem),
    Lane(LaneItem),
    Mark(MarkItem),
}

/// Returns the current state of an item, or None if its group, topic or mark is deleted.
fn stored(shard: &Shard, item: Item) -> Option<Stored> {
    match item {
        Item::Cursor(group, lane) => {
            let cursor = shard.groups.get(&group)?.cursor(lane);
            Some(Stored::Cursor(CursorItem {
                generation: cursor.start.generation,
                lane,
                next: cursor.next,
                low: cursor.low(),
                bytes: cursor.bytes,
            }))
        }
        Item::Lane(topic, lane) => {
            let state = shard.topics.get(&topic)?.lane(lane).clone();
            Some(Stored::Lane(LaneItem { topic, lane, state }))
        }
        Item::Mark(kind, id) => {
            let value = *shard.marks.get(&(kind, id))?;
            Some(Stored::Mark(MarkItem { kind: kind as u8, id, value }))
        }
    }
}

fn sweep_rows(sweep: &Sweep, touched: &mut Touched<'_>) {
    let mut range = |from, to| touched.ranges.push(Write::DeleteRange { from, to });
    match *sweep {
        Sweep::Pages { topic, lane, from, to } => {
            range(Key::Page { topic, lane, last: from }, Key::Page { topic, lane, last: to });
            let history = |block| Key::History { topic, lane, block, batch: BatchNo(0) };
            range(history(block_of(from)), history(block_of(to)));
        }
        Sweep::Blocks { generation, lane, from, to } => {
            let block = |block| Key::Block { generation, lane, block, batch: BatchNo(0) };
            range(block(block_of(from)), block(block_of(to) + 1));
            let note = |offset| Key::Note { generation, lane, offset };
            range(note(from), note(to));
            let held = |offset| Key::Held { generation, lane, offset, hash: [0; 16] };
            range(held(from), held(to));
        }
        Sweep::Lane { topic, lane } => {
            touched.rows.insert(Key::Lane { topic, lane }, None);
            let history = |block| Key::History { topic, lane, block, batch: BatchNo(0) };
            touched.ranges.push(Write::DeleteRange { from: history(0), to: history(NUMBER_MAX) });
        }
        Sweep::Cursor { generation, lane } => {
            touched.rows.insert(Key::Cursor { generation, lane }, None);
            // Entries that ended in the batch that dropped the cursor are below the swept range.
            let block = |block| Key::Block { generation, lane, block, batch: BatchNo(0) };
            range(block(0), block(NUMBER_MAX));
            let note = |offset| Key::Note { generation, lane, offset };
            range(note(0), note(NUMBER_MAX));
            let held = |offset| Key::Held { generation, lane, offset, hash: [0; 16] };
            range(held(0), held(NUMBER_MAX));
        }
        Sweep::Dead { topic, from, to } => {
            range(Key::Dead { topic, seq: from }, Key::Dead { topic, seq: to });
        }
        Sweep::Pointers { topic, of } => {
            let first = |topic, of| {
                let mut dataset = [0; 16];
                dataset[0] = of << 4;
                Key::Pointer { topic, dataset, partition_key: Text::default() }
            };
            let next = if of + 1 < POINTER_PARTS {
                first(topic, of + 1)
            } else {
                first(TopicId(topic.0 + 1), 0)
            };
            range(first(topic, of), next);
        }
    }
}
