//! Nodes that share shards: never two that are alive on one, every shard served again soon, and rest when
//! nothing happens.

use driftq_core::ownership::{CLAIM_BACKOFF_MS_MAX, NODE_LEASE_MS};
use driftq_core::{NodeId, ShardId};
use driftq_sim::cluster::{Cluster, ClusterConfig, Counts, Faults};

const TERMS: ClusterConfig =
    ClusterConfig { shards: 64, lease_ms: NODE_LEASE_MS, claim_ms: 20, cores: 16, connections: 4 };
/// From a death, or from the end of all faults, to every shard served.
const SOON_MS: u64 = NODE_LEASE_MS + 5_000;

/// A cluster at rest.
fn settled(seed: u64, shards: u32, nodes: usize) -> Cluster {
    let mut cluster = Cluster::new(seed, ClusterConfig { shards, ..TERMS });
    for _ in 0..nodes {
        cluster.start();
    }
    cluster.run(20_000, Cluster::is_settled);
    assert!(cluster.is_settled(), "seed {seed}");
    // So that the next thing happens at some moment between two renewals.
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

/// Everything at once for two minutes, then nothing.
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
    // What has failed again and again waits longest.
    cluster.run(cluster.now() + SOON_MS + CLAIM_BACKOFF_MS_MAX, Cluster::is_settled);
    assert!(cluster.is_settled(), "seed {seed} does not come to rest");
    // The last that drain leave.
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
    assert_eq!(before.actions, after.actions, "seed {seed} does not rest");
    // Once a second, by clocks that run up to 1 % fast.
    let renewals = 61 * cluster.nodes().len() as u64;
    assert!(after.renewals - before.renewals <= renewals, "seed {seed}");
    assert!(cluster.is_settled(), "seed {seed}");
    after
}

#[test]
fn no_two_live_nodes_serve_a_shard_and_faults_that_end_are_forgotten() {
    let mut all = Counts::default();
    for seed in 0..100 {
        let counts = chaos(seed);
        all.claims += counts.claims;
        all.refused += counts.refused;
        all.abandoned += counts.abandoned;
        all.fenced += counts.fenced;
    }
    // What the checks are about has happened.
    assert!(all.claims > 10_000 && all.refused > 300 && all.abandoned > 3_000, "{all:?}");
    assert_eq!(all.fenced, 0, "nobody was taken for gone that served");
}

/// Everybody looks dead for a moment, or a dead one alive: whatever is made of that, it passes.
#[test]
fn a_database_whose_clock_jumps_is_got_over() {
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
            // One dies before the next jump.
            cluster.kill(node);
            cluster.start();
            cluster.run(cluster.now() + SOON_MS, |_| false);
            assert!(cluster.is_settled(), "seed {seed}, {ahead_ms} ms ahead");
        }
    }
}

#[test]
fn the_shards_of_a_node_that_dies_are_served_again_soon() {
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
fn the_shards_of_a_node_that_is_stopped_are_served_again_soon_and_it_serves_them_no_more() {
    for seed in 0..50 {
        let mut cluster = settled(seed, 64, 3);
        let node = cluster.nodes()[0];
        let stopped_at = cluster.now();
        cluster.pause(node, 60_000);
        cluster.run(stopped_at + SOON_MS, |_| false);
        // It is stopped and does not know yet.
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
fn a_node_that_joins_takes_its_share_and_nothing_else_moves() {
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
fn a_node_that_drains_hands_over_and_leaves() {
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

/// Nobody is alive when it comes back, and the first to renew sees itself alone.
#[test]
fn when_the_database_was_away_everybody_takes_back_what_it_had() {
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
fn one_seed_is_one_run() {
    let lines = |seed| format!("{:?}", chaos(seed));
    assert_eq!(lines(5), lines(5));
    assert_ne!(lines(5), lines(6));
}

#[test]
fn a_node_that_a_person_drains_serves_nothing_until_it_may_again() {
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
        // Whatever happens to the others.
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
fn a_shard_that_is_put_on_a_node_stays_there_while_others_come_and_go() {
    for seed in 0..20 {
        let mut cluster = settled(seed, 64, 4);
        let (shard, nodes) = (ShardId(seed as u32), cluster.nodes());
        let to = *nodes.iter().find(|node| cluster.server(shard) != Some(**node)).expect("another");
        let before = servers(&cluster);
        cluster.put(shard, Some(to));
        cluster.run(cluster.now() + 5_000, |_| false);
        assert_eq!((cluster.server(shard), cluster.is_settled()), (Some(to), true), "seed {seed}");
        let moved = before.iter().zip(servers(&cluster)).filter(|(was, is)| *was != is).count();
        assert_eq!(moved, 2, "seed {seed}: one for the other");
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
