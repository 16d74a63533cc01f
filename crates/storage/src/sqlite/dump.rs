//! Dumps the rows of a shard as readable JSON: column names, text bodies, and the length and damage
//! of packed bodies. It reads one snapshot, also while a server runs.

use std::path::Path;

use driftq_core::row::Table;
use driftq_core::{ShardId, verify};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Map, Value, json};

use super::cells::Line;
use super::error::OpenError;
use super::{directory, schema};
use crate::layout::{layout, row_of};

/// Returns the names of all tables.
pub fn tables() -> Vec<&'static str> {
    all().map(|table| layout(table).name).collect()
}

fn all() -> impl Iterator<Item = Table> {
    (0..).map_while(Table::of)
}

/// Passes the first `rows_max` rows of each table, or of `table` only, to `each`, in the order of
/// their keys.
pub fn dump(
    data: &Path,
    shard: ShardId,
    table: Option<&str>,
    rows_max: u32,
    each: &mut dyn FnMut(Value),
) -> Result<(), OpenError> {
    let database = directory::database(data);
    if !database.exists() {
        return Err(OpenError::Missing(data.to_owned()));
    }
    let mut connection = schema::reader(&database)?;
    let moment = connection.transaction()?;
    for of in all().filter(|of| table.is_none_or(|table| layout(*of).name == table)) {
        rows(&moment, shard, of, rows_max, each)?;
    }
    Ok(())
}

fn rows(
    moment: &Connection,
    shard: ShardId,
    table: Table,
    rows_max: u32,
    each: &mut dyn FnMut(Value),
) -> rusqlite::Result<()> {
    let layout = layout(table);
    let columns = layout.names();
    let select = format!(
        "SELECT {}, body FROM {} WHERE shard = ?1 ORDER BY {} LIMIT ?2",
        columns.join(", "),
        layout.name,
        layout.key_names().join(", ")
    );
    let mut select = moment.prepare(&select)?;
    let mut lines = select.query((shard.0, rows_max))?;
    while let Some(line) = lines.next()? {
        let mut row = Map::from_iter([("table".to_owned(), layout.name.into())]);
        for (at, column) in columns.iter().enumerate() {
            row.insert(column.trim_matches('"').to_owned(), cell(line.get_ref(at)?));
        }
        row.insert("body".to_owned(), body(line.get_ref(columns.len())?, layout.is_text()));
        let damaged = match row_of(table, Line::of(line), true) {
            Ok(whole) => verify(&whole).err().map(|damaged| damaged.why.to_owned()),
            Err(error) => Some(error.to_string()),
        };
        row.extend(damaged.map(|why| ("damaged".to_owned(), why.into())));
        each(Value::Object(row));
    }
    Ok(())
}

fn cell(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
        }
    }
}

fn body(value: ValueRef<'_>, is_text: bool) -> Value {
    match value {
        ValueRef::Text(text) if is_text => {
            let text = String::from_utf8_lossy(text);
            serde_json::from_str(&text).unwrap_or_else(|_| text.into())
        }
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => json!({ "packed_bytes": bytes.len() }),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => cell(value),
    }
}
