//! Operator commands on nodes and shards. Nodes read them at their next renewal.

use std::time::Duration;

use driftq_core::ownership::ClusterRows;
use driftq_core::{BatchNo, NodeId, ShardId, Timestamp};

use super::error::PgError;
use super::fixed::{DRAIN, FAR, PUT};
use super::session::Pool;
use super::sql::Sql;
use super::{ANSWER_TIMEOUT, Inside, Postgres};
use crate::Answer;

/// The progress of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardProgress {
    /// The time of its last claim, if known.
    pub since: Option<Timestamp>,
    /// The last batch.
    pub batch: BatchNo,
}

impl Postgres {
    /// Returns all nodes and shards, and the progress of each shard.
    pub async fn snapshot(
        &self,
        wait: Duration,
    ) -> Result<(ClusterRows, Vec<ShardProgress>), crate::EngineError> {
        let cluster_rows = self.look(wait).await?;
        let inside = self.inside.clone();
        let far = self.ask(wait, async move {
            let mut taken = inside.members.take().await?;
            let statement = taken.session.prepared(&FAR).await?;
            let rows = taken.session.client.query(&statement, &[]).await?;
            let far = rows.iter().map(|row| {
                let (since, batch): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
                let since = since.map(|at| Timestamp(at.cast_unsigned()));
                Ok(ShardProgress {
                    since,
                    batch: BatchNo(batch.unwrap_or_default().cast_unsigned()),
                })
            });
            let far = far.collect::<Result<Vec<ShardProgress>, PgError>>()?;
            taken.give_back();
            Ok(far)
        });
        Ok((cluster_rows, far.await?))
    }

    /// Drains a node, or lets it claim shards again. `act` is the record of this act.
    pub fn drain(&self, node: NodeId, drained: bool, act: String) -> Answer<'_, ()> {
        let numbers = [node.0.cast_signed(), i64::from(drained)];
        self.run_act(|inside| &inside.members, &DRAIN, numbers, act)
    }

    /// Pins a shard to a node, or unpins it. `act` is the record of this act.
    pub fn put(&self, shard: ShardId, node: Option<NodeId>, act: String) -> Answer<'_, ()> {
        let node = node.map_or(0, |node| node.0.cast_signed());
        // Uses a writer, because it may wait for a commit, and renewals must not wait.
        self.run_act(|inside| &inside.writers, &PUT, [i64::from(shard.0), node], act)
    }

    fn run_act(
        &self,
        pool: fn(&Inside) -> &Pool,
        sql: &'static Sql,
        numbers: [i64; 2],
        act: String,
    ) -> Answer<'_, ()> {
        let inside = self.inside.clone();
        self.ask(ANSWER_TIMEOUT, async move {
            let mut taken = pool(&inside).take().await?;
            let session = &mut taken.session;
            let statement = session.prepared(sql).await?;
            let [one, two] = &numbers;
            session.client.execute(&statement, &[one, two, &act]).await?;
            taken.give_back();
            Ok(())
        })
    }
}
