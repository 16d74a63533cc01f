//! Membership: the rows that nodes write about themselves and read about each other. It affects
//! liveness only, because every commit is fenced.

use std::time::Duration;

use driftq_core::ownership::{ClusterRows, NodeRow, RULES, ShardOwner};
use driftq_core::{Epoch, NodeId, ShardId, Timestamp};

use super::error::PgError;
use super::fixed::{CLAIM_AS, GIVE_UP, LEAVE, LOOK, RENEW, VOID};
use super::session::{Pool, Session};
use super::sql::Sql;
use super::writing::{claimed, unless_warned};
use super::{ANSWER_TIMEOUT, Inside, Postgres};
use crate::{Answer, Identity, Ownership};

/// A node, as the other nodes see it.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its id, which is unique to one process.
    pub node: NodeId,
    /// The address at which the other nodes reach it.
    pub address: String,
    /// The version of its binary.
    pub version: String,
}

impl Postgres {
    /// Renews a node's lease for `lease_ms` from now, and returns all nodes and shards. Waits at
    /// most `wait`.
    pub fn renew(
        &self,
        member: &Member,
        draining: bool,
        lease_ms: u64,
        wait: Duration,
    ) -> Answer<'_, ClusterRows> {
        let (inside, member) = (self.inside.clone(), member.clone());
        let identity = self.identity.clone();
        self.ask(wait, async move {
            let mut taken = inside.members.take().await?;
            let cluster_rows =
                renew(&mut taken.session, &identity, &member, draining, lease_ms).await?;
            taken.give_back();
            Ok(cluster_rows)
        })
    }

    /// Returns all nodes and shards without renewing a lease.
    pub fn look(&self, wait: Duration) -> Answer<'_, ClusterRows> {
        let inside = self.inside.clone();
        self.ask(wait, async move {
            let mut taken = inside.members.take().await?;
            let statement = taken.session.prepared(&LOOK).await?;
            let rows = taken.session.client.query(&statement, &[]).await?;
            taken.give_back();
            cluster_rows(rows)
        })
    }

    /// Claims a shard for a node. Fails as fenced if the epoch of the shard has changed, and fails
    /// if the storage is no longer the one that was opened.
    pub fn claim_as(
        &self,
        node: NodeId,
        shard: ShardId,
        epoch: Epoch,
    ) -> Answer<'_, (Ownership, Timestamp)> {
        let (inside, identity) = (self.inside.clone(), self.identity.clone());
        self.ask(ANSWER_TIMEOUT, async move {
            let mut taken = inside.writers.take().await?;
            let session = &mut taken.session;
            let claim = session.prepared(&CLAIM_AS).await?;
            let (of, before) = (i64::from(shard.0), epoch.0.cast_signed());
            let (me, restore) = (node.0.cast_signed(), i64::from(identity.restore));
            let warned = session.warnings();
            let storage = &identity.storage;
            let row =
                session.client.query_opt(&claim, &[&of, &before, &me, storage, &restore]).await?;
            unless_warned(session, warned)?;
            let Some(row) = row else {
                session.expect(&identity).await?;
                return Err(PgError::Fenced);
            };
            let claimed = claimed(shard, &row)?;
            taken.give_back();
            Ok(claimed)
        })
    }

    /// Gives up a shard, unless another node has claimed it since.
    pub fn give_up(&self, ownership: Ownership) -> Answer<'_, ()> {
        let (shard, epoch) = (i64::from(ownership.shard.0), ownership.epoch.0.cast_signed());
        // Uses a writer, because it may wait for a commit, and renewals must not wait.
        self.run_statement(|inside| &inside.writers, &GIVE_UP, vec![shard, epoch])
    }

    /// Removes a node.
    pub fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.run_statement(|inside| &inside.members, &LEAVE, vec![node.0.cast_signed()])
    }

    pub(super) fn run_statement(
        &self,
        pool: fn(&Inside) -> &Pool,
        sql: &'static Sql,
        numbers: Vec<i64>,
    ) -> Answer<'_, ()> {
        let inside = self.inside.clone();
        self.ask(ANSWER_TIMEOUT, async move {
            let mut taken = pool(&inside).take().await?;
            let session = &mut taken.session;
            let statement = session.prepared(sql).await?;
            session.client.execute_raw(&statement, &numbers).await?;
            taken.give_back();
            Ok(())
        })
    }
}

async fn renew(
    session: &mut Session,
    identity: &Identity,
    member: &Member,
    draining: bool,
    lease_ms: u64,
) -> Result<ClusterRows, PgError> {
    let Member { node, address, version } = member;
    let statement = session.prepared(&RENEW).await?;
    let (me, rules) = (node.0.cast_signed(), RULES.cast_signed());
    let lease_ms = lease_ms.cast_signed();
    let (storage, restore) = (&identity.storage, i64::from(identity.restore));
    let rows = session
        .client
        .query(
            &statement,
            &[&me, address, version, &rules, &draining, &lease_ms, storage, &restore],
        )
        .await?;
    let cluster_rows = cluster_rows(rows)?;
    if !cluster_rows.nodes.contains_key(node) {
        session.expect(identity).await?;
    }
    let number = |(node, renewed_at): (NodeId, Timestamp)| {
        (node.0.cast_signed(), renewed_at.0.cast_signed())
    };
    let (nodes, renewed): (Vec<i64>, Vec<i64>) = cluster_rows.ahead().map(number).unzip();
    if !nodes.is_empty() {
        let void = session.prepared(&VOID).await?;
        session.client.execute(&void, &[&nodes, &renewed]).await?;
    }
    Ok(cluster_rows)
}

pub(super) fn cluster_rows(rows: Vec<tokio_postgres::Row>) -> Result<ClusterRows, PgError> {
    let mut cluster_rows = ClusterRows::default();
    for row in rows {
        let number = |at: usize| row.try_get(at).map(i64::cast_unsigned);
        let node = |at: usize| {
            let node: Option<i64> = row.try_get(at)?;
            Ok::<_, PgError>(node.map(|node| NodeId(node.cast_unsigned())))
        };
        let shard: Option<i64> = row.try_get(0)?;
        match (shard, node(2)?) {
            (Some(shard), holder) => {
                let place = usize::try_from(shard).unwrap_or_default();
                if cluster_rows.shards.len() <= place {
                    cluster_rows.shards.resize(place + 1, ShardOwner::default());
                }
                let epoch = Epoch(number(1)?);
                cluster_rows.shards[place] =
                    ShardOwner { epoch, node: holder, pinned_to: node(3)? };
            }
            (None, Some(node)) => {
                let seen = NodeRow {
                    address: row.try_get::<_, &str>(4)?.into(),
                    version: row.try_get::<_, &str>(5)?.into(),
                    rules: number(6)?,
                    draining: row.try_get(7)?,
                    drained: row.try_get(8)?,
                    joined_at: Timestamp(number(9)?),
                    renewed_at: Timestamp(number(10)?),
                    until: Timestamp(number(11)?),
                };
                cluster_rows.nodes.insert(node, seen);
                cluster_rows.at = Timestamp(number(12)?);
            }
            (None, None) => {}
        }
    }
    Ok(cluster_rows)
}
