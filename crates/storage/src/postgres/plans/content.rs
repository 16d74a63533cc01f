//! Large tables for the tests, filled by PostgreSQL itself.

use std::fmt::Write as _;

use driftq_core::Text;
use driftq_core::row::{Hash16, Key, Table};
use tokio_postgres::NoTls;

use crate::layout::{Body, Cell, Cells, Column, key_cells, layout, row_of};
use crate::postgres::Postgres;
use crate::postgres::session::Session;
use crate::postgres::target::Target;

/// The shard that is read and written. Every tenth row belongs to the next shard.
pub(super) const SHARD: i64 = 0;
/// A shard without rows.
pub(super) const EMPTY_SHARD: i64 = 2;
pub(super) const SHARDS: u32 = 64;
pub(super) const NODES: u64 = 50;
/// Number of rows of each smaller group.
pub(super) const GROUP: u64 = 2_000;
/// Number of batches between the newest head and the oldest that a recovery needs.
pub(super) const CLEAN_AFTER: u64 = 1_100;

/// Returns the number of rows of a table, and the key column in which they differ.
pub(super) fn content(table: Table) -> (u64, &'static str) {
    match table {
        Table::Page => (1_000_000, "last"),
        Table::Record => (500_000, "hash"),
        Table::Head => (100_000, "batch"),
        Table::Topic => (10_000, "topic"),
        Table::Group => (10_000, "group_id"),
        Table::Lane => (100_000, "lane"),
        Table::Cursor => (100_000, "generation"),
        Table::Mark => (1_000, "id"),
        Table::Block => (100_000, "block"),
        Table::Note => (100_000, "\"offset\""),
        Table::Owner => (10_000, "owner"),
        Table::Dead => (100_000, "seq"),
        Table::Garbage => (1_000, "id"),
        Table::Held => (100_000, "\"offset\""),
        Table::Outbox => (100_000, "seq"),
        Table::Pointer => (100_000, "partition_key"),
        Table::History => (100_000, "block"),
        Table::Audit => (100_000, "last"),
    }
}

/// Returns the value of a column in most rows, and in a second group. Not used for the column in
/// which rows differ.
pub(super) fn values(table: Table, column: Column) -> [&'static str; 2] {
    match column {
        Column::Number(_) if table == Table::Record => ["1", "4"],
        Column::Number(_) => ["1", "2"],
        Column::Word(_) => ["'word'", "'other'"],
        Column::Any(_) => ["'key'::bytea", "'other'::bytea"],
        Column::Hash(_) => ["decode(md5('1'), 'hex')", "decode(md5('2'), 'hex')"],
    }
}

/// Returns the SQL for the value of a column in row `i`.
pub(super) fn cell(table: Table, column: Column, varies: &str) -> String {
    let cell = match (table, column.name()) {
        // Half of the records expire, one per millisecond. The others are effects that do not
        // expire.
        (Table::Record, "kind") => "CASE WHEN i % 2 = 0 THEN 1 ELSE 4 END",
        (Table::Record, "bucket") => "CASE WHEN i % 2 = 0 THEN i ELSE (1::int8 << 62) + i END",
        (Table::Record, "expires") | (Table::Page, "base") => "i",
        (Table::Head, "clean") => return format!("greatest(i - {CLEAN_AFTER}, 1)"),
        (_, name) if name != varies => values(table, column)[0],
        _ => match column {
            Column::Number(_) => "i",
            Column::Word(_) => "'word' || i",
            Column::Any(_) => "convert_to(lpad(i::text, 9, '0'), 'UTF8')",
            Column::Hash(_) => "decode(md5(i::text), 'hex')",
        },
    };
    cell.to_owned()
}

/// Returns the script that fills a table: one large group of rows, and a smaller group for each
/// column of the key.
pub(super) fn fill(table: Table) -> String {
    let (layout, (count, varies)) = (layout(table), content(table));
    let columns: Vec<Column> = layout.key.iter().chain(layout.columns).copied().collect();
    let cells: Vec<String> = columns.iter().map(|column| cell(table, *column, varies)).collect();
    let body =
        if layout.body == Body::Json { "'{}'" } else { "convert_to(repeat('x', 100), 'UTF8')" };
    let insert = |cells: &[String], count: u64| {
        format!(
            "INSERT INTO {name} (shard, {names}, body)
             SELECT CASE WHEN i % 10 = 9 THEN {SHARD} + 1 ELSE {SHARD} END, {cells}, {body}
             FROM generate_series(1::int8, {count}) AS i;",
            name = layout.name,
            names = layout.names().join(", "),
            cells = cells.join(", "),
        )
    };
    let mut script = format!("ALTER TABLE {} SET (autovacuum_enabled = false);", layout.name);
    script += &insert(&cells, count);
    for at in (0..layout.key.len()).filter(|at| is_grouped(table, columns[*at])) {
        let mut cells = cells.clone();
        cells[at] = values(table, columns[at])[1].to_owned();
        script += &insert(&cells, GROUP);
    }
    script
}

/// Whether this column of the key has a second group of rows. Records have two groups by their kind
/// anyway.
pub(super) fn is_grouped(table: Table, column: Column) -> bool {
    table != Table::Record && column.name() != content(table).1
}

/// Creates a database with all tables filled.
pub(super) async fn filled() -> (Postgres, Session) {
    let server = std::env::var("DRIFTQ_TEST_POSTGRES")
        .expect("DRIFTQ_TEST_POSTGRES is not set: run `just test`, or use e2e/with-postgres");
    let name = format!("plans{}_{:x}", std::process::id(), fastrand::u64(..));
    let (client, connection) = tokio_postgres::connect(&server, NoTls).await.expect("a server");
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a database");
    let url = server.replace("dbname=postgres", &format!("dbname={name}"));
    let engine = Postgres::open(&url, Some(SHARDS)).await.expect("it opens");
    let session = Session::open(&Target::read(&url).expect("a URL")).await.expect("a session");
    let mut script = "BEGIN; SET LOCAL synchronous_commit = off;".to_owned();
    (0..).map_while(Table::of).for_each(|table| script += &fill(table));
    let _ = write!(
        script,
        "UPDATE shard SET epoch = 1;
         INSERT INTO node (node, address, version, draining, until)
         SELECT i, 'http://127.0.0.1:' || i, '1', false, clock_timestamp() + interval '1 h'
         FROM generate_series(1, {NODES}) AS i;
         COMMIT"
    );
    session.client.batch_execute(&script).await.expect("rows");
    (engine, session)
}

/// Returns the first key with these leading columns.
pub(super) fn first_of(key: &Key, columns: usize) -> Key {
    let mut cells = Vec::new();
    key_cells(key, &mut cells);
    cells.truncate(columns);
    cells.reverse();
    row_of(key.table(), Leading(cells), false).expect("the least values are valid").key
}

/// Returns the first key of the value in which `to` differs from `from`.
pub(super) fn end_of(from: &Key, to: &Key) -> Key {
    let (mut low, mut high) = (Vec::new(), Vec::new());
    key_cells(from, &mut low);
    key_cells(to, &mut high);
    first_of(to, 1 + low.iter().zip(&high).take_while(|(low, high)| low == high).count())
}

/// Leading cells, stored in reverse. All cells after them have the least value.
struct Leading<'a>(Vec<Cell<'a>>);

impl Cells for Leading<'_> {
    type Error = u64;

    fn number(&mut self) -> Result<u64, u64> {
        match self.0.pop() {
            Some(Cell::Number(number)) => Ok(number),
            Some(_) | None => Ok(0),
        }
    }

    fn word(&mut self) -> Result<Text, u64> {
        self.any()
    }

    fn any(&mut self) -> Result<Text, u64> {
        match self.0.pop() {
            Some(Cell::Text(text)) => Ok(text.into()),
            Some(_) | None => Ok(Text::default()),
        }
    }

    fn hash(&mut self) -> Result<Hash16, u64> {
        match self.0.pop() {
            Some(Cell::Bytes(bytes)) => Ok(bytes.try_into().expect("16 bytes")),
            Some(_) | None => Ok([0; 16]),
        }
    }

    fn body(&mut self) -> Result<bytes::Bytes, u64> {
        Ok(bytes::Bytes::new())
    }

    fn impossible(&self, number: u64) -> u64 {
        number
    }
}
