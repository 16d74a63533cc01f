//! Three servers of one release are exchanged one by one for those of another, and back again, while commits cross
//! shards: requests, streams and rows of both meet.

use std::time::Instant;

use anyhow::Context as _;

use crate::cluster::{PATIENCE, Storm, Stormed};
use crate::latency::Times;

/// What must be committed between two exchanges, by servers of both releases.
const COMMITTED_PER_EXCHANGE: u64 = 200;

/// Up, and down again, so often.
pub(crate) async fn run(old: &str, new: &str, rounds: u64) -> anyhow::Result<Stormed> {
    let Storm { database, mut members, probes, crossing } = Storm::start(old).await?;
    let (mut exchanges, mut served) = (0, Times::default());
    for _ in 0..rounds {
        for (binary, name) in [(new, "new"), (old, "old")] {
            for member in &mut members {
                exchanges += 1;
                crossing.busy(exchanges * COMMITTED_PER_EXCHANGE).await?;
                crossing.fault("exchange");
                let began = Instant::now();
                member.node.stop()?;
                let took = probes.all_deliver(began, PATIENCE).await;
                let took =
                    took.with_context(|| format!("exchange {exchanges}, for the {name} one"))?;
                served.add(format!("for the {name} one"), took);
                member.node.ended().await?;
                member.node.start_as(binary).await?;
            }
        }
    }
    let judged = crossing.finish().await?;
    drop(database);
    let total = judged.tell()?;
    anyhow::ensure!(judged.committed >= exchanges * COMMITTED_PER_EXCHANGE, "too little happened");
    Ok(Stormed { total, served })
}
