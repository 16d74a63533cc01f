//! Is a data directory whole? Reads everything, changes nothing.

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

/// What a check came to.
#[derive(Debug, Default)]
pub struct Checked {
    /// Rows of each table.
    pub rows: BTreeMap<&'static str, u64>,
    /// What is wrong; empty when nothing is.
    pub problems: Vec<String>,
}

/// How many rows are looked at between two words about how far it got.
const TOLD_EVERY: u64 = 10_000;

/// Looks at every row of a data directory and recovers every shard. No server may run on it. Tells `far`
/// how many rows of which table it has seen.
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

/// What SQLite itself says of the file.
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
            Err(error) => checked.problems.push(format!("a row of {}: {error}", layout.name)),
        }
    }
    Ok(())
}

/// Where the last page of each lane ends.
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
