//! The memory engine: rows in ordered maps. Data is lost on exit. It is the model for the tests of
//! the other engines.

use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use driftq_core::row::{Columns, Hash16, Key, Place, Read, RecordKind, Row, Table, Write};
use driftq_core::{BatchNo, Epoch, ShardId, Timestamp};

use crate::{Answer, Engine, EngineError, Ownership, StoredAct};

/// Rows of one shard.
#[derive(Debug, Clone, Default)]
struct Rows {
    epoch: Epoch,
    last: BatchNo,
    /// Whether a commit is between its two halves. Claims and other commits fail until its end.
    is_locked: bool,
    tables: BTreeMap<Table, BTreeMap<Key, Box<Row>>>,
    /// Records are read by key and never listed by a range of keys.
    records: HashMap<Key, Box<Row>>,
    /// Records that expire, by bucket.
    ending: BTreeSet<(u64, RecordKind, Hash16)>,
    /// Records that do not expire.
    unending: BTreeSet<(RecordKind, Place)>,
}

/// The memory engine.
#[derive(Clone)]
pub struct Memory {
    shards: Arc<Mutex<BTreeMap<ShardId, Rows>>>,
    acts: Arc<Mutex<Vec<String>>>,
    authority: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Memory {
    /// Creates an empty engine with the authority clock `authority`.
    pub fn new(authority: impl Fn() -> Timestamp + Send + Sync + 'static) -> Memory {
        Memory { shards: Arc::default(), acts: Arc::default(), authority: Arc::new(authority) }
    }

    /// Returns the number of rows of a shard in each table, for tests and tools.
    pub fn count(&self, shard: ShardId) -> BTreeMap<Table, usize> {
        let mut shards = self.lock();
        let rows = shards.entry(shard).or_default();
        let records = (Table::Record, rows.records.len());
        rows.tables.iter().map(|(table, rows)| (*table, rows.len())).chain([records]).collect()
    }

    /// Returns all records of a shard, for tests. No [`Read`] lists them.
    pub fn records(&self, shard: ShardId) -> Vec<Row> {
        let mut shards = self.lock();
        let records = &shards.entry(shard).or_default().records;
        let mut rows: Vec<Row> = records.values().map(|row| Row::clone(row)).collect();
        rows.sort_by(|one, other| one.key.cmp(&other.key));
        rows
    }

    /// Returns a copy of the current rows.
    pub fn snapshot(&self) -> Memory {
        let shards = self.lock().clone();
        let shards = Arc::new(Mutex::new(shards));
        Memory { shards, acts: self.acts.clone(), authority: self.authority.clone() }
    }

    /// Replaces all rows by those of a backup and ends every ownership, like a restore followed by
    /// `driftq mark-restored`.
    pub fn restore(&self, backup: &Memory) {
        let backup = backup.lock().clone();
        let mut shards = self.lock();
        let epochs: BTreeMap<ShardId, u64> =
            shards.iter().map(|(shard, rows)| (*shard, rows.epoch.0)).collect();
        *shards = backup;
        for (shard, epoch) in epochs {
            let rows = shards.entry(shard).or_default();
            rows.epoch = Epoch(epoch + 1);
            rows.is_locked = false;
        }
    }

    /// Damages a stored row, for tests: deletes it, or flips a bit of its body.
    pub fn damage(&self, shard: ShardId, key: &Key, is_missing: bool) {
        if !is_missing {
            return self.rewrite(shard, key, |body| {
                let middle = body.len() / 2;
                body[middle] ^= 1;
            });
        }
        if let Some(rows) = self.lock().entry(shard).or_default().tables.get_mut(&key.table()) {
            rows.remove(key);
        }
    }

    /// Changes the body of a stored row, for tests.
    pub fn rewrite(&self, shard: ShardId, key: &Key, change: impl FnOnce(&mut Vec<u8>)) {
        let mut shards = self.lock();
        let rows = shards.entry(shard).or_default().tables.get_mut(&key.table());
        if let Some(row) = rows.and_then(|rows| rows.get_mut(key)) {
            let mut body = row.body.to_vec();
            change(&mut body);
            row.body = body.into();
        }
    }

    /// Returns all keys of a shard except those of records, for tests and tools.
    pub fn keys(&self, shard: ShardId) -> Vec<Key> {
        let mut shards = self.lock();
        let rows = shards.entry(shard).or_default();
        rows.tables.values().flat_map(|rows| rows.keys().cloned()).collect()
    }

    /// Begins a commit as a database does: checks the owner, and blocks claims until the end.
    /// Fails while another commit of the shard is between its two halves, like a lock timeout.
    pub fn begin(&self, ownership: Ownership) -> Result<(), EngineError> {
        self.owned(ownership, Rows::begin)?
    }

    /// Ends a commit that has begun: makes `written` durable, or does nothing if it is `None`.
    pub fn end(
        &self,
        ownership: Ownership,
        written: Option<(BatchNo, Vec<Write>)>,
    ) -> Result<(), EngineError> {
        let mut shards = self.lock();
        let rows = shards.entry(ownership.shard).or_default();
        rows.is_locked = false;
        written.map_or(Ok(()), |(batch, writes)| rows.commit(batch, writes))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ShardId, Rows>> {
        // The rows of a poisoned lock are consistent, because no commit can panic halfway.
        self.shards.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn owned<T>(
        &self,
        ownership: Ownership,
        act: impl FnOnce(&mut Rows) -> T,
    ) -> Result<T, EngineError> {
        let mut shards = self.lock();
        let rows = shards.entry(ownership.shard).or_default();
        if rows.epoch == ownership.epoch { Ok(act(rows)) } else { Err(EngineError::Fenced) }
    }
}

impl Engine for Memory {
    fn claim(&self, shard: ShardId) -> Answer<'_, (Ownership, Timestamp)> {
        let mut shards = self.lock();
        let rows = shards.entry(shard).or_default();
        let claimed = rows.unless_locked().map(|()| {
            rows.epoch.0 += 1;
            (Ownership { shard, epoch: rows.epoch }, (self.authority)())
        });
        Box::pin(std::future::ready(claimed))
    }

    fn load<'a>(
        &'a self,
        ownership: Ownership,
        each: &'a mut (dyn FnMut(Row) + Send),
    ) -> Answer<'a, ()> {
        let loaded = self.owned(ownership, |rows| rows.loaded());
        Box::pin(std::future::ready(loaded.map(|rows| rows.into_iter().for_each(each))))
    }

    fn read(&self, ownership: Ownership, reads: Vec<Read>) -> Answer<'_, Vec<Vec<Row>>> {
        let answers =
            self.owned(ownership, |rows| reads.iter().map(|read| rows.read(read)).collect());
        Box::pin(std::future::ready(answers))
    }

    fn commit(
        &self,
        ownership: Ownership,
        batch: BatchNo,
        writes: Vec<Write>,
    ) -> Answer<'_, Timestamp> {
        let done = self.owned(ownership, |rows| {
            rows.unless_locked()?;
            rows.commit(batch, writes)
        });
        let answer = done.and_then(|done| done).map(|()| (self.authority)());
        Box::pin(std::future::ready(answer))
    }

    fn put_meta(&self, _: &'static str, _: String, act: Option<String>) -> Answer<'_, ()> {
        self.acts.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend(act);
        Box::pin(async { Ok(()) })
    }

    fn acts(&self, below: u64, limit: u32) -> Answer<'_, Vec<StoredAct>> {
        let acts = self.acts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let numbered = (1..below).zip(acts.iter());
        let mut newest: Vec<StoredAct> =
            numbered.map(|(number, record)| StoredAct { number, record: record.clone() }).collect();
        newest.reverse();
        newest.truncate(limit as usize);
        Box::pin(std::future::ready(Ok(newest)))
    }
}

/// Tables that are loaded completely at recovery, except heads before `clean`.
const LOADED: [Table; 8] = [
    Table::Head,
    Table::Topic,
    Table::Group,
    Table::Lane,
    Table::Cursor,
    Table::Mark,
    Table::Owner,
    Table::Garbage,
];

impl Rows {
    fn table(&self, table: Table) -> &BTreeMap<Key, Box<Row>> {
        static EMPTY: BTreeMap<Key, Box<Row>> = BTreeMap::new();
        self.tables.get(&table).unwrap_or(&EMPTY)
    }

    fn loaded(&self) -> Vec<Row> {
        let last = Key::Head { batch: self.last };
        let clean = match self.table(Table::Head).get(&last).map(|head| &head.columns) {
            Some(Columns::Head { clean, .. }) => *clean,
            Some(_) | None => BatchNo(0),
        };
        let is_old = |key: &Key| matches!(key, Key::Head { batch } if *batch < clean);
        LOADED
            .iter()
            .flat_map(|table| self.table(*table).values())
            .filter(|row| !is_old(&row.key))
            .map(|row| Row::clone(row))
            .collect()
    }

    fn row(&self, key: &Key) -> Option<&Row> {
        let is_record = key.table() == Table::Record;
        let rows = self.table(key.table());
        let row = if is_record { self.records.get(key) } else { rows.get(key) };
        row.map(|row| &**row)
    }

    fn range(&self, from: &Key, to: &Key) -> btree_map::Range<'_, Key, Box<Row>> {
        debug_assert_ne!(from.table(), Table::Record, "records have no ranges");
        let bounds = (Bound::Included(from), Bound::Excluded(to.max(from)));
        self.table(from.table()).range(bounds)
    }

    fn read(&self, read: &Read) -> Vec<Row> {
        match read {
            Read::Key(key) => self.row(key).cloned().into_iter().collect(),
            Read::Range { from, to, reverse, rows, bytes, bodies } => {
                let mut range = self.range(from, to);
                let mut left = *bytes;
                let mut found = Vec::new();
                while found.len() < *rows && (found.is_empty() || left > 0) {
                    let next = if *reverse { range.next_back() } else { range.next() };
                    let Some((_, row)) = next else { break };
                    let body = if *bodies { row.body.clone() } else { Bytes::new() };
                    left = left.saturating_sub(body.len());
                    found.push(Row { body, ..Row::clone(row) });
                }
                found
            }
            Read::Unending { kind, from, rows } => {
                let places = self.unending.range((*kind, *from)..);
                let places = places.take_while(|(of, _)| of == kind);
                let keys =
                    places.map(|(_, Place { hash, .. })| Key::Record { kind: *kind, hash: *hash });
                keys.take(*rows).filter_map(|key| self.row(&key).cloned()).collect()
            }
            Read::Ending { from, rows } => {
                let found = self.ending_from(*from).filter_map(|(_, key)| self.row(&key));
                found.take(*rows).map(|row| Row { body: Bytes::new(), ..row.clone() }).collect()
            }
        }
    }

    fn ending_from(&self, bucket: u64) -> impl Iterator<Item = (u64, Key)> + '_ {
        let from = self.ending.range((bucket, RecordKind::Dedupe, [0; 16])..);
        from.map(|&(bucket, kind, hash)| (bucket, Key::Record { kind, hash }))
    }

    fn unless_locked(&self) -> Result<(), EngineError> {
        if self.is_locked {
            Err(EngineError::Unknown("another commit is in progress".to_owned()))
        } else {
            Ok(())
        }
    }

    fn begin(&mut self) -> Result<(), EngineError> {
        self.unless_locked()?;
        self.is_locked = true;
        Ok(())
    }

    fn commit(&mut self, batch: BatchNo, writes: Vec<Write>) -> Result<(), EngineError> {
        if batch != self.last.next() {
            return Err(EngineError::Fenced);
        }
        self.last = batch;
        for write in writes {
            self.apply(write);
        }
        Ok(())
    }

    fn apply(&mut self, write: Write) {
        match write {
            Write::Put(row) => {
                let key = row.key.clone();
                if key.table() == Table::Record {
                    self.remove(&key);
                    match unending(&row) {
                        Some(place) => self.unending.insert(place),
                        None => ending(&row).is_some_and(|place| self.ending.insert(place)),
                    };
                    self.records.insert(key, Box::new(row));
                } else {
                    self.tables.entry(key.table()).or_default().insert(key, Box::new(row));
                }
            }
            Write::Delete(key) => self.remove(&key),
            Write::DeleteRange { from, to } => self.remove_where(from, to, |_| true),
            Write::Trim { topic, lane, from, to } => {
                let page = |last| Key::Page { topic, lane, last };
                self.remove_where(
                    page(from),
                    page(to),
                    |row| matches!(row.columns, Columns::Page { base, .. } if base >= from),
                );
            }
            Write::Touch { key, expires, bucket } => {
                if let Some(row) = self.row(&key).cloned() {
                    let columns = Columns::Record { expires, bucket };
                    self.apply(Write::Put(Row { columns, ..row }));
                }
            }
            Write::Expire { from, to } => {
                let ended = self.ending_from(from).take_while(|(bucket, _)| *bucket < to);
                for key in ended.map(|(_, key)| key).collect::<Vec<_>>() {
                    let is_over = |row: &Row| matches!(row.columns, Columns::Record { expires, .. } if expires.0 < to);
                    if self.row(&key).is_some_and(is_over) {
                        self.remove(&key);
                    }
                }
            }
        }
    }

    fn remove_where(&mut self, from: Key, to: Key, is_meant: impl Fn(&Row) -> bool) {
        let meant = self.range(&from, &to).filter(|(_, row)| is_meant(row));
        for key in meant.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &Key) {
        if key.table() == Table::Record {
            let Some(row) = self.records.remove(key) else { return };
            match unending(&row) {
                Some(place) => self.unending.remove(&place),
                None => ending(&row).is_some_and(|place| self.ending.remove(&place)),
            };
        } else if let Some(rows) = self.tables.get_mut(&key.table()) {
            rows.remove(key);
        }
    }
}

/// Returns the position of a record among those that do not expire, or `None` if it expires.
fn unending(row: &Row) -> Option<(RecordKind, Place)> {
    let Key::Record { kind, .. } = row.key else { return None };
    Place::of(row).map(|place| (kind, place))
}

/// Returns the position of a record among those that expire.
fn ending(row: &Row) -> Option<(u64, RecordKind, Hash16)> {
    match (&row.key, &row.columns) {
        (Key::Record { kind, hash }, Columns::Record { bucket, .. }) => {
            Some((*bucket, *kind, *hash))
        }
        _ => None,
    }
}
