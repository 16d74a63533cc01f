//! The simplest loop that writes the same rows: one connection, one transaction per batch, one
//! statement per table, all pipelined. It has no fencing, no checks, and only one shard.

use std::collections::{BTreeMap, HashMap};

use driftq_core::row::{Key, Row, Table, Write};
use driftq_storage::layout::{Body, Cell, Column, Layout, content_cells, key_cells, layout};
use futures_util::future::try_join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

pub(crate) struct BaselineWriter {
    client: Client,
    prepared: HashMap<String, Statement>,
}

/// The values of one column.
enum Array {
    Numbers(Vec<i64>),
    Texts(Vec<String>),
    Bytes(Vec<Vec<u8>>),
}

impl Array {
    fn of(column: Column) -> Array {
        match column {
            Column::Number(_) => Array::Numbers(Vec::new()),
            Column::Word(_) => Array::Texts(Vec::new()),
            Column::Any(_) | Column::Hash(_) => Array::Bytes(Vec::new()),
        }
    }

    fn of_body(body: Body) -> Array {
        match body {
            Body::Json => Array::Texts(Vec::new()),
            Body::Packed | Body::RawText => Array::Bytes(Vec::new()),
        }
    }

    fn push(&mut self, cell: &Cell<'_>) {
        match (self, cell) {
            (Array::Numbers(all), Cell::Number(one)) => all.push(one.cast_signed()),
            (Array::Texts(all), Cell::Text(one)) => all.push((*one).to_owned()),
            (Array::Bytes(all), Cell::Bytes(one)) => all.push(one.to_vec()),
            (Array::Bytes(all), Cell::Text(one)) => all.push(one.as_bytes().to_vec()),
            (_, _) => unreachable!("a cell has the type of its column"),
        }
    }

    fn sql(&self) -> &'static str {
        match self {
            Array::Numbers(_) => "int8[]",
            Array::Texts(_) => "text[]",
            Array::Bytes(_) => "bytea[]",
        }
    }

    fn parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Array::Numbers(all) => all,
            Array::Texts(all) => all,
            Array::Bytes(all) => all,
        }
    }
}

/// A statement and its parameters.
type Step = (String, Vec<Array>);

impl BaselineWriter {
    pub(crate) async fn connect(url: &str) -> anyhow::Result<BaselineWriter> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute("SET search_path = driftq").await?;
        Ok(BaselineWriter { client, prepared: HashMap::new() })
    }

    /// Updates PostgreSQL's table statistics. Until autovacuum does so, PostgreSQL scans entire
    /// tables and this loop is the slower side. The engine's statements do not depend on
    /// statistics.
    pub(crate) async fn analyze(&mut self) -> anyhow::Result<()> {
        Ok(self.client.batch_execute("ANALYZE").await?)
    }

    /// Writes a batch in one transaction.
    pub(crate) async fn commit(&mut self, writes: &[Write]) -> anyhow::Result<()> {
        let steps = steps(writes);
        for (sql, _) in &steps {
            if !self.prepared.contains_key(sql) {
                let statement = self.client.prepare(sql).await?;
                self.prepared.insert(sql.clone(), statement);
            }
        }
        let (client, prepared) = (&self.client, &self.prepared);
        // Requests are sent in the order in which they are first polled.
        let begin = client.batch_execute("BEGIN");
        let changes = try_join_all(steps.iter().map(|(sql, arrays)| async move {
            let parameters: Vec<_> = arrays.iter().map(Array::parameter).collect();
            client.execute(&prepared[sql], &parameters).await
        }));
        let commit = client.batch_execute("COMMIT");
        let (begun, changed, committed) = tokio::join!(biased; begin, changes, commit);
        begun?;
        changed?;
        Ok(committed?)
    }
}

fn steps(writes: &[Write]) -> Vec<Step> {
    let mut puts: BTreeMap<Table, Vec<&Row>> = BTreeMap::new();
    let mut deletes: BTreeMap<Table, Vec<&Key>> = BTreeMap::new();
    let mut steps = Vec::new();
    for write in writes {
        match write {
            Write::Put(row) => puts.entry(row.key.table()).or_default().push(row),
            Write::Delete(key) => deletes.entry(key.table()).or_default().push(key),
            Write::DeleteRange { from, to } => steps.push(delete_range(from, to)),
            Write::Trim { topic, lane, from, to } => {
                let sql = "DELETE FROM page WHERE shard = 0 AND topic = ANY($1::int8[])
                           AND lane = ANY($2::int8[]) AND last >= ($3::int8[])[1]
                           AND last < ($4::int8[])[1] AND base >= ($3::int8[])[1]";
                let numbers = [topic.0, u64::from(lane.0), *from, *to];
                steps.push((sql.to_owned(), numbers.map(number).into()));
            }
            Write::Touch { .. } => unreachable!("the bench has no effects"),
            Write::Expire { from, to } => {
                let sql = "DELETE FROM record WHERE shard = 0 AND bucket >= ($1::int8[])[1]
                           AND bucket < ($2::int8[])[1] AND expires < ($2::int8[])[1]";
                steps.push((sql.to_owned(), [*from, *to].map(number).into()));
            }
        }
    }
    steps.extend(puts.into_iter().map(|(table, rows)| put(&layout(table), &rows)));
    steps.extend(deletes.into_iter().map(|(table, keys)| delete(&layout(table), &keys)));
    steps
}

fn number(number: u64) -> Array {
    Array::Numbers(vec![number.cast_signed()])
}

fn put(layout: &Layout, rows: &[&Row]) -> Step {
    let mut arrays: Vec<Array> =
        layout.key.iter().chain(layout.columns).map(|column| Array::of(*column)).collect();
    arrays.push(Array::of_body(layout.body));
    for row in rows {
        let mut cells = Vec::new();
        key_cells(&row.key, &mut cells);
        content_cells(row, layout.body == Body::Json, &mut cells);
        fill(&mut arrays, &cells);
    }
    let (name, key, all) = (layout.name, layout.key_names().join(", "), layout.names().join(", "));
    let set: Vec<String> = layout.names()[layout.key.len()..]
        .iter()
        .chain([&"body"])
        .map(|column| format!("{column} = EXCLUDED.{column}"))
        .collect();
    let sql = format!(
        "INSERT INTO {name} (shard, {all}, body) SELECT 0, u.* FROM unnest({}) AS u
         ON CONFLICT (shard, {key}) DO UPDATE SET {}",
        numbered(&arrays),
        set.join(", ")
    );
    (sql, arrays)
}

fn delete(layout: &Layout, keys: &[&Key]) -> Step {
    let mut arrays: Vec<Array> = layout.key.iter().map(|column| Array::of(*column)).collect();
    for key in keys {
        let mut cells = Vec::new();
        key_cells(key, &mut cells);
        fill(&mut arrays, &cells);
    }
    let sql = format!(
        "DELETE FROM {} WHERE shard = 0 AND ({}) IN (SELECT * FROM unnest({}))",
        layout.name,
        layout.key_names().join(", "),
        numbered(&arrays)
    );
    (sql, arrays)
}

fn delete_range(from: &Key, to: &Key) -> Step {
    let layout = layout(from.table());
    let mut arrays = Vec::new();
    for key in [from, to] {
        let mut cells = Vec::new();
        key_cells(key, &mut cells);
        let first = arrays.len();
        arrays.extend(layout.key.iter().map(|column| Array::of(*column)));
        fill(&mut arrays[first..], &cells);
    }
    let cell = |at: usize| format!("(${}::{})[1]", at + 1, arrays[at].sql());
    let cells = |range: std::ops::Range<usize>| range.map(cell).collect::<Vec<_>>().join(", ");
    let (name, key, columns) = (layout.name, layout.key_names().join(", "), layout.key.len());
    let sql = format!(
        "DELETE FROM {name} WHERE shard = 0 AND ({key}) >= ({}) AND ({key}) < ({})",
        cells(0..columns),
        cells(columns..2 * columns)
    );
    (sql, arrays)
}

fn fill(arrays: &mut [Array], cells: &[Cell<'_>]) {
    for (array, cell) in arrays.iter_mut().zip(cells) {
        array.push(cell);
    }
}

/// `$1::int8[], $2::bytea[], …`
fn numbered(arrays: &[Array]) -> String {
    let numbered =
        arrays.iter().enumerate().map(|(at, array)| format!("${}::{}", at + 1, array.sql()));
    numbered.collect::<Vec<_>>().join(", ")
}
