//! The rows that deciding looks up.
//!
//! A read view is the rows that the engine returned, overlaid by all decisions that the engine may
//! not have had: batches that were not durable when the read began, and the decisions of the
//! current batch. One type applies the overlay, and no other code looks up rows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::change::{Lookup, Reads};
use crate::id::{BatchNo, Generation, Lane, NUMBER_MAX, Offset, ShardId, Text, TopicId};
use crate::limits::{
    AUDIT_BYTES, AUDIT_ROWS_MAX, DEAD_DROPPED_MAX, DEAD_ROWS_MAX, EFFECT_ROWS_MAX, EFFECTS_MAX,
    EXPIRE_ROWS_MAX, HELD_ROWS_MAX, HISTORY_ROWS_MAX, OUTBOX_BYTES, OUTBOX_ROWS_MAX, PEEK_BYTES,
    PEEK_PAGES_MAX, POINTER_ROWS_MAX,
};
use crate::message::Message;
use crate::pack::{Damaged, Page, open_page};
use crate::refusal::Refusal;
use crate::row::{Columns, Hash16, Key, Place, Read, RecordKind, Row, Table, Write, following};
use crate::time::Timestamp;

/// One lookup and the rows that the engine returned for it.
#[derive(Debug, Clone)]
pub(crate) struct LookupResult {
    pub(crate) lookup: Lookup,
    pub(crate) rows: Vec<Row>,
    /// The damage of the first damaged row.
    pub(crate) damaged: Option<Damaged>,
}

impl Lookup {
    /// Returns the engine's read for this lookup.
    pub(crate) fn read(&self) -> Read {
        match self.clone() {
            Lookup::Row(key) => Read::Key(key),
            Lookup::Message { topic, lane, offset } => {
                Read::pages(topic, lane, offset, 1, usize::MAX)
            }
            Lookup::PageBounds { topic, lane, offset } => Read::Range {
                from: Key::Page { topic, lane, last: offset },
                to: Key::Page { topic, lane, last: NUMBER_MAX },
                reverse: false,
                rows: 1,
                bytes: usize::MAX,
                bodies: false,
            },
            Lookup::Newest { topic, below } => dead_rows(topic, below, true, DEAD_ROWS_MAX),
            Lookup::Oldest { topic } => dead_rows(topic, NUMBER_MAX, false, DEAD_DROPPED_MAX),
            Lookup::Held { generation, lane, offset } => {
                let key = |offset| Key::Held { generation, lane, offset, hash: [0; 16] };
                let (from, to) = (key(offset), key(offset + 1));
                let (rows, bytes) = (usize::from(EFFECTS_MAX), usize::MAX);
                Read::Range { from, to, reverse: false, rows, bytes, bodies: false }
            }
            Lookup::HeldWithin { generation, lane, from, to } => {
                let key = |offset| Key::Held { generation, lane, offset, hash: [0; 16] };
                let (from, to) = (key(from), key(to));
                let (rows, bytes) = (HELD_ROWS_MAX, usize::MAX);
                Read::Range { from, to, reverse: false, rows, bytes, bodies: false }
            }
            Lookup::Outbox { target, from } => Read::Range {
                from: Key::Outbox { target, seq: from },
                to: Key::Outbox { target, seq: NUMBER_MAX },
                reverse: false,
                rows: OUTBOX_ROWS_MAX,
                bytes: OUTBOX_BYTES,
                bodies: true,
            },
            Lookup::History { topic, lane, block } => {
                let of = |block| Key::History { topic, lane, block, batch: BatchNo(0) };
                let (from, to) = (of(block), of(block + 1));
                let (rows, bytes) = (HISTORY_ROWS_MAX, usize::MAX);
                Read::Range { from, to, reverse: false, rows, bytes, bodies: true }
            }
            Lookup::Pointers { topic, dataset, after } => {
                let std::ops::Range { start: from, end: to } = pointers(topic, dataset, &after);
                let (rows, bytes) = (POINTER_ROWS_MAX, usize::MAX);
                Read::Range { from, to, reverse: false, rows, bytes, bodies: true }
            }
            Lookup::Audit { namespace, from } => Read::Range {
                from: Key::Audit { namespace, last: from },
                to: Key::Audit { namespace, last: NUMBER_MAX },
                reverse: false,
                rows: AUDIT_ROWS_MAX,
                bytes: AUDIT_BYTES,
                bodies: true,
            },
            Lookup::Unending { from } => {
                // `from` comes from clients. Below the first place are the records that expire.
                let from = from.max(Place::FIRST);
                Read::Unending { kind: RecordKind::Effect, from, rows: EFFECT_ROWS_MAX }
            }
            Lookup::Ending { from } => Read::Ending { from, rows: EXPIRE_ROWS_MAX },
            Lookup::Pages { topic, lane, from } => {
                Read::pages(topic, lane, from, PEEK_PAGES_MAX, PEEK_BYTES)
            }
        }
    }
}

fn pointers(topic: TopicId, dataset: Hash16, after: &str) -> Range<Key> {
    // The smallest text after it, because partition keys have no control characters.
    let partition_key =
        if after.is_empty() { Text::default() } else { format!("{after}\0").into() };
    let next = following(dataset).unwrap_or([u8::MAX; 16]);
    let end = Key::Pointer { topic, dataset: next, partition_key: Text::default() };
    Key::Pointer { topic, dataset, partition_key }..end
}

fn dead_rows(topic: TopicId, below: u64, reverse: bool, rows: usize) -> Read {
    let (from, to) = (Key::Dead { topic, seq: 0 }, Key::Dead { topic, seq: below });
    Read::Range { from, to, reverse, rows, bytes: usize::MAX, bodies: true }
}

/// The rows that one command may read.
pub(crate) struct ReadView<'a> {
    answers: &'a [LookupResult],
    overlay: &'a Overlay,
}

impl<'a> ReadView<'a> {
    /// Creates a view. `answers` must be sorted by lookup.
    pub(crate) fn new(answers: &'a [LookupResult], overlay: &'a Overlay) -> ReadView<'a> {
        debug_assert!(
            answers.is_sorted_by(|a, b| a.lookup <= b.lookup),
            "binary search needs sorted answers"
        );
        ReadView { answers, overlay }
    }

    /// Returns the row of a key, if it exists.
    pub(crate) fn row(&self, key: Key) -> Result<Option<&'a Row>, Reads> {
        if let Some(decided) = self.overlay.row(&key) {
            return Ok(decided);
        }
        Ok(self.answer(Lookup::Row(key))?.first())
    }

    fn answer(&self, lookup: Lookup) -> Result<&'a [Row], Reads> {
        let at = self.answers.binary_search_by(|answer| answer.lookup.cmp(&lookup));
        at.map(|at| &*self.answers[at].rows).map_err(|_| vec![lookup])
    }

    /// Returns the pages of a lane from the one that holds `from` on.
    pub(crate) fn pages(
        &self,
        topic: TopicId,
        lane: Lane,
        from: Offset,
    ) -> Result<PageRun, Refusal> {
        let rows = self.answer(Lookup::Pages { topic, lane, from })?;
        Ok(self.overlay.run(topic, lane, from, rows)?)
    }

    /// Returns the pages of a lane from the one that holds `from` on, including damaged ones, and
    /// the offset up to which they are complete.
    pub(crate) fn page_states(
        &self,
        topic: TopicId,
        lane: Lane,
        from: Offset,
    ) -> Result<(Vec<PageState>, Offset), Reads> {
        let rows = self.answer(Lookup::Pages { topic, lane, from })?;
        let (rows, end) = self.overlay.page_rows(topic, lane, from, rows);
        let state = |row: &Row| {
            let at = PageBounds::of(row).map_or(Timestamp(0), |page| page.at);
            PageState { last: last_of(row), at, content: open_page(row) }
        };
        Ok((rows.into_iter().map(state).collect(), end))
    }

    /// Returns the bounds of the page that holds `offset`, or of the next page.
    pub(crate) fn page_at(
        &self,
        topic: TopicId,
        lane: Lane,
        offset: Offset,
    ) -> Result<Option<PageBounds>, Reads> {
        let answered = self.answer(Lookup::PageBounds { topic, lane, offset })?.first();
        let decided = self.overlay.pages(topic, lane, offset).next();
        let nearest =
            answered.into_iter().chain(decided).min_by(|one, other| one.key.cmp(&other.key));
        Ok(nearest.and_then(PageBounds::of))
    }

    /// Returns the dead letters of a `dlq.` topic whose number is below `below`, newest first.
    pub(crate) fn newest_dead(&self, topic: TopicId, below: u64) -> Result<DeadSlice<'a>, Reads> {
        let answered = self.answer(Lookup::Newest { topic, below })?;
        let lowest = answered.last().filter(|_| answered.len() >= DEAD_ROWS_MAX).map(seq_of);
        let rows = self.overlay.dead(topic, lowest.unwrap_or(0), below, answered);
        Ok(DeadSlice { rows: rows.into_values().rev().collect(), next: lowest })
    }

    /// Returns the oldest dead letters of a `dlq.` topic, oldest first.
    pub(crate) fn oldest_dead(&self, topic: TopicId) -> Result<DeadSlice<'a>, Reads> {
        let answered = self.answer(Lookup::Oldest { topic })?;
        let highest = answered.last().filter(|_| answered.len() >= DEAD_DROPPED_MAX).map(seq_of);
        let next = highest.map(|highest| highest + 1);
        let rows = self.overlay.dead(topic, 0, next.unwrap_or(NUMBER_MAX), answered);
        Ok(DeadSlice { rows: rows.into_values().collect(), next })
    }

    /// Returns the hashes of the effects begun under an open entry.
    pub(crate) fn held(
        &self,
        generation: Generation,
        lane: Lane,
        offset: Offset,
    ) -> Result<Vec<Hash16>, Reads> {
        let answered = self.answer(Lookup::Held { generation, lane, offset })?;
        let key = |offset| Key::Held { generation, lane, offset, hash: [0; 16] };
        let keys = self.overlay.merged(key(offset)..key(offset + 1), answered).into_keys();
        Ok(keys.filter_map(|key| hash_of(&key)).collect())
    }

    /// Returns the hashes of the effects begun under entries in `from..to`, and the offset up to
    /// which they are complete.
    pub(crate) fn held_within(
        &self,
        generation: Generation,
        lane: Lane,
        from: Offset,
        to: Offset,
    ) -> Result<(BTreeSet<Hash16>, Offset), Reads> {
        let answered = self.answer(Lookup::HeldWithin { generation, lane, from, to })?;
        // The last entry may have more effects than were read. An entry has fewer than one read
        // returns, so the last entry is not the first.
        let last = answered.last().filter(|_| answered.len() >= HELD_ROWS_MAX);
        let end = last.and_then(|row| offset_of(&row.key)).unwrap_or(to);
        let key = |offset| Key::Held { generation, lane, offset, hash: [0; 16] };
        let rows = self.overlay.merged(key(from)..key(end), answered);
        let within = rows.into_keys().filter(|held| *held < key(end));
        Ok((within.filter_map(|key| hash_of(&key)).collect(), end))
    }

    /// Returns how many effects were begun under each entry in `from..to`. Where not all were read,
    /// it returns the maximum.
    pub(crate) fn held_by_offset(
        &self,
        generation: Generation,
        lane: Lane,
        from: Offset,
        to: Offset,
    ) -> Result<BTreeMap<Offset, u8>, Reads> {
        let answered = self.answer(Lookup::HeldWithin { generation, lane, from, to })?;
        let last = answered.last().filter(|_| answered.len() >= HELD_ROWS_MAX);
        let unread = last.and_then(|row| offset_of(&row.key)).unwrap_or(to)..to;
        let key = |offset| Key::Held { generation, lane, offset, hash: [0; 16] };
        let rows = self.overlay.merged(key(from)..key(to), answered);
        let mut counts: BTreeMap<Offset, u8> = unread.map(|offset| (offset, EFFECTS_MAX)).collect();
        for offset in rows.keys().filter_map(offset_of) {
            let count = counts.entry(offset).or_default();
            *count = count.saturating_add(1).min(EFFECTS_MAX);
        }
        Ok(counts)
    }

    /// Returns the messages in the outbox for another shard, in order and without gaps.
    pub(crate) fn outbox(&self, target: ShardId, from: u64) -> Result<Vec<&'a Row>, Reads> {
        let answered = self.answer(Lookup::Outbox { target, from })?;
        let key = |seq| Key::Outbox { target, seq };
        let rows = self.overlay.merged(key(from)..key(NUMBER_MAX), answered);
        let in_order = (from..).zip(rows).take_while(|(seq, (of, _))| *of == key(*seq));
        Ok(in_order.map(|(_, (_, row))| row).collect())
    }

    /// Returns the history rows of a block, oldest first.
    pub(crate) fn history(
        &self,
        topic: TopicId,
        lane: Lane,
        block: u64,
    ) -> Result<Vec<&'a Row>, Reads> {
        let answered = self.answer(Lookup::History { topic, lane, block })?;
        let of = |block| Key::History { topic, lane, block, batch: BatchNo(0) };
        Ok(self.overlay.merged(of(block)..of(block + 1), answered).into_values().collect())
    }

    /// Returns the pointers of a version of a dataset after the partition key `after`, in order,
    /// and whether the list is complete.
    pub(crate) fn pointers(
        &self,
        topic: TopicId,
        dataset: Hash16,
        after: Text,
    ) -> Result<(Vec<&'a Row>, bool), Reads> {
        let mut range = pointers(topic, dataset, &after);
        let answered = self.answer(Lookup::Pointers { topic, dataset, after })?;
        let last = answered.last().filter(|_| answered.len() >= POINTER_ROWS_MAX);
        let is_all = last.is_none();
        // After the last row that the engine returned, there may be rows that were not read. So
        // newer decisions count only up to that row.
        if let Some(Key::Pointer { partition_key, .. }) = last.map(|row| &row.key) {
            range.end = pointers(topic, dataset, partition_key).start;
        }
        let rows = self.overlay.merged(range, answered).into_values().collect();
        Ok((rows, is_all))
    }

    /// Returns the rows of an audit chain from the one that holds the record `from` on. There may
    /// be gaps.
    pub(crate) fn audit(&self, namespace: Hash16, from: u64) -> Result<Vec<&'a Row>, Reads> {
        let answered = self.answer(Lookup::Audit { namespace, from })?;
        let key = |last| Key::Audit { namespace, last };
        Ok(self.overlay.merged(key(from)..key(NUMBER_MAX), answered).into_values().collect())
    }

    /// Returns effects without an expiry, ordered by place from `from` on, and where the list
    /// continues.
    pub(crate) fn unending(&self, from: Place) -> Result<(Vec<&'a Row>, Option<Place>), Reads> {
        let answered = self.answer(Lookup::Unending { from })?;
        let last = answered.last().filter(|_| answered.len() >= EFFECT_ROWS_MAX);
        let next = last.and_then(Place::of).and_then(Place::following);
        let effect = |hash| Key::Record { kind: RecordKind::Effect, hash };
        // Newer decisions are not ordered by place, but there are few.
        let rows = self.overlay.merged(effect([0; 16])..effect([u8::MAX; 16]), answered);
        let is_asked_for = |place: &Place| *place >= from && next.is_none_or(|next| *place < next);
        let placed = rows.into_values().filter_map(|row| Place::of(row).map(|place| (place, row)));
        let placed: BTreeMap<Place, &Row> =
            placed.filter(|(place, _)| is_asked_for(place)).collect();
        Ok((placed.into_values().collect(), next))
    }

    /// Returns the buckets of records from `from` on, in order. Commits in flight may have changed
    /// them.
    pub(crate) fn ending(&self, from: u64) -> Result<Vec<u64>, Reads> {
        let bucket = |row: &Row| {
            if let Columns::Record { bucket, .. } = row.columns { Some(bucket) } else { None }
        };
        Ok(self.answer(Lookup::Ending { from })?.iter().filter_map(bucket).collect())
    }

    /// Returns a message that must be stored. If it is missing, that is damage.
    pub(crate) fn message(
        &self,
        topic: TopicId,
        lane: Lane,
        offset: Offset,
    ) -> Result<Arc<Message>, Refusal> {
        let stored = self.stored(topic, lane, offset)?;
        stored.ok_or_else(|| missing(topic, lane, offset).into())
    }

    /// Returns a message, or None if it was deleted.
    pub(crate) fn stored(
        &self,
        topic: TopicId,
        lane: Lane,
        offset: Offset,
    ) -> Result<Option<Arc<Message>>, Refusal> {
        let row = match self.overlay.page(topic, lane, offset) {
            Some(row) => Some(row),
            None => {
                let answered = self.answer(Lookup::Message { topic, lane, offset })?.first();
                answered.filter(|row| !self.overlay.is_gone(&row.key))
            }
        };
        let Some(row) = row.filter(|row| holds(row, offset)) else { return Ok(None) };
        let page = open_page(row)?;
        Ok(Some(page.messages[(offset - page.base) as usize].message.clone()))
    }

    /// Returns the last error of an open entry that has one.
    pub(crate) fn note(
        &self,
        generation: Generation,
        lane: Lane,
        offset: Offset,
    ) -> Result<Text, Reads> {
        let row = self.row(Key::Note { generation, lane, offset })?;
        Ok(row.map(|row| String::from_utf8_lossy(&row.body).into()).unwrap_or_default())
    }
}

/// Returns the damage for a message whose page is missing.
pub(crate) fn missing(topic: TopicId, lane: Lane, offset: Offset) -> Damaged {
    Damaged {
        key: format!("page of topic {topic}, lane {lane}, offset {offset}"),
        why: "it is missing",
        lane: Some((topic, lane)),
    }
}

fn holds(row: &Row, offset: Offset) -> bool {
    PageBounds::of(row).is_some_and(|page| page.base <= offset)
}

/// The bounds of a page, and when it was stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageBounds {
    pub(crate) base: Offset,
    pub(crate) last: Offset,
    pub(crate) at: Timestamp,
}

impl PageBounds {
    fn of(row: &Row) -> Option<PageBounds> {
        let (&Key::Page { last, .. }, &Columns::Page { base, at, .. }) = (&row.key, &row.columns)
        else {
            return None;
        };
        Some(PageBounds { base, last, at })
    }
}

/// A page, valid or damaged.
pub(crate) struct PageState {
    /// Its last offset.
    pub(crate) last: Offset,
    /// When it was stored.
    pub(crate) at: Timestamp,
    pub(crate) content: Result<Page, Damaged>,
}

impl PageState {
    /// Returns the lane's byte total before the page, unless the page is damaged.
    pub(crate) fn bytes_before(&self) -> Option<u64> {
        self.content.as_ref().ok()?.messages.first().map(|kept| kept.bytes_before)
    }
}

fn last_of(row: &Row) -> Offset {
    if let Key::Page { last, .. } = row.key { last } else { 0 }
}

/// Pages of a lane, in order, and the offset up to which they are complete.
#[derive(Debug)]
pub(crate) struct PageRun {
    pub(crate) pages: Vec<Page>,
    /// Below this offset no other messages are stored. `Offset::MAX`: nor above it.
    pub(crate) end: Offset,
}

/// Dead letters in the requested order.
pub(crate) struct DeadSlice<'a> {
    pub(crate) rows: Vec<&'a Row>,
    /// The number after which there may be more: below it for the newest, from it on for the
    /// oldest.
    pub(crate) next: Option<u64>,
}

fn seq_of(row: &Row) -> u64 {
    if let Key::Dead { seq, .. } = row.key { seq } else { 0 }
}

fn hash_of(key: &Key) -> Option<Hash16> {
    if let Key::Record { hash, .. } | Key::Held { hash, .. } = key { Some(*hash) } else { None }
}

fn offset_of(key: &Key) -> Option<Offset> {
    if let Key::Held { offset, .. } = key { Some(*offset) } else { None }
}

/// The result of a read for dispatch.
#[derive(Debug)]
pub(crate) enum PrefetchResult {
    /// Pages in order.
    Pages(PageRun),
    /// A message for a retry.
    Retry { message: Arc<Message>, last_error: Text },
    /// The message is no longer needed.
    Nothing,
}

/// Rows that are decided but may not be durable yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlay {
    rows: BTreeMap<Key, (BatchNo, Option<Row>)>,
    by_batch: VecDeque<(BatchNo, Vec<Key>)>,
}

/// Tables whose rows are looked up while deciding.
fn is_looked_up(table: Table) -> bool {
    matches!(
        table,
        Table::Record
            | Table::Note
            | Table::Dead
            | Table::Page
            | Table::Held
            | Table::Outbox
            | Table::Pointer
            | Table::History
            | Table::Audit
    )
}

impl Overlay {
    /// Adds a row as decided in `batch`.
    pub(crate) fn put(&mut self, batch: BatchNo, key: Key, row: Option<Row>) {
        self.rows.insert(key.clone(), (batch, row));
        match self.by_batch.back_mut() {
            Some((last, keys)) if *last == batch => keys.push(key),
            Some(_) | None => self.by_batch.push_back((batch, vec![key])),
        }
    }

    /// Adds the rows of a closed batch.
    pub(crate) fn close(&mut self, batch: BatchNo, writes: &[Write]) {
        for write in writes {
            match write {
                Write::Put(row) if is_looked_up(row.key.table()) => {
                    self.put(batch, row.key.clone(), Some(row.clone()));
                }
                Write::Delete(key) if is_looked_up(key.table()) => {
                    self.put(batch, key.clone(), None)
                }
                // Ranges delete only rows that are dead by rule, so it does not matter whether a
                // lookup returns them.
                Write::Put(_)
                | Write::Delete(_)
                | Write::DeleteRange { .. }
                | Write::Trim { .. }
                | Write::Touch { .. }
                | Write::Expire { .. } => {}
            }
        }
    }

    /// Drops the batches up to `through`. They were durable before any read began whose result is
    /// still needed.
    pub(crate) fn forget(&mut self, through: BatchNo) {
        while let Some((batch, _)) = self.by_batch.front()
            && *batch <= through
        {
            let (batch, keys) = self.by_batch.pop_front().expect("just seen");
            for key in keys {
                if self.rows.get(&key).is_some_and(|(latest, _)| *latest == batch) {
                    self.rows.remove(&key);
                }
            }
        }
    }

    fn row(&self, key: &Key) -> Option<Option<&Row>> {
        self.rows.get(key).map(|(_, row)| row.as_ref())
    }

    fn is_gone(&self, key: &Key) -> bool {
        matches!(self.row(key), Some(None))
    }

    /// Returns the dead letters numbered `from..to`: those that the engine returned, and newer
    /// ones.
    fn dead<'a>(
        &'a self,
        topic: TopicId,
        from: u64,
        to: u64,
        rows: &'a [Row],
    ) -> BTreeMap<Key, &'a Row> {
        self.merged(Key::Dead { topic, seq: from }..Key::Dead { topic, seq: to }, rows)
    }

    /// Returns the rows of a range: those that the engine returned, and newer ones.
    fn merged<'a>(&'a self, range: Range<Key>, rows: &'a [Row]) -> BTreeMap<Key, &'a Row> {
        let answered = rows.iter().filter(|row| !self.is_gone(&row.key));
        let decided = self.rows.range(range).filter_map(|(_, (_, row))| row.as_ref());
        answered.chain(decided).map(|row| (row.key.clone(), row)).collect()
    }

    fn page(&self, topic: TopicId, lane: Lane, offset: Offset) -> Option<&Row> {
        self.pages(topic, lane, offset).next().filter(|row| holds(row, offset))
    }

    fn pages(&self, topic: TopicId, lane: Lane, from: Offset) -> impl Iterator<Item = &Row> {
        let of_lane =
            Key::Page { topic, lane, last: from }..=Key::Page { topic, lane, last: NUMBER_MAX };
        self.rows.range(of_lane).filter_map(|(_, (_, row))| row.as_ref())
    }

    /// Returns the pages of a lane from `from` on: those that the engine returned, and newer ones.
    ///
    /// The engine's last page shows how far the engine read. Newer pages are added only if they
    /// follow directly, because a gap may hold pages that the read did not return. An engine that
    /// returned no page has read to the end.
    pub(crate) fn run(
        &self,
        topic: TopicId,
        lane: Lane,
        from: Offset,
        rows: &[Row],
    ) -> Result<PageRun, Damaged> {
        let (rows, end) = self.page_rows(topic, lane, from, rows);
        let pages = rows.into_iter().map(open_page).collect::<Result<_, _>>()?;
        Ok(PageRun { pages, end })
    }

    fn page_rows<'a>(
        &'a self,
        topic: TopicId,
        lane: Lane,
        from: Offset,
        rows: &'a [Row],
    ) -> (Vec<&'a Row>, Offset) {
        let mut last = rows.last().and_then(PageBounds::of).map(|page| page.last);
        let kept = rows.iter().filter(|row| !self.is_gone(&row.key));
        let mut merged: BTreeMap<Key, &Row> = kept.map(|row| (row.key.clone(), row)).collect();
        for row in self.pages(topic, lane, from) {
            let Some(page) = PageBounds::of(row) else { continue };
            if last.is_some_and(|last| page.base > last + 1) {
                break;
            }
            last = last.map(|last| last.max(page.last));
            merged.insert(row.key.clone(), row);
        }
        (merged.into_values().collect(), last.map_or(Offset::MAX, |last| last + 1))
    }
}
