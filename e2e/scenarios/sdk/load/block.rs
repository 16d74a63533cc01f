//! Handlers that block for three leases: in a sleep, with the CPU, and in C code.

use std::time::{Duration, Instant};

use anyhow::ensure;
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use super::{Load, Place, quantile};
use crate::agent::lock;

const LEASE_MS: u64 = 1_500;
/// The longest planned time between two renewals: a third of the lease, and a tenth of that.
const PLANNED: Duration = Duration::from_millis(550);
const LATE_MAX: Duration = Duration::from_millis(100);
/// Node has one thread for its timers and the operating system schedules it late.
const LATE_MAX_NODE: Duration = Duration::from_millis(300);

/// How handlers block, how many agents there are, and how many handlers each runs at a time.
const KINDS: [(&str, usize, usize); 3] =
    [("block_ms", 3, 4), ("burn_ms", 2, 1), ("hold_interpreter_ms", 2, 1)];

pub(super) async fn run(of: &Load<'_>, count: usize) -> anyhow::Result<String> {
    let is_node = of.agent.first().is_some_and(|program| program.ends_with("node"));
    let most = if is_node { LATE_MAX_NODE } else { LATE_MAX };
    let mut shown = Vec::new();
    for (step, agents, at_a_time) in KINDS {
        let rounds = count.div_ceil(agents * at_a_time);
        let lanes = (0..agents).map(|_| lane(of, step, at_a_time, rounds));
        let mut late: Vec<Duration> = try_join_all(lanes).await?.concat();
        let p99 = quantile(&mut late, 0.99);
        // One request renews all leases of an agent, at least seven times in a round.
        let least = 7 * agents * rounds;
        ensure!(late.len() >= least, "{} renewals while {step} blocks, not {least}", late.len());
        ensure!(p99 <= most, "{step}: the p99 of the lateness is {p99:?}, more than {most:?}");
        shown.push(format!(
            "{step} {} runs, p99 {} ms",
            rounds * agents * at_a_time,
            p99.as_millis()
        ));
    }
    Ok(format!("block: 0 leases lost; lateness of renewals: {}", shown.join("; ")))
}

/// One agent, with `at_a_time` messages in each round. Returns the lateness of each renewal.
async fn lane(
    of: &Load<'_>,
    step: &str,
    at_a_time: usize,
    rounds: usize,
) -> anyhow::Result<Vec<Duration>> {
    let mut place = Place::start(of, false).await?;
    let mut steps = json!({});
    steps[step] = Value::from(3 * LEASE_MS);
    let settings = json!({ "lease_ms": LEASE_MS, "concurrency": at_a_time });
    let agent = place.agent(json!([steps]), settings).await?;
    let mut late = Vec::new();
    for _ in 0..rounds {
        let from = place.now();
        place.produce(at_a_time).await?;
        place.until("ended", at_a_time, from).await?;
        place.until_settled().await?;
        let events = lock(&place.events);
        let times = |name: &str| -> Vec<Instant> {
            let round = events.iter().skip(from);
            round.filter(|(_, event)| event["event"] == name).map(|(at, _)| *at).collect()
        };
        let (began, ended) = (times("started"), times("ended"));
        ensure!(began.len() == at_a_time, "{} deliveries of {at_a_time} messages", began.len());
        let (Some(began), Some(ended)) = (began.first(), ended.last()) else { continue };
        let renewals = place.proxy.times("POST /v1/settle", "extend");
        let mut last = *began;
        for at in renewals.into_iter().filter(|at| at > began && at < ended) {
            late.push((at - last).saturating_sub(PLANNED));
            last = at;
        }
    }
    drop(agent);
    Ok(late)
}
