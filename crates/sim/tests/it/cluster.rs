//! Nodes that share shards: no two live nodes serve one shard, every shard is served again soon,
//! and the cluster is idle when nothing happens.

use driftq_core::ownership::{CLAIM_BACKOFF_MS_MAX, NODE_LEASE_MS};
use driftq_core::{NodeId, ShardId};
use driftq_sim::cluster::{Cluster, ClusterConfig, Counts, Faults};

const TERMS: ClusterConfig =
    ClusterConfig { shards: 64, lease_ms: NODE_LEASE_MS, claim_ms: 20, cores: 16, connections: 4 };
/// Time from a crash, or from the end of all faults, until every shard is served.
const SOON_MS: u64 = NODE_LEASE_MS + 5_000;

/// An idle cluster.
fn settled(seed: u64, shards: u32, nodes: usize) -> Cluster {
    let mut cluster = Cluster::new(seed, ClusterConfig { shards, ..TERMS });
    for _ in 0..nodes {
        cluster.start();
    }
    cluster.run(20_000, Cluster::is_settled);
    assert!(cluster.is_settled(), "seed {seed}");
    // The next event happens at a random moment between two renewals.
    let pause = fastrand::Rng::with_seed(seed).u64(1_000..2_000);
    cluster.run(cluster.now() + pause, |_| false);
    cluster
}

fn servers(cluster: &Cluster) -> Vec<Option<NodeId>> {
    (0..)
        .map_while(|shard| (shard < TERMS.shards).then(|| cluster.server(ShardId(shard))))
        .collect()
}

fn assert_whole(cluster: &Cluster, seed: u64) {
    assert_eq!(cluster.broken(), [] as [String; 0], "seed {seed}");
}

/// All faults at once for two minutes, then none.
fn chaos(seed: u64) -> Counts {
    let mut chance = fastrand::Rng::with_seed(seed ^ 0xc4a0);
    let terms = ClusterConfig { shards: chance.u32(1..=64), claim_ms: chance.u64(1..200), ..TERMS };
    let mut cluster = Cluster::new(seed, terms);
    for _ in 0..chance.usize(1..=6) {
        cluster.start();
    }
    let one = |chance: &mut fastrand::Rng, most: u32| chance.u32(0..most);
    cluster.faults = Faults {
        requests: one(&mut chance, 100),
        answers: one(&mut chance, 100),
        late: one(&mut chance, 100),
        commits: one(&mut chance, 10),
    };
    let mut all_back = 0;
    while cluster.now() < 120_000 {
        let until = cluster.now() + chance.u64(0..4_000);
        cluster.run(until, |_| false);
        let nodes = cluster.nodes();
        let Some(node) = chance.choice(nodes.iter().copied()) else {
            cluster.start();
            continue;
        };
        match chance.u32(0..100) {
            0..25 if nodes.len() < 8 => drop(cluster.start()),
            0..40 => cluster.kill(node),
            40..55 => cluster.drain(node),
            55..60 => {
                let away_ms = chance.u64(0..20_000);
                cluster.lose_database(away_ms);
                all_back = all_back.max(cluster.now() + away_ms);
            }
            _ => {
                let stopped_ms = chance.u64(0..20_000);
                cluster.pause(node, stopped_ms);
                all_back = all_back.max(cluster.now() + stopped_ms);
            }
        }
    }
    cluster.start();
    cluster.faults = Faults::default();
    cluster.run(all_back, |_| false);
    // Repeated failures have the longest backoff.
    cluster.run(cluster.now() + SOON_MS + CLAIM_BACKOFF_MS_MAX, Cluster::is_settled);
    assert!(cluster.is_settled(), "seed {seed} does not become idle");
    // The last draining nodes leave.
    cluster.run(cluster.now() + 3_000, |_| false);
    assert_whole(&cluster, seed);
    let loads = cluster.loads();
    let (most, least) = (loads.iter().max(), loads.iter().min());
    assert!(
        most.zip(least).is_some_and(|(most, least)| most - least <= 1),
        "seed {seed} {loads:?}"
    );
    let before = cluster.counts();
    cluster.run(cluster.now() + 60_000, |_| false);
    let after = cluster.counts();
    assert_eq!(before.actions, after.actions, "seed {seed} is not idle");
    // One renewal per second, with clocks that run up to 1 % fast.
    let renewals = 61 * cluster.nodes().len() as u64;
    assert!(after.renewals - before.renewals <= renewals, "seed {seed}");
    assert!(cluster.is_settled(), "seed {seed}");
    after
}

#[test]
fn no_two_live_nodes_serve_a_shard_and_faults_are_recovered_from() {
    let mut all = Counts::default();
    for seed in 0..100 {
        let counts = chaos(seed);
        all.claims += counts.claims;
        all.refused += counts.refused;
        all.abandoned += counts.abandoned;
        all.fenced += counts.fenced;
    }
    // The faults under test have occurred.
    assert!(all.claims > 10_000 && all.refused > 300 && all.abandoned > 3_000, "{all:?}");
    assert_eq!(all.fenced, 0, "no serving node was declared dead");
}

/// All nodes look dead for a moment, or a dead one looks alive. No shard may be claimed because of
/// it.
#[test]
fn a_jump_of_the_database_clock_claims_no_shard() {
    const HOUR_MS: u64 = 3_600_000;
    for seed in 0..50 {
        let mut cluster = settled(seed, 64, 5);
        for ahead_ms in [HOUR_MS, 2 * HOUR_MS, HOUR_MS, 0] {
            let node = cluster.nodes()[0];
            let claims = cluster.counts().claims;
            cluster.set_clock_ahead(ahead_ms);
            cluster.run(cluster.now() + 5_000, |_| false);
            assert!(cluster.is_settled(), "seed {seed}, {ahead_ms} ms ahead");
            let claims = cluster.counts().claims - claims;
            assert_eq!(claims, 0, "seed {seed}, {ahead_ms} ms ahead");
            // One node dies before the next jump.
            cluster.kill(node);
            cluster.start();
            cluster.run(cluster.now() + SOON_MS, |_| false);
            assert!(cluster.is_settled(), "seed {seed}, {ahead_ms} ms ahead");
        }
    }
}

#[test]
fn shards_of_a_crashed_node_are_served_again_soon() {
    for seed in 0..50 {
        let mut cluster = settled(seed, 64, 2 + seed as usize % 6);
        let node = cluster.nodes()[0];
        let died_at = cluster.now();
        cluster.kill(node);
        cluster.run(died_at + SOON_MS, Cluster::is_served);
        assert!(cluster.is_served(), "seed {seed}");
        assert_whole(&cluster, seed);
    }
}

#[test]
fn shards_of_a_suspended_node_are_served_by_the_others_soon() {
    for seed in 0..50 {
        let mut cluster = settled(seed, 64, 3);
        let node = cluster.nodes()[0];
        let stopped_at = cluster.now();
        cluster.pause(node, 60_000);
        cluster.run(stopped_at + SOON_MS, |_| false);
        // The node is suspended and has not noticed yet.
        let others: usize = cluster.loads()[1..].iter().sum();
        assert_eq!(others, 64, "seed {seed}");
        cluster.run(stopped_at + 60_000, |_| false);
        cluster.run(stopped_at + 60_010, |_| false);
        assert_eq!(cluster.loads()[0], 0, "seed {seed}");
        cluster.run(stopped_at + 70_000, Cluster::is_settled);
        assert!(cluster.is_settled(), "seed {seed}");
        assert_whole(&cluster, seed);
    }
}

#[test]
fn a_joining_node_gets_its_share_and_nothing_else_moves() {
    for nodes in 1..8 {
        let mut cluster = settled(nodes as u64, 64, nodes);
        let (before, claims) = (servers(&cluster), cluster.counts().claims);
        let joined_at = cluster.now();
        cluster.take_gap_ms();
        cluster.start();
        cluster.run(joined_at + 1_000, |_| false);
        cluster.run(joined_at + 10_000, Cluster::is_settled);
        let after = servers(&cluster);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert_eq!(moved, 64 / (nodes + 1));
        assert_eq!(cluster.counts().claims - claims, moved as u64);
        let gap_ms = cluster.take_gap_ms();
        assert!(gap_ms < 2_000, "{gap_ms} ms");
        assert_whole(&cluster, nodes as u64);
    }
}

#[test]
fn a_draining_node_hands_over_its_shards_and_leaves() {
    for seed in 0..50 {
        let mut cluster = settled(seed, 64, 4);
        let node = cluster.nodes()[0];
        cluster.take_gap_ms();
        let (claims, asked_at) = (cluster.counts().claims, cluster.now());
        cluster.drain(node);
        cluster.run(asked_at + 1_000, |_| false);
        assert!(!cluster.nodes().contains(&node), "seed {seed}: it left");
        cluster.run(asked_at + 3_000, Cluster::is_settled);
        assert!(cluster.is_settled(), "seed {seed}");
        assert_eq!(cluster.counts().claims - claims, 16, "seed {seed}");
        let gap_ms = cluster.take_gap_ms();
        assert!(gap_ms < 1_500, "seed {seed}: {gap_ms} ms");
        assert_whole(&cluster, seed);
    }
}

/// No node is alive when the database returns, and the first to renew sees only itself.
#[test]
fn after_a_database_outage_every_node_reclaims_its_shards() {
    for seed in 0..50 {
        let mut cluster = settled(seed, 64, 8);
        let (before, claims) = (servers(&cluster), cluster.counts().claims);
        let (away_ms, left_at) = (20_000 + 97 * seed, cluster.now());
        cluster.lose_database(away_ms);
        cluster.run(left_at + 20_000, |_| false);
        assert_eq!(cluster.loads(), [0; 8], "seed {seed}: all have stepped down");
        cluster.run(left_at + away_ms + 5_000, |_| false);
        assert!(cluster.is_settled(), "seed {seed}");
        assert_eq!(servers(&cluster), before, "seed {seed}");
        assert_eq!(cluster.counts().claims - claims, 64, "seed {seed}");
        assert_whole(&cluster, seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let lines = |seed| format!("{:?}", chaos(seed));
    assert_eq!(lines(5), lines(5));
    assert_ne!(lines(5), lines(6));
}

#[test]
fn a_node_drained_by_an_operator_serves_nothing_until_undrained() {
    for seed in 0..20 {
        let mut cluster = settled(seed, 64, 4);
        let node = cluster.nodes()[0];
        cluster.take_gap_ms();
        cluster.hold_back(node, true);
        cluster.run(cluster.now() + 5_000, |_| false);
        assert_eq!(cluster.loads()[0], 0, "seed {seed}");
        assert!(cluster.is_settled(), "seed {seed}");
        let gap_ms = cluster.take_gap_ms();
        assert!(gap_ms < 2_500, "seed {seed}: {gap_ms} ms");
        // Also while other nodes fail.
        cluster.kill(cluster.nodes()[1]);
        cluster.run(cluster.now() + SOON_MS, |_| false);
        assert_eq!((cluster.loads()[0], cluster.is_settled()), (0, true), "seed {seed}");
        cluster.hold_back(node, false);
        cluster.run(cluster.now() + 6_000, |_| false);
        assert!(cluster.loads()[0] >= 21 && cluster.is_settled(), "seed {seed}");
        assert_whole(&cluster, seed);
    }
}

#[test]
fn a_pinned_shard_stays_while_other_nodes_join_and_leave() {
    for seed in 0..20 {
        let mut cluster = settled(seed, 64, 4);
        let (shard, nodes) = (ShardId(seed as u32), cluster.nodes());
        let to = *nodes.iter().find(|node| cluster.server(shard) != Some(**node)).expect("another");
        let before = servers(&cluster);
        cluster.put(shard, Some(to));
        cluster.run(cluster.now() + 5_000, |_| false);
        assert_eq!((cluster.server(shard), cluster.is_settled()), (Some(to), true), "seed {seed}");
        let moved = before.iter().zip(servers(&cluster)).filter(|(was, is)| *was != is).count();
        assert_eq!(moved, 2, "seed {seed}: two shards swap");
        let other = *nodes.iter().find(|node| **node != to).expect("another");
        cluster.kill(other);
        cluster.start();
        cluster.run(cluster.now() + SOON_MS, |_| false);
        assert_eq!((cluster.server(shard), cluster.is_settled()), (Some(to), true), "seed {seed}");
        cluster.kill(to);
        cluster.run(cluster.now() + SOON_MS, |_| false);
        assert!(cluster.is_settled(), "seed {seed}");
        assert_whole(&cluster, seed);
    }
}
