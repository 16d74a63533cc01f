//! Loads and reads. Each result is a snapshot between the call and its return. No other node writes
//! rows of a shard while its owner reads them, and a read by a former owner fails as fenced.

use std::collections::BTreeMap;

use driftq_core::row::{self, Key, Read, Row, Table};
use futures_util::future::try_join_all;
use futures_util::{TryStreamExt as _, pin_mut};
use tokio_postgres::types::ToSql;

use super::cells::{Form, Line, Param, arrays, key_forms};
use super::error::PgError;
use super::fixed::{ENDING, HEADS, OWNER, UNENDING};
use super::ranges::{Limit, between};
use super::session::Session;
use super::sql::Sql;
use super::statements::All;
use crate::Ownership;
use crate::layout::{LOADED, key_cells, layout, row_of};

pub(super) async fn load(
    session: &mut Session,
    all: &All,
    ownership: Ownership,
    each: &mut (dyn FnMut(Row) + Send),
) -> Result<(), PgError> {
    let shard = i64::from(ownership.shard.0);
    let tables = LOADED.map(|table| (table, &all.of(table).load));
    for (table, sql) in tables.into_iter().chain([(Table::Head, &HEADS)]) {
        let statement = session.prepared(sql).await?;
        let lines = session.client.query_raw(&statement, [&shard]).await?;
        pin_mut!(lines);
        while let Some(line) = lines.try_next().await? {
            each(row_of(table, Line::of(&line, 0, &layout(table)), true)?);
        }
    }
    check_owner(session, ownership).await
}

async fn check_owner(session: &mut Session, ownership: Ownership) -> Result<(), PgError> {
    let owner = session.prepared(&OWNER).await?;
    let (shard, epoch) = (i64::from(ownership.shard.0), ownership.epoch.0.cast_signed());
    let is_owner = session.client.query_opt(&owner, &[&shard, &epoch]).await?.is_some();
    if is_owner { Ok(()) } else { Err(PgError::Fenced) }
}

/// A statement, and the reads that its result rows belong to.
pub(super) struct Query<'a> {
    table: Table,
    pub(super) sql: &'a Sql,
    pub(super) params: Vec<Param<'a>>,
    answers: Answers,
    with_body: bool,
}

enum Answers {
    /// All result rows belong to this read.
    One(usize),
    /// The first cell of a result row is the position, from 1, of its read in this list.
    Each(Vec<usize>),
}

pub(super) async fn read(
    session: &mut Session,
    all: &All,
    ownership: Ownership,
    reads: &[Read],
) -> Result<Vec<Vec<Row>>, PgError> {
    let asked = queries(all, i64::from(ownership.shard.0), reads)?;
    let mut statements = Vec::with_capacity(asked.len());
    for question in &asked {
        statements.push(session.prepared(question.sql).await?);
    }
    // Sent together, in one round trip.
    let client = &session.client;
    let lines =
        try_join_all(asked.iter().zip(&statements).map(|(question, statement)| async move {
            let params: Vec<&(dyn ToSql + Sync)> =
                question.params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
            client.query(statement, &params).await
        }))
        .await?;
    check_owner(session, ownership).await?;
    let mut answers = vec![Vec::new(); reads.len()];
    for (question, lines) in asked.iter().zip(&lines) {
        let layout = layout(question.table);
        for line in lines {
            let (of, first) = match &question.answers {
                Answers::One(of) => (*of, 0),
                Answers::Each(all) => {
                    let number: i64 = line.try_get(0)?;
                    let at = usize::try_from(number - 1).ok().and_then(|at| all.get(at));
                    let unasked =
                        || PgError::Database("a result row belongs to no read".to_owned());
                    (*at.ok_or_else(unasked)?, 1)
                }
            };
            let row = row_of(question.table, Line::of(line, first, &layout), question.with_body)?;
            answers[of].push(row);
        }
    }
    Ok(answers)
}

/// Returns the statements for `reads`. All keys of one table share a statement.
pub(super) fn queries<'a>(
    all: &'a All,
    shard: i64,
    reads: &'a [Read],
) -> Result<Vec<Query<'a>>, PgError> {
    let mut asked = Vec::new();
    let mut keys: BTreeMap<Table, (Vec<usize>, Vec<&Key>)> = BTreeMap::new();
    for (at, read) in reads.iter().enumerate() {
        match read {
            Read::Key(key) => {
                let (numbers, of) = keys.entry(key.table()).or_default();
                numbers.push(at);
                of.push(key);
            }
            Read::Range { from, to, reverse, rows, bytes, bodies } => {
                let table = from.table();
                let (shared, end, mut params) = between(shard, from, to);
                params.push(Param::Number(limit(*rows)));
                let limited = match (*bodies, *bytes) {
                    (false, _) => Limit::NoBodies,
                    (true, usize::MAX) => Limit::Rows,
                    (true, _) => Limit::Bytes,
                };
                if matches!(limited, Limit::Bytes) {
                    params.push(Param::Number(limit(*bytes).max(1)));
                }
                let sql = all.of(table).ranges[shared][end as usize].read(*reverse, limited);
                let answers = Answers::One(at);
                asked.push(Query { table, sql, params, answers, with_body: *bodies });
            }
            Read::Unending { kind, from, rows } => {
                let params = vec![
                    Param::Number(shard),
                    Param::Number(*kind as i64),
                    Param::Number(from.bucket.cast_signed()),
                    Param::Bytes(&from.hash),
                    Param::Number(limit(*rows)),
                ];
                let (table, answers) = (Table::Record, Answers::One(at));
                asked.push(Query { table, sql: &UNENDING, params, answers, with_body: true });
            }
            Read::Ending { from, rows } => {
                let params = vec![
                    Param::Number(shard),
                    Param::Number(from.cast_signed()),
                    Param::Number(row::UNENDING.cast_signed()),
                    Param::Number(limit(*rows)),
                ];
                let (table, answers) = (Table::Record, Answers::One(at));
                let sql = &ENDING;
                asked.push(Query { table, sql, params, answers, with_body: false });
            }
        }
    }
    for (table, (numbers, keys)) in keys {
        let forms: Vec<Form> = key_forms(&layout(table));
        let rows = keys.into_iter().map(|key| {
            let mut cells = Vec::new();
            key_cells(key, &mut cells);
            cells
        });
        let mut params = vec![Param::Number(shard)];
        params.extend(arrays(&forms, rows)?);
        let (sql, answers) = (&all.of(table).get, Answers::Each(numbers));
        asked.push(Query { table, sql, params, answers, with_body: true });
    }
    Ok(asked)
}

fn limit(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
