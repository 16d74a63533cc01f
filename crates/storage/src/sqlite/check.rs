//! Verification of a data directory. It reads all rows and changes none.

use std::collections::BTreeMap;
use std::path::Path;

use driftq_core::row::Table;
use driftq_core::{Epoch, Lane, Offset, ShardConfig, ShardId, TopicId, verify};
use rusqlite::Connection;

use super::cells::Line;
use super::error::OpenError;
use super::{Sqlite, directory, schema};
use crate::Ownership;
use crate::layout::{layout, row_of};

/// The result of a check.
#[derive(Debug, Default)]
pub struct Checked {
    /// The number of rows of each table.
    pub rows: BTreeMap<&'static str, u64>,
    /// The problems found. Empty if the directory is valid.
    pub problems: Vec<String>,
}

/// Number of rows between two progress reports.
const TOLD_EVERY: u64 = 10_000;

/// Verifies every row of a data directory, and recovers every shard. Fails while a server runs on
/// the directory. Reports progress to `far`: a table, and the number of its rows read so far.
pub async fn check(
    data: &Path,
    far: &mut dyn FnMut(&'static str, u64),
) -> Result<Checked, OpenError> {
    if !directory::database(data).exists() {
        return Err(OpenError::Missing(data.to_owned()));
    }
    let engine = Sqlite::open(data, None)?;
    let connection = schema::reader(&directory::database(data))?;
    let mut checked = Checked::default();
    integrity(&connection, &mut checked)?;
    for table in (0..).map_while(Table::of) {
        rows(&connection, table, &mut checked, far)?;
    }
    for ownership in shards(&connection)? {
        let config = ShardConfig { shard: ownership.shard, ..ShardConfig::default() };
        let shard = ownership.shard;
        let wrong = match crate::read_back(&engine, ownership, config).await {
            Ok(recovered) => recovered.violation(&ends(&connection, shard)?),
            Err(error) => Some(error.to_string()),
        };
        checked.problems.extend(wrong.map(|wrong| format!("shard {shard}: {wrong}")));
    }
    Ok(checked)
}

/// Runs the integrity check of SQLite.
fn integrity(connection: &Connection, checked: &mut Checked) -> rusqlite::Result<()> {
    let mut lines = connection.prepare("PRAGMA integrity_check")?;
    for line in lines.query_map([], |row| row.get::<_, String>(0))? {
        let line = line?;
        if line != "ok" {
            checked.problems.push(line);
        }
    }
    Ok(())
}

fn rows(
    connection: &Connection,
    table: Table,
    checked: &mut Checked,
    far: &mut dyn FnMut(&'static str, u64),
) -> rusqlite::Result<()> {
    let layout = layout(table);
    let columns = layout.names();
    let select = format!("SELECT {}, body FROM {}", columns.join(", "), layout.name);
    let mut select = connection.prepare(&select)?;
    let mut lines = select.query([])?;
    while let Some(line) = lines.next()? {
        let seen = checked.rows.entry(layout.name).or_default();
        *seen += 1;
        if seen.is_multiple_of(TOLD_EVERY) {
            far(layout.name, *seen);
        }
        match row_of(table, Line::of(line), true) {
            Ok(row) => {
                checked.problems.extend(verify(&row).err().map(|damaged| damaged.to_string()))
            }
            Err(error) => checked.problems.push(format!("invalid row in {}: {error}", layout.name)),
        }
    }
    Ok(())
}

/// Returns the end of the last page of each lane.
fn ends(
    connection: &Connection,
    shard: ShardId,
) -> rusqlite::Result<BTreeMap<(TopicId, Lane), Offset>> {
    let select =
        "SELECT topic, lane, max(last) + 1 FROM page WHERE shard = ?1 GROUP BY topic, lane";
    let mut select = connection.prepare(select)?;
    let ends = select
        .query_map([shard.0], |row| Ok(((TopicId(row.get(0)?), Lane(row.get(1)?)), row.get(2)?)))?;
    ends.collect()
}

fn shards(connection: &Connection) -> rusqlite::Result<Vec<Ownership>> {
    let mut select = connection.prepare("SELECT shard, epoch FROM shard ORDER BY shard")?;
    let shards = select.query_map([], |row| {
        Ok(Ownership { shard: ShardId(row.get(0)?), epoch: Epoch(row.get(1)?) })
    })?;
    shards.collect()
}
