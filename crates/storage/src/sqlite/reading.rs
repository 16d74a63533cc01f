//! Loads and reads on a reader thread, each from one snapshot.

use driftq_core::ShardId;
use driftq_core::row::{self, Read, Row, Table};
use rusqlite::{Connection, params_from_iter};

use super::cells::Line;
use super::statements::All;
use super::writing::{Failed, check_owner};
use crate::Ownership;
use crate::layout::{Cell, LOADED, key_cells, row_of};

pub(super) fn load(
    connection: &mut Connection,
    statements: &All,
    ownership: Ownership,
) -> Result<Vec<Row>, Failed> {
    let snapshot = connection.transaction()?;
    check_owner(&snapshot, ownership)?;
    let mut rows = Vec::new();
    for table in LOADED {
        let mut select = snapshot.prepare_cached(&statements.of(table).load)?;
        let found =
            select.query_map([ownership.shard.0], |line| row_of(table, Line::of(line), true))?;
        for row in found {
            rows.push(row?);
        }
    }
    rows.extend(heads(&snapshot, ownership.shard)?);
    Ok(rows)
}

/// Returns the heads from `clean` of the newest head on.
fn heads(snapshot: &Connection, shard: ShardId) -> rusqlite::Result<Vec<Row>> {
    let mut select = snapshot.prepare_cached(
        "SELECT batch, epoch, now, clean, body FROM head WHERE shard = ?1 AND batch >=
         (SELECT clean FROM head WHERE shard = ?1 ORDER BY batch DESC LIMIT 1)",
    )?;
    let found = select.query_map([shard.0], |line| row_of(Table::Head, Line::of(line), true))?;
    found.collect()
}

pub(super) fn read(
    connection: &mut Connection,
    statements: &All,
    ownership: Ownership,
    reads: &[Read],
) -> Result<Vec<Vec<Row>>, Failed> {
    let snapshot = connection.transaction()?;
    check_owner(&snapshot, ownership)?;
    let shard = ownership.shard;
    let answers = reads.iter().map(|read| answer(&snapshot, statements, shard, read));
    Ok(answers.collect::<rusqlite::Result<_>>()?)
}

fn answer(
    snapshot: &Connection,
    statements: &All,
    shard: ShardId,
    read: &Read,
) -> rusqlite::Result<Vec<Row>> {
    let mut cells = vec![Cell::Number(u64::from(shard.0))];
    match read {
        Read::Key(key) => {
            key_cells(key, &mut cells);
            let mut select = snapshot.prepare_cached(&statements.of(key.table()).get)?;
            let found = select.query_map(params_from_iter(cells), |line| {
                row_of(key.table(), Line::of(line), true)
            })?;
            found.collect()
        }
        Read::Range { from, to, reverse, rows, bytes, bodies } => {
            key_cells(from, &mut cells);
            key_cells(to, &mut cells);
            let statements = statements.of(from.table());
            let [with, without] = if *reverse { &statements.reverse } else { &statements.range };
            let mut select = snapshot.prepare_cached(if *bodies { with } else { without })?;
            let mut lines = select.query(params_from_iter(cells))?;
            let (mut found, mut left) = (Vec::new(), *bytes);
            while found.len() < *rows
                && (found.is_empty() || left > 0)
                && let Some(line) = lines.next()?
            {
                let row = row_of(from.table(), Line::of(line), *bodies)?;
                left = left.saturating_sub(row.body.len());
                found.push(row);
            }
            Ok(found)
        }
        Read::Unending { kind, from, rows } => {
            let rows = i64::try_from(*rows).unwrap_or(i64::MAX);
            let mut select = snapshot.prepare_cached(UNENDING)?;
            let found = select
                .query_map((shard.0, *kind as u8, from.bucket, from.hash, rows), |line| {
                    row_of(Table::Record, Line::of(line), true)
                })?;
            found.collect()
        }
        Read::Ending { from, rows } => {
            let rows = i64::try_from(*rows).unwrap_or(i64::MAX);
            let mut select = snapshot.prepare_cached(ENDING)?;
            let found = select.query_map((shard.0, *from, row::UNENDING, rows), |line| {
                row_of(Table::Record, Line::of(line), false)
            })?;
            found.collect()
        }
    }
}

pub(super) const ENDING: &str = "SELECT kind, hash, expires, bucket FROM record
    WHERE shard = ?1 AND bucket >= ?2 AND bucket < ?3 ORDER BY bucket LIMIT ?4";

/// Uses the index on buckets. The `+` prevents the use of the primary key, which would read all
/// records of the kind.
pub(super) const UNENDING: &str = "SELECT kind, hash, expires, bucket, body FROM record
    WHERE shard = ?1 AND +kind = ?2 AND bucket >= ?3 AND (bucket > ?3 OR hash >= ?4)
    ORDER BY bucket, hash LIMIT ?5";
