//! Copies a data directory to a PostgreSQL database.
//!
//! 1. The copy is one transaction.
//! 2. Identity, keys, epochs and rows are unchanged, so tokens, fences, ids and cursors stay valid.
//! 3. No server starts on the directory after the copy, because tokens would be valid in both
//!    places.
//! 4. The rows that were read are compared with the rows that were stored, by number.

use std::collections::BTreeMap;
use std::path::Path;

use driftq_core::row::{Key, Row, Table};
use driftq_core::{BatchNo, ClockRecord, ShardId};
use tokio::sync::mpsc;
use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::cells::{Form, Param, all_forms, arrays};
use super::check;
use super::error::OpenError;
use super::schema::{
    begin, migrate, place, put_act, put_identity, put_meta, put_place, put_shards,
};
use super::session::Session;
use super::statements::All;
use super::target::Target;
use crate::layout::{content_cells, key_cells, layout};
use crate::sqlite::{self, rows::DirectoryReader};
use crate::{EngineError, Ownership};

/// Maximum number of rows of one statement, and approximate maximum of their bytes.
const ROWS_MAX: usize = 1_000;
const BYTES_MAX: usize = 4 << 20;

/// Why a copy failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the errors")]
pub enum CopyError {
    #[error(transparent)]
    From(#[from] sqlite::OpenError),
    #[error(transparent)]
    To(#[from] OpenError),
    #[error("the directory was already copied to this database; start servers on the database")]
    CopiedBefore,
    #[error(
        "the directory was copied but could not be marked as copied ({0}); do not start a server on it again"
    )]
    Unmarked(EngineError),
    #[error(
        "nothing was copied: {read} rows of {table} were read but {found} were stored; try again"
    )]
    Miscounted { table: &'static str, read: u64, found: u64 },
}

impl From<tokio_postgres::Error> for CopyError {
    fn from(error: tokio_postgres::Error) -> CopyError {
        CopyError::To(error.into())
    }
}

/// Rows of one table of one shard.
struct Piece {
    shard: ShardId,
    table: Table,
    rows: Vec<Row>,
}

/// Copies a data directory into an empty database, and marks the directory so that no server starts
/// on it. Reports the number of rows of each table to `far`, and returns the numbers of all tables.
/// Fails while a server runs on the directory.
pub async fn copy(
    data: &Path,
    url: &str,
    far: &mut (dyn FnMut(&'static str, u64) + Send),
) -> Result<BTreeMap<&'static str, u64>, CopyError> {
    let from = DirectoryReader::open(data)?;
    let (identity, shards) = (from.identity().clone(), from.shards()?);
    let target = Target::read(url)?;
    let (mut session, other) = (open(&target).await?, open(&target).await?);
    check::durability(&session.client, &other.client).await?;
    let place = place(&session.client).await;
    let copying = begin(&mut session.client).await?;
    if let Some(found) = migrate(&copying).await? {
        if found.storage != identity.storage {
            return Err(OpenError::NotEmpty.into());
        }
        // The earlier copy may have been killed before it marked the directory.
        from.mark_copied().await.map_err(CopyError::Unmarked)?;
        return Err(CopyError::CopiedBefore);
    }
    put_identity(&copying, &identity).await?;
    for name in ClockRecord::NAMES {
        if let Some(text) = from.meta(name)? {
            put_meta(&copying, name, &text).await?;
        }
    }
    for act in from.acts()? {
        put_act(&copying, &act.record).await?;
    }
    put_place(&copying, place).await?;
    put_shards(&copying, &identity).await?;
    for Ownership { shard, epoch } in &shards {
        let put = "UPDATE shard SET epoch = $2 WHERE shard = $1";
        copying.execute(put, &[&i64::from(shard.0), &epoch.0.cast_signed()]).await?;
    }
    let (send, mut read) = mpsc::channel(2);
    let reading = tokio::task::spawn_blocking(move || {
        read_all(&from, &shards, &send).map(|newest| (from, newest))
    });
    let (all, mut copied) = (All::new(), BTreeMap::new());
    while let Some(piece) = read.recv().await {
        put(&copying, &all, &piece).await?;
        let name = layout(piece.table).name;
        let rows = copied.entry(name).or_insert(0);
        *rows += piece.rows.len() as u64;
        far(name, *rows);
    }
    let (from, newest) = reading
        .await
        .map_err(|_| OpenError::Damaged("the reader stopped unexpectedly".to_owned()))??;
    count(&copying, &copied, &newest).await?;
    copying.commit().await?;
    from.mark_copied().await.map_err(CopyError::Unmarked)?;
    Ok(copied)
}

async fn open(target: &Target) -> Result<Session, OpenError> {
    Ok(Session::open(target).await?)
}

/// Reads all rows. Returns the newest head of each shard.
fn read_all(
    from: &DirectoryReader,
    shards: &[Ownership],
    send: &mpsc::Sender<Piece>,
) -> Result<BTreeMap<ShardId, BatchNo>, sqlite::OpenError> {
    let mut newest = BTreeMap::new();
    for Ownership { shard, .. } in shards {
        for table in (0..).map_while(Table::of) {
            let (mut rows, mut bytes) = (Vec::new(), 0);
            from.rows(*shard, table, &mut |row| {
                if let Key::Head { batch } = row.key {
                    let last = newest.entry(*shard).or_insert(batch);
                    *last = batch.max(*last);
                }
                bytes += row.body.len();
                rows.push(row);
                if rows.len() < ROWS_MAX && bytes < BYTES_MAX {
                    return true;
                }
                bytes = 0;
                let piece = Piece { shard: *shard, table, rows: std::mem::take(&mut rows) };
                send.blocking_send(piece).is_ok()
            })?;
            // The receiver is closed if the other side has failed.
            let _failed = send.blocking_send(Piece { shard: *shard, table, rows });
        }
    }
    Ok(newest)
}

async fn put(copying: &Transaction<'_>, all: &All, piece: &Piece) -> Result<(), CopyError> {
    if piece.rows.is_empty() {
        return Ok(());
    }
    let layout = layout(piece.table);
    let is_text = Form::of_body(layout.body) == Form::Text;
    let cells = piece.rows.iter().map(|row| {
        let mut cells = Vec::new();
        key_cells(&row.key, &mut cells);
        content_cells(row, is_text, &mut cells);
        cells
    });
    let mut params = vec![Param::Number(i64::from(piece.shard.0))];
    params.extend(arrays(&all_forms(&layout), cells).map_err(OpenError::from)?);
    let params: Vec<&(dyn ToSql + Sync)> =
        params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
    let statement = copying.prepare(&all.of(piece.table).put.text).await?;
    copying.execute(&statement, &params).await?;
    Ok(())
}

/// Checks that all rows that were read are stored.
async fn count(
    copying: &Transaction<'_>,
    copied: &BTreeMap<&'static str, u64>,
    newest: &BTreeMap<ShardId, BatchNo>,
) -> Result<(), CopyError> {
    for (table, read) in copied {
        let found: i64 =
            copying.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await?.get(0);
        let found = found.cast_unsigned();
        if found != *read {
            return Err(CopyError::Miscounted { table, read: *read, found });
        }
    }
    for (shard, batch) in newest {
        let select = "SELECT max(batch) FROM head WHERE shard = $1";
        let found: Option<i64> = copying.query_one(select, &[&i64::from(shard.0)]).await?.get(0);
        let found = found.unwrap_or_default().cast_unsigned();
        if found != batch.0 {
            return Err(CopyError::Miscounted { table: "head", read: batch.0, found });
        }
    }
    Ok(())
}
