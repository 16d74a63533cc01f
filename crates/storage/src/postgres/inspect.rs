//! Verification of the shards of a database. It reads one snapshot, also while nodes run, and
//! changes nothing.

use std::collections::BTreeMap;

use driftq_core::row::{Key, Read, Row, Table, Write};
use driftq_core::{BatchNo, Epoch, Lane, Offset, ShardConfig, ShardId, Timestamp, TopicId, verify};
use futures_util::{TryStreamExt as _, pin_mut};
use tokio::sync::Mutex;

use super::cells::Line;
use super::error::{OpenError, PgError};
use super::reading;
use super::session::Session;
use super::statements::All;
use super::target::Target;
use crate::layout::{layout, row_of};
use crate::{Answer, Engine, EngineError, Ownership, read_back};

/// The result of inspecting a shard.
#[derive(Debug)]
pub struct Inspected {
    /// The inspected shard.
    pub shard: ShardId,
    /// The epoch of its last claim.
    pub epoch: Epoch,
    /// Its last batch.
    pub batch: BatchNo,
    /// The number of its rows.
    pub rows: u64,
    /// The problems found. Empty if the shard is valid.
    pub problems: Vec<String>,
}

/// Verifies every row of a shard, or of all shards, and recovers each shard.
pub async fn inspect(
    url: &str,
    shard: Option<ShardId>,
    each: &mut (dyn FnMut(Inspected) + Send),
) -> Result<(), OpenError> {
    let moment = Moment::begin(url).await?;
    let all = moment.shards().await?;
    let wanted = |of: &&Ownership| shard.is_none_or(|shard| shard == of.shard);
    if let Some(shard) = shard
        && !all.iter().any(|of| of.shard == shard)
    {
        return Err(OpenError::NoShard { shard, shards: all.len() });
    }
    for ownership in all.iter().filter(wanted) {
        each(moment.inspect(*ownership).await?);
    }
    Ok(())
}

/// A snapshot of a database, as a read-only engine.
struct Moment {
    session: Mutex<Session>,
    statements: All,
}

impl Moment {
    async fn begin(url: &str) -> Result<Moment, OpenError> {
        let session = Session::open(&Target::read(url)?).await?;
        let is_made = "SELECT to_regclass('driftq.shard') IS NOT NULL";
        if !session.client.query_one(is_made, &[]).await?.get::<_, bool>(0) {
            return Err(OpenError::Missing);
        }
        let begin = "SET idle_in_transaction_session_timeout = 0;
                     BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        session.client.batch_execute(begin).await?;
        Ok(Moment { session: Mutex::new(session), statements: All::new() })
    }

    async fn shards(&self) -> Result<Vec<Ownership>, OpenError> {
        let select = "SELECT shard, epoch FROM shard ORDER BY shard";
        let rows = self.session.lock().await.client.query(select, &[]).await?;
        let ownership = |row: &tokio_postgres::Row| {
            let (shard, epoch): (i64, i64) = (row.get(0), row.get(1));
            let shard = ShardId(u32::try_from(shard).unwrap_or_default());
            Ownership { shard, epoch: Epoch(epoch.cast_unsigned()) }
        };
        Ok(rows.iter().map(ownership).collect())
    }

    async fn inspect(&self, ownership: Ownership) -> Result<Inspected, OpenError> {
        let Ownership { shard, epoch } = ownership;
        let mut seen = Inspected { shard, epoch, batch: BatchNo(0), rows: 0, problems: Vec::new() };
        let mut ends = BTreeMap::new();
        for table in (0..).map_while(Table::of) {
            self.rows(table, &mut seen, &mut ends).await?;
        }
        let config = ShardConfig { shard, ..ShardConfig::default() };
        match read_back(self, ownership, config).await {
            Ok(recovered) => {
                if recovered.last != seen.batch {
                    let (last, newest) = (recovered.last, seen.batch);
                    seen.problems.push(format!(
                        "recovered to batch {last}, but the newest head is {newest}"
                    ));
                }
                seen.problems.extend(recovered.violation(&ends));
            }
            Err(error) => seen.problems.push(error.to_string()),
        }
        Ok(seen)
    }

    /// Verifies the rows of a table, and records the newest head and the end of each lane.
    async fn rows(
        &self,
        table: Table,
        seen: &mut Inspected,
        ends: &mut BTreeMap<(TopicId, Lane), Offset>,
    ) -> Result<(), OpenError> {
        let (layout, shard) = (layout(table), i64::from(seen.shard.0));
        let mut session = self.session.lock().await;
        let statement = session.prepared(&self.statements.of(table).load).await?;
        let lines = session.client.query_raw(&statement, [&shard]).await?;
        pin_mut!(lines);
        while let Some(line) = lines.try_next().await? {
            seen.rows += 1;
            let row = match row_of(table, Line::of(&line, 0, &layout), true) {
                Ok(row) => row,
                Err(PgError::Fenced) => continue,
                Err(PgError::Database(why)) => {
                    seen.problems.push(format!("invalid row in {}: {why}", layout.name));
                    continue;
                }
            };
            seen.problems.extend(verify(&row).err().map(|damaged| damaged.to_string()));
            match row.key {
                Key::Head { batch } => {
                    seen.batch = seen.batch.max(batch);
                }
                Key::Page { topic, lane, last } => {
                    let end = ends.entry((topic, lane)).or_insert(0);
                    *end = (*end).max(last + 1);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Engine for Moment {
    fn claim(&self, _: ShardId) -> Answer<'_, (Ownership, Timestamp)> {
        Box::pin(async { Err(takes_nothing()) })
    }

    fn load<'a>(
        &'a self,
        ownership: Ownership,
        each: &'a mut (dyn FnMut(Row) + Send),
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut session = self.session.lock().await;
            Ok(reading::load(&mut session, &self.statements, ownership, each).await?)
        })
    }

    fn read(&self, ownership: Ownership, reads: Vec<Read>) -> Answer<'_, Vec<Vec<Row>>> {
        Box::pin(async move {
            let mut session = self.session.lock().await;
            Ok(reading::read(&mut session, &self.statements, ownership, &reads).await?)
        })
    }

    fn commit(&self, _: Ownership, _: BatchNo, _: Vec<Write>) -> Answer<'_, Timestamp> {
        Box::pin(async { Err(takes_nothing()) })
    }
}

fn takes_nothing() -> EngineError {
    EngineError::Unknown("this engine is read-only".to_owned())
}
