//! Claims and commits on the writer thread, one after the other.

use driftq_core::row::{Row, Write};
use driftq_core::{BatchNo, Epoch, ShardId};
use rusqlite::{
    CachedStatement, Connection, OptionalExtension as _, Transaction, TransactionBehavior,
    params_from_iter,
};

use super::statements::All;
use crate::layout::{Cell, content_cells, key_cells};
use crate::{Ownership, StoredAct};

/// Why a call failed: the ownership has ended, or the database reported an error.
pub(super) enum Failed {
    Fenced,
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Failed {
        Failed::Database(error)
    }
}

pub(super) fn claim(connection: &mut Connection, shard: ShardId) -> Result<Ownership, Failed> {
    // A statement alone commits after it has returned its row, and rusqlite ignores the error.
    let claiming = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let epoch: u64 = claiming.query_row(
        "INSERT INTO shard (shard, epoch) VALUES (?1, 1)
         ON CONFLICT (shard) DO UPDATE SET epoch = epoch + 1 RETURNING epoch",
        [shard.0],
        |row| row.get(0),
    )?;
    claiming.commit()?;
    Ok(Ownership { shard, epoch: Epoch(epoch) })
}

/// Returns the text stored under a name, which belongs to no shard.
pub(super) fn meta(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    let select = "SELECT value FROM meta WHERE name = ?1";
    connection.query_row(select, [name], |row| row.get(0)).optional()
}

pub(super) fn put_meta(
    connection: &Connection,
    name: &str,
    text: &str,
    act: Option<&str>,
) -> rusqlite::Result<()> {
    let putting = connection.unchecked_transaction()?;
    let put = "INSERT INTO meta (name, value) VALUES (?1, ?2)
               ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    putting.execute(put, [name, text])?;
    if let Some(record) = act {
        put_act(&putting, record)?;
    }
    putting.commit()
}

pub(super) fn put_act(connection: &Connection, record: &str) -> rusqlite::Result<()> {
    connection.execute("INSERT INTO act (body) VALUES (?1)", [record]).map(drop)
}

/// Returns the records of acts with a number less than `below`, newest first.
pub(super) fn acts(
    connection: &Connection,
    below: u64,
    limit: u32,
) -> rusqlite::Result<Vec<StoredAct>> {
    let select = "SELECT number, body FROM act WHERE number < ?1 ORDER BY number DESC LIMIT ?2";
    let mut select = connection.prepare_cached(select)?;
    let below = i64::try_from(below).unwrap_or(i64::MAX);
    let act = |row: &rusqlite::Row<'_>| Ok(StoredAct { number: row.get(0)?, record: row.get(1)? });
    select.query_map((below, limit), act)?.collect()
}

/// Fails as fenced unless the ownership is the current one.
pub(super) fn check_owner(connection: &Connection, ownership: Ownership) -> Result<(), Failed> {
    let mut epoch = connection.prepare_cached("SELECT epoch FROM shard WHERE shard = ?1")?;
    let epoch: Option<u64> = epoch.query_row([ownership.shard.0], |row| row.get(0)).optional()?;
    if epoch == Some(ownership.epoch.0) { Ok(()) } else { Err(Failed::Fenced) }
}

/// Returns the number of the last batch, or 0 before the first.
fn last_batch(connection: &Connection, shard: ShardId) -> rusqlite::Result<BatchNo> {
    let mut last =
        connection.prepare_cached("SELECT coalesce(max(batch), 0) FROM head WHERE shard = ?1")?;
    last.query_row([shard.0], |row| row.get(0)).map(BatchNo)
}

pub(super) fn commit(
    connection: &mut Connection,
    statements: &All,
    ownership: Ownership,
    batch: BatchNo,
    writes: &[Write],
) -> Result<(), Failed> {
    // Immediate: a transaction that begins with a read fails instead of waiting for the write lock,
    // which a reader that meets a commit halfway can hold for a moment.
    let commit = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    check_owner(&commit, ownership)?;
    if batch != last_batch(&commit, ownership.shard)?.next() {
        return Err(Failed::Fenced);
    }
    let writing = Writing { commit: &commit, statements, shard: u64::from(ownership.shard.0) };
    for write in writes {
        writing.write(write)?;
    }
    Ok(commit.commit()?)
}

pub(super) const EXPIRE: &str =
    "DELETE FROM record WHERE shard = ?1 AND bucket >= ?2 AND bucket < ?3 AND expires < ?3";

/// A commit in progress.
struct Writing<'a> {
    commit: &'a Transaction<'a>,
    statements: &'a All,
    shard: u64,
}

impl<'a> Writing<'a> {
    fn write(&self, write: &Write) -> rusqlite::Result<()> {
        match write {
            Write::Put(row) => self.put(row),
            Write::Delete(key) => {
                let statement = &self.statements.of(key.table()).delete;
                let mut cells = self.cells();
                key_cells(key, &mut cells);
                run(self.commit.prepare_cached(statement)?, cells)
            }
            Write::DeleteRange { from, to } => {
                let statement = &self.statements.of(from.table()).delete_range;
                let mut cells = self.cells();
                key_cells(from, &mut cells);
                key_cells(to, &mut cells);
                run(self.commit.prepare_cached(statement)?, cells)
            }
            Write::Trim { topic, lane, from, to } => self.run(
                "DELETE FROM page WHERE shard = ?1 AND topic = ?2 AND lane = ?3
                 AND last >= ?4 AND last < ?5 AND base >= ?4",
                [topic.0, u64::from(lane.0), *from, *to],
            ),
            Write::Touch { key, expires, bucket } => {
                let mut cells = self.cells();
                key_cells(key, &mut cells);
                cells.extend([Cell::Number(expires.0), Cell::Number(*bucket)]);
                let touch = "UPDATE record SET expires = ?4, bucket = ?5
                             WHERE shard = ?1 AND kind = ?2 AND hash = ?3";
                run(self.commit.prepare_cached(touch)?, cells)
            }
            Write::Expire { from, to } => self.run(EXPIRE, [*from, *to]),
        }
    }

    fn put(&self, row: &Row) -> rusqlite::Result<()> {
        let statements = self.statements.of(row.key.table());
        let mut cells = self.cells();
        key_cells(&row.key, &mut cells);
        content_cells(row, statements.is_text, &mut cells);
        run(self.commit.prepare_cached(&statements.put)?, cells)
    }

    fn run<const N: usize>(&self, statement: &str, numbers: [u64; N]) -> rusqlite::Result<()> {
        let mut cells = self.cells();
        cells.extend(numbers.map(Cell::Number));
        run(self.commit.prepare_cached(statement)?, cells)
    }

    /// Returns the first cell of every statement, the shard.
    fn cells<'c>(&self) -> Vec<Cell<'c>> {
        let mut cells = Vec::with_capacity(12);
        cells.push(Cell::Number(self.shard));
        cells
    }
}

fn run(mut statement: CachedStatement<'_>, cells: Vec<Cell<'_>>) -> rusqlite::Result<()> {
    statement.execute(params_from_iter(cells)).map(drop)
}
