//! Claims and commits.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use driftq_core::row::{Columns, Key, Row, Table, Write};
use driftq_core::{BatchNo, Epoch, ShardId, Timestamp};
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use super::cells::{Form, Param, all_forms, arrays, key_forms};
use super::error::PgError;
use super::fixed::{CLAIM, EXPIRE, FENCE, HEAD, TOUCH, TRIM};
use super::ranges::between;
use super::session::Session;
use super::sql::Sql;
use super::statements::All;
use crate::Ownership;
use crate::layout::{Cell, content_cells, key_cells, layout};

/// Claims a shard by an update. So it waits for a commit in progress under the previous epoch and,
/// like every commit, for the standbys: rows loaded after it are as durable as the claim itself.
pub(super) async fn claim(
    session: &mut Session,
    shard: ShardId,
) -> Result<(Ownership, Timestamp), PgError> {
    let warned = session.warnings();
    let claim = session.prepared(&CLAIM).await?;
    let row = session.client.query_one(&claim, &[&i64::from(shard.0)]).await?;
    unless_warned(session, warned)?;
    claimed(shard, &row)
}

/// Reads the ownership and the time that a claim returned.
pub(super) fn claimed(
    shard: ShardId,
    row: &tokio_postgres::Row,
) -> Result<(Ownership, Timestamp), PgError> {
    let (epoch, now): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    Ok((Ownership { shard, epoch: Epoch(epoch.cast_unsigned()) }, Timestamp(now.cast_unsigned())))
}

/// Commits a batch in one transaction and two round trips: BEGIN, then everything else. BEGIN is
/// sent alone, because after a failed BEGIN each statement would be a transaction of its own.
///
/// The commit is done only if every statement succeeded. A failed statement aborts the transaction,
/// and the statements after it have no effect. PostgreSQL then answers COMMIT with success but
/// rolls back.
pub(super) async fn commit(
    session: &mut Session,
    all: &All,
    ownership: Ownership,
    batch: BatchNo,
    writes: &[Write],
) -> Result<Timestamp, PgError> {
    let shard = i64::from(ownership.shard.0);
    let epoch = ownership.epoch.0.cast_signed();
    let mut sent = vec![(&FENCE, vec![Param::Number(shard), Param::Number(epoch)])];
    sent.push((&HEAD, head(shard, epoch, batch, writes)?));
    sent.extend(changes(all, shard, writes)?);
    let mut steps = Vec::with_capacity(sent.len());
    for (sql, params) in &sent {
        steps.push((session.prepared(sql).await?, params.as_slice()));
    }
    let warned = session.warnings();
    let answers = in_one_transaction(session, &steps).await?;
    unless_warned(session, warned)?;
    let now: i64 = answers[1].first().ok_or(PgError::Fenced)?.try_get(0)?;
    Ok(Timestamp(now.cast_unsigned()))
}

/// The result rows of each statement.
type Answers = Vec<Vec<tokio_postgres::Row>>;
type Step<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<tokio_postgres::Row>, PgError>> + Send + 'a>>;

async fn in_one_transaction(
    session: &Session,
    steps: &[(Statement, &[Param<'_>])],
) -> Result<Answers, PgError> {
    let client = &session.client;
    client.batch_execute("BEGIN").await?;
    let mut under_way: Vec<Step<'_>> = Vec::with_capacity(steps.len() + 1);
    for (statement, params) in steps {
        under_way.push(Box::pin(async move {
            let params: Vec<&(dyn ToSql + Sync)> =
                params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
            Ok(client.query(statement, &params).await?)
        }));
    }
    under_way.push(Box::pin(async move {
        Ok(client.batch_execute("COMMIT").await.map(|()| Vec::new())?)
    }));
    // Polling a statement once sends it, so this loop sends all statements in order.
    let mut early = Vec::with_capacity(under_way.len());
    for step in &mut under_way {
        let polled = poll_fn(|context| Poll::Ready(step.as_mut().poll(context))).await;
        early.push(match polled {
            Poll::Ready(answer) => Some(answer?),
            Poll::Pending => None,
        });
    }
    let mut answers = Vec::with_capacity(under_way.len());
    for (step, early) in under_way.into_iter().zip(early) {
        answers.push(match early {
            Some(answer) => answer,
            None => step.await?,
        });
    }
    Ok(answers)
}

/// Fails if a warning was received since `warned`, because the commit may not be replicated.
pub(super) fn unless_warned(session: &Session, warned: u64) -> Result<(), PgError> {
    if session.warnings() == warned {
        return Ok(());
    }
    Err(PgError::Database(
        "PostgreSQL sent a warning: the commit may not be replicated; check standbys".to_owned(),
    ))
}

pub(super) fn head<'a>(
    shard: i64,
    epoch: i64,
    batch: BatchNo,
    writes: &'a [Write],
) -> Result<Vec<Param<'a>>, PgError> {
    let heads = writes.iter().filter_map(|write| match write {
        Write::Put(row) => match (&row.key, &row.columns) {
            (Key::Head { batch: of }, Columns::Head { epoch, now, clean }) if *of == batch => {
                Some((row, *epoch, *now, *clean))
            }
            _ => None,
        },
        Write::Delete(_)
        | Write::DeleteRange { .. }
        | Write::Trim { .. }
        | Write::Touch { .. }
        | Write::Expire { .. } => None,
    });
    let Some((row, of, now, clean)) = heads.last() else {
        return Err(PgError::Database("a batch has no head".to_owned()));
    };
    let number = |number: u64| Param::Number(number.cast_signed());
    Ok(vec![
        Param::Number(shard),
        number(batch.0),
        number(of.0),
        number(now.0),
        number(clean.0),
        Param::Bytes(&row.body),
        Param::Number(epoch),
    ])
}

/// Returns the statements of a batch except its head, with puts before ranges.
pub(super) fn changes<'a>(
    all: &'a All,
    shard: i64,
    writes: &'a [Write],
) -> Result<Vec<(&'a Sql, Vec<Param<'a>>)>, PgError> {
    let mut puts: BTreeMap<Table, Vec<&Row>> = BTreeMap::new();
    let mut deletes: BTreeMap<Table, Vec<&Key>> = BTreeMap::new();
    let (mut trims, mut touches, mut expired) = (Vec::new(), Vec::new(), Vec::new());
    let mut ranges = Vec::new();
    for write in writes {
        match write {
            Write::Put(row) if row.key.table() == Table::Head => {}
            Write::Put(row) => puts.entry(row.key.table()).or_default().push(row),
            Write::Delete(key) => deletes.entry(key.table()).or_default().push(key),
            Write::DeleteRange { from, to } => ranges.push((from, to)),
            Write::Trim { topic, lane, from, to } => trims.push(vec![
                Cell::Number(topic.0),
                Cell::Number(u64::from(lane.0)),
                Cell::Number(*from),
                Cell::Number(*to),
            ]),
            Write::Touch { key, expires, bucket } => {
                let mut cells = Vec::new();
                key_cells(key, &mut cells);
                cells.extend([Cell::Number(expires.0), Cell::Number(*bucket)]);
                touches.push(cells);
            }
            Write::Expire { from, to } => expired.push([*from, *to]),
        }
    }
    let with_shard = |params: Vec<Param<'a>>| {
        let mut with = vec![Param::Number(shard)];
        with.extend(params);
        with
    };
    let mut sent: Vec<(&'a Sql, Vec<Param<'a>>)> = Vec::new();
    for (table, keys) in deletes {
        let forms = key_forms(&layout(table));
        let rows = keys.into_iter().map(|key| {
            let mut cells = Vec::new();
            key_cells(key, &mut cells);
            cells
        });
        sent.push((&all.of(table).delete, with_shard(arrays(&forms, rows)?)));
    }
    for (table, rows) in puts {
        let layout = layout(table);
        let is_text = Form::of_body(layout.body) == Form::Text;
        let rows = rows.into_iter().map(|row| {
            let mut cells = Vec::new();
            key_cells(&row.key, &mut cells);
            content_cells(row, is_text, &mut cells);
            cells
        });
        sent.push((&all.of(table).put, with_shard(arrays(&all_forms(&layout), rows)?)));
    }
    let numbers = [Form::Number; 4];
    if !touches.is_empty() {
        let forms = [Form::Number, Form::Bytes, Form::Number, Form::Number];
        sent.push((&TOUCH, with_shard(arrays(&forms, touches)?)));
    }
    for (from, to) in ranges {
        let (shared, end, params) = between(shard, from, to);
        sent.push((&all.of(from.table()).ranges[shared][end as usize].delete, params));
    }
    if !trims.is_empty() {
        sent.push((&TRIM, with_shard(arrays(&numbers, trims)?)));
    }
    for range in expired {
        let params = range.map(|bucket| Param::Number(bucket.cast_signed()));
        sent.push((&EXPIRE, with_shard(params.into())));
    }
    Ok(sent)
}
