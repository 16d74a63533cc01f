//! What nodes write about themselves, and see of each other. Liveness only: every commit is fenced.

use std::time::Duration;

use driftq_core::ownership::{NodeRow, RULES, ShardOwner, Shown};
use driftq_core::{Epoch, NodeId, ShardId, Timestamp};

use super::error::PgError;
use super::fixed::{CLAIM_AS, GIVE_UP, LEAVE, LOOK, RENEW, VOID};
use super::session::{Pool, Session};
use super::sql::Sql;
use super::writing::{claimed, unless_warned};
use super::{ANSWER_TIMEOUT, Inside, Postgres};
use crate::{Answer, Identity, Ownership};

/// A node, as it tells the others.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its number: of one process.
    pub node: NodeId,
    /// Where the others reach it.
    pub address: String,
    /// The version of its program.
    pub version: String,
}

impl Postgres {
    /// Says that a node is alive for `lease_ms` from now, and looks around. Waits no longer than `wait`.
    pub fn renew(
        &self,
        member: &Member,
        draining: bool,
        lease_ms: u64,
        wait: Duration,
    ) -> Answer<'_, Shown> {
        let (inside, member) = (self.inside.clone(), member.clone());
        let identity = self.identity.clone();
        self.ask(wait, async move {
            let mut taken = inside.members.take().await?;
            let shown = renew(&mut taken.session, &identity, &member, draining, lease_ms).await?;
            taken.give_back();
            Ok(shown)
        })
    }

    /// Looks around, as one who is not among them.
    pub fn look(&self, wait: Duration) -> Answer<'_, Shown> {
        let inside = self.inside.clone();
        self.ask(wait, async move {
            let mut taken = inside.members.take().await?;
            let statement = taken.session.prepared(&LOOK).await?;
            let rows = taken.session.client.query(&statement, &[]).await?;
            taken.give_back();
            shown(rows)
        })
    }

    /// Takes a shard over for a node if its epoch is still this one, otherwise it is fenced; and if the storage
    /// is still the one that was opened.
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

    /// Says that nobody serves the shard any more, if nobody has claimed it since.
    pub fn give_up(&self, ownership: Ownership) -> Answer<'_, ()> {
        let (shard, epoch) = (i64::from(ownership.shard.0), ownership.epoch.0.cast_signed());
        // It may wait for a commit, as renewals must not.
        self.tell(|inside| &inside.writers, &GIVE_UP, vec![shard, epoch])
    }

    /// Says that a node is gone.
    pub fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.tell(|inside| &inside.members, &LEAVE, vec![node.0.cast_signed()])
    }

    pub(super) fn tell(
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
) -> Result<Shown, PgError> {
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
    let shown = shown(rows)?;
    if !shown.nodes.contains_key(node) {
        session.expect(identity).await?;
    }
    let number = |(node, renewed_at): (NodeId, Timestamp)| {
        (node.0.cast_signed(), renewed_at.0.cast_signed())
    };
    let (nodes, renewed): (Vec<i64>, Vec<i64>) = shown.ahead().map(number).unzip();
    if !nodes.is_empty() {
        let void = session.prepared(&VOID).await?;
        session.client.execute(&void, &[&nodes, &renewed]).await?;
    }
    Ok(shown)
}

pub(super) fn shown(rows: Vec<tokio_postgres::Row>) -> Result<Shown, PgError> {
    let mut shown = Shown::default();
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
                if shown.shards.len() <= place {
                    shown.shards.resize(place + 1, ShardOwner::default());
                }
                let epoch = Epoch(number(1)?);
                shown.shards[place] = ShardOwner { epoch, node: holder, pinned_to: node(3)? };
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
                shown.nodes.insert(node, seen);
                shown.at = Timestamp(number(12)?);
            }
            (None, None) => {}
        }
    }
    Ok(shown)
}
