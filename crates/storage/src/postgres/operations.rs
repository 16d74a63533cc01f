//! What people see of nodes and shards, and ask of them. Nodes learn of it when they next renew.

use std::time::Duration;

use driftq_core::ownership::Shown;
use driftq_core::{BatchNo, NodeId, ShardId, Timestamp};

use super::Postgres;
use super::error::PgError;
use super::fixed::{DRAIN, FAR, PUT};
use crate::Answer;

/// How far a shard has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Far {
    /// When it was last claimed, if that is known.
    pub since: Option<Timestamp>,
    /// Its last batch.
    pub batch: BatchNo,
}

impl Postgres {
    /// Every node and shard that there is, and how far each shard has come.
    pub async fn census(&self, wait: Duration) -> Result<(Shown, Vec<Far>), crate::EngineError> {
        let shown = self.look(wait).await?;
        let inside = self.inside.clone();
        let far = self.ask(wait, async move {
            let mut taken = inside.members.take().await?;
            let statement = taken.session.prepared(&FAR).await?;
            let rows = taken.session.client.query(&statement, &[]).await?;
            let far = rows.iter().map(|row| {
                let (since, batch): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
                let since = since.map(|at| Timestamp(at.cast_unsigned()));
                Ok(Far { since, batch: BatchNo(batch.unwrap_or_default().cast_unsigned()) })
            });
            let far = far.collect::<Result<Vec<Far>, PgError>>()?;
            taken.give_back();
            Ok(far)
        });
        Ok((shown, far.await?))
    }

    /// Says whether a node should take shards.
    pub fn drain(&self, node: NodeId, drained: bool) -> Answer<'_, ()> {
        let numbers = vec![node.0.cast_signed(), i64::from(drained)];
        self.tell(|inside| &inside.members, &DRAIN, numbers)
    }

    /// Puts a shard on a node, or on none.
    pub fn put(&self, shard: ShardId, node: Option<NodeId>) -> Answer<'_, ()> {
        let node = node.map_or(0, |node| node.0.cast_signed());
        // It may wait for a commit, as renewals must not.
        self.tell(|inside| &inside.writers, &PUT, vec![i64::from(shard.0), node])
    }
}
