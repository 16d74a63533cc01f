//! What nodes write about themselves, and see of each other. Liveness only: every commit is fenced.

use std::time::Duration;

use driftq_core::ownership::{ClusterView, Held, NodeView};
use driftq_core::{Epoch, NodeId, ShardId, Timestamp};

use super::session::{Pool, Session};
use super::writing::{claimed, unless_warned};
use super::{ANSWER_TIMEOUT, Failed, Inside, Postgres};
use crate::{Answer, Ownership};

/// One statement: what the node says of itself, and everything it is shown. Its own row, which is as it was
/// before the statement there, is left out. Rows of nodes that are long gone go, and those of this address: its
/// process is another now. One that would be alive for longer than any lease was so before the clock was set back.
const RENEW: &str = "WITH renewed AS (
        INSERT INTO node (node, address, version, draining, until)
        VALUES ($1, $2, $3, $4, clock_timestamp() + $5::int8 * interval '1 ms')
        ON CONFLICT (node) DO UPDATE SET draining = EXCLUDED.draining, until = EXCLUDED.until),
    gone AS (DELETE FROM node WHERE node <> $1
        AND (address = $2 OR until < clock_timestamp() - interval '1 h'))
    SELECT NULL::int8, NULL::int8, node, address, draining FROM node
    WHERE node <> $1 AND address <> $2 AND until > clock_timestamp()
      AND until <= clock_timestamp() + interval '1 min'
    UNION ALL SELECT shard, epoch, node, NULL, NULL FROM shard";

/// The same without a word of one's own.
const LOOK: &str = "SELECT NULL::int8, NULL::int8, node, address, draining FROM node
    WHERE until > clock_timestamp() AND until <= clock_timestamp() + interval '1 min'
    UNION ALL SELECT shard, epoch, node, NULL, NULL FROM shard";

const CLAIM_AS: &str =
    "UPDATE shard SET epoch = epoch + 1, node = $3 WHERE shard = $1 AND epoch = $2
    RETURNING epoch, (extract(epoch FROM clock_timestamp()) * 1000)::int8";

const GIVE_UP: &str = "UPDATE shard SET node = NULL WHERE shard = $1 AND epoch = $2";

const LEAVE: &str = "DELETE FROM node WHERE node = $1";

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
    ) -> Answer<'_, ClusterView> {
        let (inside, member) = (self.inside.clone(), member.clone());
        self.ask(wait, async move {
            let mut taken = inside.members.take().await?;
            let view = renew(&mut taken.session, &member, draining, lease_ms).await?;
            taken.give_back();
            Ok(view)
        })
    }

    /// Looks around, as one who is not among them.
    pub fn look(&self, wait: Duration) -> Answer<'_, ClusterView> {
        let inside = self.inside.clone();
        self.ask(wait, async move {
            let mut taken = inside.members.take().await?;
            let statement = taken.session.prepared(LOOK).await?;
            let rows = taken.session.client.query(&statement, &[]).await?;
            taken.give_back();
            view(rows, ClusterView::default())
        })
    }

    /// Takes a shard over for a node if its epoch is still this one; otherwise it is fenced.
    pub fn claim_as(
        &self,
        node: NodeId,
        shard: ShardId,
        epoch: Epoch,
    ) -> Answer<'_, (Ownership, Timestamp)> {
        let inside = self.inside.clone();
        self.ask(ANSWER_TIMEOUT, async move {
            let mut taken = inside.writers.take().await?;
            let session = &mut taken.session;
            let claim = session.prepared(CLAIM_AS).await?;
            let (of, before) = (i64::from(shard.0), epoch.0.cast_signed());
            let warned = session.warnings();
            let row =
                session.client.query_opt(&claim, &[&of, &before, &node.0.cast_signed()]).await?;
            unless_warned(session, warned)?;
            let claimed = claimed(shard, &row.ok_or(Failed::Fenced)?)?;
            taken.give_back();
            Ok(claimed)
        })
    }

    /// Says that nobody serves the shard any more, if nobody has claimed it since.
    pub fn give_up(&self, ownership: Ownership) -> Answer<'_, ()> {
        let (shard, epoch) = (i64::from(ownership.shard.0), ownership.epoch.0.cast_signed());
        // It may wait for a commit, as renewals must not.
        self.tell(|inside| &inside.writers, GIVE_UP, vec![shard, epoch])
    }

    /// Says that a node is gone.
    pub fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.tell(|inside| &inside.members, LEAVE, vec![node.0.cast_signed()])
    }

    fn tell(
        &self,
        pool: fn(&Inside) -> &Pool,
        sql: &'static str,
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
    member: &Member,
    draining: bool,
    lease_ms: u64,
) -> Result<ClusterView, Failed> {
    let Member { node, address, version } = member;
    let statement = session.prepared(RENEW).await?;
    let (me, lease_ms) = (node.0.cast_signed(), lease_ms.cast_signed());
    let rows =
        session.client.query(&statement, &[&me, address, version, &draining, &lease_ms]).await?;
    let mut own = ClusterView::default();
    own.nodes.insert(*node, NodeView { address: address.as_str().into(), draining });
    view(rows, own)
}

/// Adds what rows show.
fn view(rows: Vec<tokio_postgres::Row>, mut view: ClusterView) -> Result<ClusterView, Failed> {
    for row in rows {
        let shard: Option<i64> = row.try_get(0)?;
        let node: Option<i64> = row.try_get(2)?;
        let node = node.map(|node| NodeId(node.cast_unsigned()));
        match (shard, node) {
            (Some(shard), node) => {
                let epoch: i64 = row.try_get(1)?;
                let number = usize::try_from(shard).unwrap_or_default();
                if view.shards.len() <= number {
                    view.shards.resize(number + 1, Held::default());
                }
                view.shards[number] = Held { epoch: Epoch(epoch.cast_unsigned()), node };
            }
            (None, Some(node)) => {
                let address: &str = row.try_get(3)?;
                let seen = NodeView { address: address.into(), draining: row.try_get(4)? };
                view.nodes.insert(node, seen);
            }
            (None, None) => {}
        }
    }
    Ok(view)
}
