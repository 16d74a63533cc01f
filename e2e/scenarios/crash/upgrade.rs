//! Three servers of one release are replaced one by one by another release, and back, while commits
//! cross shards. Requests, streams and rows of both releases meet.

use std::time::Instant;

use anyhow::Context as _;

use crate::cluster::{ClusterResult, ClusterRun, TIMEOUT};
use crate::latency::Times;

/// Minimum of commits between two replacements, by servers of both releases.
const COMMITTED_PER_EXCHANGE: u64 = 200;

/// Upgrades and downgrades all servers, `rounds` times.
pub(crate) async fn run(old: &str, new: &str, rounds: u64) -> anyhow::Result<ClusterResult> {
    let ClusterRun { database, mut members, probes, crossing } = ClusterRun::start(old).await?;
    let (mut exchanges, mut served) = (0, Times::default());
    for _ in 0..rounds {
        for (binary, name) in [(new, "new"), (old, "old")] {
            for member in &mut members {
                exchanges += 1;
                crossing.busy(exchanges * COMMITTED_PER_EXCHANGE).await?;
                crossing.fault("exchange");
                let began = Instant::now();
                member.node.stop()?;
                let took = probes.all_deliver(began, TIMEOUT).await;
                let took =
                    took.with_context(|| format!("replacement {exchanges}, by the {name} one"))?;
                served.add(format!("by the {name} one"), took);
                member.node.ended().await?;
                member.node.start_as(binary).await?;
            }
        }
    }
    let judged = crossing.finish().await?;
    drop(database);
    let total = judged.print_summary()?;
    anyhow::ensure!(judged.committed >= exchanges * COMMITTED_PER_EXCHANGE, "too little happened");
    Ok(ClusterResult { total, served })
}
