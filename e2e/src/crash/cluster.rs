//! Three servers on one PostgreSQL, and what can happen to them and to it while commits cross shards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use driftq_e2e::node::Node;
use driftq_e2e::postgres::{Cluster, Stop};

use crate::clients::Client;
use crate::crossing::{Crossing, Judged, every_shard_answers};
use crate::history::History;

const NODES: usize = 3;
const SHARDS: u32 = 16;
/// The shortest there is.
const LEASE_MS: u64 = 3_000;
/// What must be committed between two faults.
pub(crate) const COMMITTED_PER_FAULT: u64 = 100;
/// How long after a fault all shards are served again.
pub(crate) const SERVED_AGAIN: Duration = Duration::from_millis(LEASE_MS + 5_000);

/// What happens.
#[derive(Debug, Clone, Copy)]
enum Fault {
    KillNode,
    PauseNode,
    StopNode,
    RestartDatabase,
    KillDatabase,
}

/// A run.
pub(crate) struct Stormed {
    pub(crate) judged: Judged,
    pub(crate) faults: u64,
    /// From the loss of a node to the first order of it that was handled, the longest of them.
    pub(crate) served_again: Duration,
}

pub(crate) async fn run(binary: &str, rounds: u64) -> anyhow::Result<Stormed> {
    let mut database = Cluster::start(15).await?;
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(Node::start(binary, &database.url(), SHARDS, LEASE_MS).await?);
    }
    let urls = nodes.iter().map(Node::url).collect();
    let client = Client::among(urls, Arc::new(History::default()));
    let crossing = Crossing::start(client).await?;
    let (mut faults, mut served_again) = (0, Duration::ZERO);
    for _ in 0..rounds {
        for fault in [
            Fault::KillNode,
            Fault::PauseNode,
            Fault::StopNode,
            Fault::RestartDatabase,
            Fault::KillDatabase,
        ] {
            faults += 1;
            crossing.busy(faults * COMMITTED_PER_FAULT).await?;
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..300))).await;
            crossing.fault(&format!("{fault:?}"));
            let began = Instant::now();
            let victim = fastrand::usize(..NODES);
            let others = (0..NODES).filter(|node| *node != victim).map(|node| nodes[node].url());
            let others = Client::among(others.collect(), Arc::new(History::default()));
            let victim = &mut nodes[victim];
            match fault {
                Fault::KillNode => victim.kill().await?,
                Fault::PauseNode => victim.pause()?,
                Fault::StopNode => victim.stop()?,
                Fault::RestartDatabase => database.restart(Stop::Immediate).await?,
                Fault::KillDatabase => {
                    database.kill().await?;
                    database.start_again().await?;
                }
            }
            let is_of_a_node =
                matches!(fault, Fault::KillNode | Fault::PauseNode | Fault::StopNode);
            if is_of_a_node {
                every_shard_answers(&others, 2 * SERVED_AGAIN)
                    .await
                    .with_context(|| format!("{fault:?}"))?;
                served_again = served_again.max(began.elapsed());
                println!("{fault:?}: served again after {} ms", began.elapsed().as_millis());
            }
            match fault {
                Fault::KillNode => victim.start_again().await?,
                Fault::StopNode => {
                    victim.ended().await?;
                    victim.start_again().await?;
                }
                Fault::PauseNode => victim.resume()?,
                Fault::RestartDatabase | Fault::KillDatabase => {}
            }
        }
    }
    let judged = crossing.finish().await?;
    Ok(Stormed { judged, faults, served_again })
}
