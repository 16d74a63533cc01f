//! The statements of the previous version work on the tables of this one.

use std::time::Duration;

use driftq_core::ownership::{NodeRole, RULES};
use driftq_core::{Epoch, NodeId, ShardId};
use driftq_storage::postgres::Member;

use crate::postgres::{connect, database, open};

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

const CLAIM_AS: &str =
    "UPDATE shard SET epoch = epoch + 1, node = $3 WHERE shard = $1 AND epoch = $2
    RETURNING epoch, (extract(epoch FROM clock_timestamp()) * 1000)::int8";

const WAIT: Duration = Duration::from_secs(5);
const LEASE_MS: u64 = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_both_versions_see_each_other() {
    let url = database().await;
    let new = open(&url).await;
    let old = connect(&url).await;
    old.batch_execute("SET search_path = driftq").await.expect("it is set");
    let renew = async |draining: bool| {
        let lease_ms = LEASE_MS.cast_signed();
        let rows =
            old.query(RENEW, &[&1_i64, &"http://127.0.0.1:1", &"0", &draining, &lease_ms]).await;
        let rows = rows.expect("it renews");
        rows.iter()
            .filter_map(|row| row.get::<_, Option<&str>>(3).map(str::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!(renew(false).await, [] as [String; 0]);
    let member =
        Member { node: NodeId(2), address: "http://localhost:1".into(), version: "1".into() };
    new.put(ShardId(0), Some(NodeId(2)), "{}".to_owned()).await.expect("it is put");
    let shown = new.renew(&member, false, LEASE_MS, WAIT).await.expect("it renews");
    assert_eq!((shown.nodes[&NodeId(1)].rules, shown.nodes[&NodeId(2)].rules), (1, RULES));
    let view = shown.view();
    assert_eq!(view.nodes[&NodeId(1)].part, NodeRole::Takes);
    // The pin that the previous version does not know has no effect there.
    assert_eq!((shown.shards[0].pinned_to, view.shards[0].pinned_to), (Some(NodeId(2)), None));
    assert_eq!(renew(true).await, ["http://localhost:1"]);
    let shown = new.renew(&member, false, LEASE_MS, WAIT).await.expect("it renews");
    assert_eq!(shown.view().nodes[&NodeId(1)].part, NodeRole::Stops);
    // Claims of both versions raise the same epoch.
    let claimed = old.query(CLAIM_AS, &[&0_i64, &0_i64, &1_i64]).await.expect("it claims");
    assert_eq!(claimed[0].get::<_, i64>(0), 1);
    let (owner, _) = new.claim_as(NodeId(2), ShardId(0), Epoch(1)).await.expect("it claims");
    assert_eq!(owner.epoch, Epoch(2));
    assert!(old.query(CLAIM_AS, &[&0_i64, &1_i64, &1_i64]).await.expect("it asks").is_empty());
}
