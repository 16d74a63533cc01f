//! Simulates 1 000 shards on 50 nodes: how soon all shards are served when nodes join and leave,
//! and how many claims the database has to process.
//!
//! `spread CLAIM_MS CONNECTIONS`: the time that the database needs for a claim and the recovery
//! after it, and how many of them a node runs concurrently. The ownership state machines are those
//! of the core; database and time are simulated.
#![expect(clippy::print_stdout, reason = "command-line program")]

use std::process::ExitCode;

use driftq_core::ownership::NODE_LEASE_MS;
use driftq_core::{NodeId, ShardId};
use driftq_sim::cluster::{Cluster, ClusterConfig};

const SHARDS: u32 = 1_000;
const NODES: usize = 50;
/// How many claims the database processes concurrently.
const CORES: usize = 16;
/// How often each scenario is run. The worst result counts.
const SEEDS: u64 = 5;
/// Maximum time to detect lost nodes and to serve their shards.
const LOST_MS_MAX: u64 = NODE_LEASE_MS + 5_000;
/// Maximum time if no node is lost.
const OTHER_MS_MAX: u64 = 5_000;

/// A change to a cluster in a stable state.
struct Scene {
    name: &'static str,
    happens: fn(&mut Cluster),
    /// How long the change lasts.
    lasts_ms: u64,
    /// Shards that have to move.
    moves: usize,
    /// Shards that have to be claimed.
    claims: usize,
    /// An even share of shards per node, rounded up.
    share: usize,
    most_ms: u64,
}

/// 1 000 shards on 50 nodes are 20 each; on 60, at least 16.
const SCENES: &[Scene] = &[
    Scene {
        name: "one node lost",
        happens: |cluster| cluster.nodes().into_iter().take(1).for_each(|node| cluster.kill(node)),
        lasts_ms: 0,
        moves: 20,
        claims: 20,
        share: 21,
        most_ms: LOST_MS_MAX,
    },
    Scene {
        name: "ten nodes lost",
        happens: |cluster| cluster.nodes().into_iter().take(10).for_each(|node| cluster.kill(node)),
        lasts_ms: 0,
        moves: 200,
        claims: 200,
        share: 25,
        most_ms: LOST_MS_MAX,
    },
    Scene {
        name: "ten nodes drain",
        happens: |cluster| {
            cluster.nodes().into_iter().take(10).for_each(|node| cluster.drain(node));
        },
        lasts_ms: 0,
        moves: 200,
        claims: 200,
        share: 25,
        most_ms: OTHER_MS_MAX,
    },
    Scene {
        name: "ten nodes join",
        happens: |cluster| join(cluster, 10),
        lasts_ms: 0,
        moves: 160,
        claims: 160,
        share: 17,
        most_ms: OTHER_MS_MAX,
    },
    Scene {
        name: "fifty nodes join",
        happens: |cluster| join(cluster, 50),
        lasts_ms: 0,
        moves: 500,
        claims: 500,
        share: 10,
        most_ms: OTHER_MS_MAX,
    },
    Scene {
        name: "30 s without the database",
        happens: |cluster| cluster.lose_database(30_000),
        lasts_ms: 30_000,
        moves: 0,
        claims: 1_000,
        share: 20,
        most_ms: OTHER_MS_MAX,
    },
];

fn join(cluster: &mut Cluster, count: usize) {
    for _ in 0..count {
        let _ = cluster.start();
    }
}

/// The result of a scenario.
struct Seen {
    /// The time until every shard was served by its target node.
    took_ms: u64,
    /// The longest time for which a shard was not served.
    gap_ms: u64,
    moves: usize,
    claims: usize,
    /// The maximum number of concurrent claims.
    at_once: usize,
    /// The maximum number of shards on one node.
    most: usize,
    /// The cluster became stable, and no shard was ever served by two nodes.
    is_whole: bool,
}

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<u32>().ok());
    let claim_ms = numbers.next().unwrap_or(20);
    let connections = numbers.next().unwrap_or(4);
    println!(
        "{SHARDS} shards, {NODES} nodes, a lease of {NODE_LEASE_MS} ms; a claim with its recovery takes \
         {claim_ms} ms on one of {CORES} cores, a node runs {connections} concurrently"
    );
    println!(
        "{:27}{:>12}{:>12}{:>14}{:>14}{:>9}{:>11}",
        "", "all served", "unserved", "moved", "claimed", "at once", "on a node"
    );
    let terms = ClusterConfig {
        shards: SHARDS,
        lease_ms: NODE_LEASE_MS,
        claim_ms: claim_ms.into(),
        cores: CORES,
        connections: connections as usize,
    };
    let mut figures = Vec::new();
    let mut all_hold = true;
    for scene in SCENES {
        let seen = (0..SEEDS).map(|seed| play(scene, terms, seed)).reduce(Seen::worse);
        let seen = seen.expect("there are seeds");
        let holds = seen.is_whole
            && seen.took_ms <= scene.most_ms
            && (seen.moves, seen.claims) == (scene.moves, scene.claims)
            && seen.most <= scene.share;
        all_hold &= holds;
        println!(
            "{:27}{:>9} ms{:>9} ms{:>6} of {:>4}{:>6} of {:>4}{:>9}{:>11}{}",
            scene.name,
            seen.took_ms,
            seen.gap_ms,
            seen.moves,
            scene.moves,
            seen.claims,
            scene.claims,
            seen.at_once,
            seen.most,
            if holds { "" } else { "  LIMIT EXCEEDED" },
        );
        figures.push(format!("{} {:.1} s", scene.name, seen.took_ms as f64 / 1_000.0));
    }
    println!("time until every shard is served by its target node: {}", figures.join(", "));
    if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Seen {
    fn worse(self, other: Seen) -> Seen {
        Seen {
            took_ms: self.took_ms.max(other.took_ms),
            gap_ms: self.gap_ms.max(other.gap_ms),
            moves: self.moves.max(other.moves),
            claims: self.claims.max(other.claims),
            at_once: self.at_once.max(other.at_once),
            most: self.most.max(other.most),
            is_whole: self.is_whole && other.is_whole,
        }
    }
}

fn play(scene: &Scene, terms: ClusterConfig, seed: u64) -> Seen {
    let mut cluster = Cluster::new(seed, terms);
    for _ in 0..NODES {
        let _ = cluster.start();
        // Nodes renew at different times within a second.
        cluster.run(cluster.now() + 37, |_| false);
    }
    cluster.run(60_000, Cluster::is_settled);
    cluster.run(cluster.now() + 1_000 + 97 * seed, |_| false);
    let (before, claims) = (servers(&cluster), cluster.counts().claims);
    let (_, _) = (cluster.take_gap_ms(), cluster.take_claims_at_once());
    let began = cluster.now() + scene.lasts_ms;
    (scene.happens)(&mut cluster);
    cluster.run(began, |_| false);
    cluster.run(began + 60_000, Cluster::is_settled);
    let after = servers(&cluster);
    Seen {
        took_ms: cluster.now() - began,
        gap_ms: cluster.take_gap_ms(),
        moves: before.iter().zip(&after).filter(|(before, after)| before != after).count(),
        claims: (cluster.counts().claims - claims) as usize,
        at_once: cluster.take_claims_at_once(),
        most: cluster.loads().into_iter().max().unwrap_or(0),
        is_whole: cluster.is_settled() && cluster.broken().is_empty(),
    }
}

fn servers(cluster: &Cluster) -> Vec<Option<NodeId>> {
    (0..SHARDS).map(|shard| cluster.server(ShardId(shard))).collect()
}
