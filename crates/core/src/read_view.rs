//! Rows that deciding looks up.
//!
//! What is found = rows the engine answered, overlaid by everything decided since that the engine may
//! not have had when it answered: batches that were not durable when the read began, and what the batch
//! under way has decided so far. One type does the overlay; nothing else looks rows up.

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

/// One lookup and the rows the engine had for it.
#[derive(Debug, Clone)]
pub(crate) struct LookupResult {
    pub(crate) lookup: Lookup,
    pub(crate) rows: Vec<Row>,
    /// What is wrong with the first row that is damaged.
    pub(crate) damaged: Option<Damaged>,
}

impl Lookup {
    /// How an engine is asked.
    pub(crate) fn read(&self) -> Read {
        match self.clone() {
            Lookup::Row(key) => Read::Key(key),
            Lookup::Message { topic, lane, offset } => {
                Read::pages(topic, lane, offset, 1, usize::MAX)
            }
            Lookup::PageAt { topic, lane, offset } => Read::Range {
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
                // Where to go on comes from clients: before the first are all that have an end.
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
    // The least text behind it: no partition key has a control character.
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

/// What one command may look at.
pub(crate) struct ReadView<'a> {
    answers: &'a [LookupResult],
    overlay: &'a Overlay,
}

impl<'a> ReadView<'a> {
    /// Answers come in the order of their lookups.
    pub(crate) fn new(answers: &'a [LookupResult], overlay: &'a Overlay) -> ReadView<'a> {
        debug_assert!(answers.is_sorted_by(|a, b| a.lookup <= b.lookup), "they are searched");
        ReadView { answers, overlay }
    }

    /// The row of a key, if there is one.
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

    /// Pages of a lane from the one that holds `from` on.
    pub(crate) fn pages(
        &self,
        topic: TopicId,
        lane: Lane,
        from: Offset,
    ) -> Result<PageRun, Refusal> {
        let rows = self.answer(Lookup::Pages { topic, lane, from })?;
        Ok(self.overlay.run(topic, lane, from, rows)?)
    }

    /// Pages of a lane from the one that holds `from` on, damaged ones too, and how far they are all there is.
    pub(crate) fn page_states(
        &self,
        topic: TopicId,
        lane: Lane,
        from: Offset,
    ) -> Result<(Vec<PageState>, Offset), Reads> {
        let rows = self.answer(Lookup::Pages { topic, lane, from })?;
        let (rows, end) = self.overlay.page_rows(topic, lane, from, rows);
        let state = |row: &Row| {
            let at = PageAt::of(row).map_or(Timestamp(0), |page| page.at);
            PageState { last: last_of(row), at, content: open_page(row) }
        };
        Ok((rows.into_iter().map(state).collect(), end))
    }

    /// Where the page is that holds `offset`, or the next there is.
    pub(crate) fn page_at(
        &self,
        topic: TopicId,
        lane: Lane,
        offset: Offset,
    ) -> Result<Option<PageAt>, Reads> {
        let answered = self.answer(Lookup::PageAt { topic, lane, offset })?.first();
        let decided = self.overlay.pages(topic, lane, offset).next();
        let nearest =
            answered.into_iter().chain(decided).min_by(|one, other| one.key.cmp(&other.key));
        Ok(nearest.and_then(PageAt::of))
    }

    /// Dead letters of a `dlq.` topic whose number is below `below`, newest first.
    pub(crate) fn newest_dead(&self, topic: TopicId, below: u64) -> Result<DeadSlice<'a>, Reads> {
        let answered = self.answer(Lookup::Newest { topic, below })?;
        let lowest = answered.last().filter(|_| answered.len() >= DEAD_ROWS_MAX).map(seq_of);
        let rows = self.overlay.dead(topic, lowest.unwrap_or(0), below, answered);
        Ok(DeadSlice { rows: rows.into_values().rev().collect(), next: lowest })
    }

    /// The oldest dead letters of a `dlq.` topic, oldest first.
    pub(crate) fn oldest_dead(&self, topic: TopicId) -> Result<DeadSlice<'a>, Reads> {
        let answered = self.answer(Lookup::Oldest { topic })?;
        let highest = answered.last().filter(|_| answered.len() >= DEAD_DROPPED_MAX).map(seq_of);
        let next = highest.map(|highest| highest + 1);
        let rows = self.overlay.dead(topic, 0, next.unwrap_or(NUMBER_MAX), answered);
        Ok(DeadSlice { rows: rows.into_values().collect(), next })
    }

    /// Effects begun under an open entry, by their hashes.
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

    /// Effects begun under entries of a stretch, by their hashes, and how far they are all there are.
    pub(crate) fn held_within(
        &self,
        generation: Generation,
        lane: Lane,
        from: Offset,
        to: Offset,
    ) -> Result<(BTreeSet<Hash16>, Offset), Reads> {
        let answered = self.answer(Lookup::HeldWithin { generation, lane, from, to })?;
        // The last entry may have more than were read. It has fewer than a read brings, so it is not the first.
        let last = answered.last().filter(|_| answered.len() >= HELD_ROWS_MAX);
        let end = last.and_then(|row| offset_of(&row.key)).unwrap_or(to);
        let key = |offset| Key::Held { generation, lane, offset, hash: [0; 16] };
        let rows = self.overlay.merged(key(from)..key(end), answered);
        let within = rows.into_keys().filter(|held| *held < key(end));
        Ok((within.filter_map(|key| hash_of(&key)).collect(), end))
    }

    /// How many effects were begun under each entry of a stretch. As many as there may be, where not all were read.
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

    /// Messages on their way to another shard, in order and without gap.
    pub(crate) fn outbox(&self, target: ShardId, from: u64) -> Result<Vec<&'a Row>, Reads> {
        let answered = self.answer(Lookup::Outbox { target, from })?;
        let key = |seq| Key::Outbox { target, seq };
        let rows = self.overlay.merged(key(from)..key(NUMBER_MAX), answered);
        let in_order = (from..).zip(rows).take_while(|(seq, (of, _))| *of == key(*seq));
        Ok(in_order.map(|(_, (_, row))| row).collect())
    }

    /// What messages of a block went through, oldest first.
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

    /// Pointers of a version of a dataset behind that partition key, in order; whether these are all.
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
        // What was decided behind the last that the engine told may have others before it.
        if let Some(Key::Pointer { partition_key, .. }) = last.map(|row| &row.key) {
            range.end = pointers(topic, dataset, partition_key).start;
        }
        let rows = self.overlay.merged(range, answered).into_values().collect();
        Ok((rows, is_all))
    }

    /// Rows of an audit chain from the one that holds the record `from` on; there may be gaps.
    pub(crate) fn audit(&self, namespace: Hash16, from: u64) -> Result<Vec<&'a Row>, Reads> {
        let answered = self.answer(Lookup::Audit { namespace, from })?;
        let key = |last| Key::Audit { namespace, last };
        Ok(self.overlay.merged(key(from)..key(NUMBER_MAX), answered).into_values().collect())
    }

    /// Effects without an end, by their places from `from` on, and where to go on.
    pub(crate) fn unending(&self, from: Place) -> Result<(Vec<&'a Row>, Option<Place>), Reads> {
        let answered = self.answer(Lookup::Unending { from })?;
        let last = answered.last().filter(|_| answered.len() >= EFFECT_ROWS_MAX);
        let next = last.and_then(Place::of).and_then(Place::following);
        let effect = |hash| Key::Record { kind: RecordKind::Effect, hash };
        // What was decided since is not in the order of places, but little.
        let rows = self.overlay.merged(effect([0; 16])..effect([u8::MAX; 16]), answered);
        let is_asked_for = |place: &Place| *place >= from && next.is_none_or(|next| *place < next);
        let placed = rows.into_values().filter_map(|row| Place::of(row).map(|place| (place, row)));
        let placed: BTreeMap<Place, &Row> =
            placed.filter(|(place, _)| is_asked_for(place)).collect();
        Ok((placed.into_values().collect(), next))
    }

    /// The buckets of records from `from` on, in order. Commits under way may have changed them since.
    pub(crate) fn ending(&self, from: u64) -> Result<Vec<u64>, Reads> {
        let bucket = |row: &Row| {
            if let Columns::Record { bucket, .. } = row.columns { Some(bucket) } else { None }
        };
        Ok(self.answer(Lookup::Ending { from })?.iter().filter_map(bucket).collect())
    }

    /// A message that is known to be stored. That it is not found is damage.
    pub(crate) fn message(
        &self,
        topic: TopicId,
        lane: Lane,
        offset: Offset,
    ) -> Result<Arc<Message>, Refusal> {
        let stored = self.stored(topic, lane, offset)?;
        stored.ok_or_else(|| missing(topic, lane, offset).into())
    }

    /// A message that may be gone.
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

    /// The last error of an open entry that has one.
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

/// The page of a message that must be there is not.
pub(crate) fn missing(topic: TopicId, lane: Lane, offset: Offset) -> Damaged {
    Damaged {
        key: format!("page of topic {topic}, lane {lane}, offset {offset}"),
        why: "it is missing",
        lane: Some((topic, lane)),
    }
}

fn holds(row: &Row, offset: Offset) -> bool {
    PageAt::of(row).is_some_and(|page| page.base <= offset)
}

/// Where a page begins and ends, and when it was stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageAt {
    pub(crate) base: Offset,
    pub(crate) last: Offset,
    pub(crate) at: Timestamp,
}

impl PageAt {
    fn of(row: &Row) -> Option<PageAt> {
        let (&Key::Page { last, .. }, &Columns::Page { base, at, .. }) = (&row.key, &row.columns)
        else {
            return None;
        };
        Some(PageAt { base, last, at })
    }
}

/// A page, whole or damaged.
pub(crate) struct PageState {
    /// Its last offset.
    pub(crate) last: Offset,
    /// When it was stored.
    pub(crate) at: Timestamp,
    pub(crate) content: Result<Page, Damaged>,
}

impl PageState {
    /// The lane's byte total before the page, unless the page is damaged.
    pub(crate) fn bytes_before(&self) -> Option<u64> {
        self.content.as_ref().ok()?.messages.first().map(|kept| kept.bytes_before)
    }
}

fn last_of(row: &Row) -> Offset {
    if let Key::Page { last, .. } = row.key { last } else { 0 }
}

/// Pages of a lane, in order, and how far they are all there is.
#[derive(Debug)]
pub(crate) struct PageRun {
    pub(crate) pages: Vec<Page>,
    /// Below this nothing is stored but what these pages hold. The greatest: nor is there above.
    pub(crate) end: Offset,
}

/// Dead letters in the order that was asked for.
pub(crate) struct DeadSlice<'a> {
    pub(crate) rows: Vec<&'a Row>,
    /// Beyond which number there may be more: below it for the newest, from it on for the oldest.
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

/// What a read for dispatch brings.
#[derive(Debug)]
pub(crate) enum PrefetchResult {
    /// Pages in order.
    Pages(PageRun),
    /// A message to be delivered again.
    Retry { message: Arc<Message>, last_error: Text },
    /// What was asked for is no longer of use.
    Nothing,
}

/// Rows decided and perhaps not durable.
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
    /// A row as decided in `batch`.
    pub(crate) fn put(&mut self, batch: BatchNo, key: Key, row: Option<Row>) {
        self.rows.insert(key.clone(), (batch, row));
        match self.by_batch.back_mut() {
            Some((last, keys)) if *last == batch => keys.push(key),
            Some(_) | None => self.by_batch.push_back((batch, vec![key])),
        }
    }

    /// The rows of a batch that was closed.
    pub(crate) fn close(&mut self, batch: BatchNo, writes: &[Write]) {
        for write in writes {
            match write {
                Write::Put(row) if is_looked_up(row.key.table()) => {
                    self.put(batch, row.key.clone(), Some(row.clone()));
                }
                Write::Delete(key) if is_looked_up(key.table()) => {
                    self.put(batch, key.clone(), None)
                }
                // What ranges delete is dead by rule: whether it is found makes no difference.
                Write::Put(_)
                | Write::Delete(_)
                | Write::DeleteRange { .. }
                | Write::Trim { .. }
                | Write::Touch { .. }
                | Write::Expire { .. } => {}
            }
        }
    }

    /// Batches up to `through` were durable before any read began whose answer is still to be used.
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

    /// Dead letters numbered `from..to`: those the engine answered, and those it may not have had.
    fn dead<'a>(
        &'a self,
        topic: TopicId,
        from: u64,
        to: u64,
        rows: &'a [Row],
    ) -> BTreeMap<Key, &'a Row> {
        self.merged(Key::Dead { topic, seq: from }..Key::Dead { topic, seq: to }, rows)
    }

    /// Rows of a range: those the engine answered, and those it may not have had.
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

    /// Pages of a lane from `from` on: those the engine answered and those it may not have had.
    ///
    /// How far the engine looked is told by its last page. What was decided since follows only if it
    /// lies next to that: what is in between may be more than one read brings. An engine that had no
    /// page at all has looked to the end.
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
        let mut last = rows.last().and_then(PageAt::of).map(|page| page.last);
        let kept = rows.iter().filter(|row| !self.is_gone(&row.key));
        let mut merged: BTreeMap<Key, &Row> = kept.map(|row| (row.key.clone(), row)).collect();
        for row in self.pages(topic, lane, from) {
            let Some(page) = PageAt::of(row) else { continue };
            if last.is_some_and(|last| page.base > last + 1) {
                break;
            }
            last = last.map(|last| last.max(page.last));
            merged.insert(row.key.clone(), row);
        }
        (merged.into_values().collect(), last.map_or(Offset::MAX, |last| last + 1))
    }
}
