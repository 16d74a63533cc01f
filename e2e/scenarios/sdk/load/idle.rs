//! A worker without messages.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use driftq_e2e::usage::{cpu, memory};
use serde_json::json;

use super::processes::children;
use super::{Load, Place};

/// Node collects garbage for a minute after its start.
const WARM_UP: Duration = Duration::from_secs(60);
const TIME: Duration = Duration::from_secs(60);
/// Of one core.
const CPU_MAX: f64 = 0.005;
/// With the renewal process of Python.
const MEMORY_MAX_MB: f64 = 60.0;

pub(super) async fn run(of: &Load<'_>) -> anyhow::Result<String> {
    let mut place = Place::start(of, false).await?;
    let agent = place.agent(json!([{ "wait_ms": 1 }]), json!({ "concurrency": 8 })).await?;
    // The first message starts what a worker needs to renew.
    place.produce(1).await?;
    place.until("ended", 1, 0).await?;
    tokio::time::sleep(WARM_UP).await;
    let own = agent.id().context("it runs")?;
    let all: Vec<u32> = children(own)?.iter().map(|child| child.id).chain([own]).collect();
    let used = || all.iter().try_fold(Duration::ZERO, |sum, id| anyhow::Ok(sum + cpu(*id)?));
    let before = used()?;
    tokio::time::sleep(TIME).await;
    let share = (used()? - before).as_secs_f64() / TIME.as_secs_f64();
    let resident = all.iter().try_fold(0.0, |sum, id| anyhow::Ok(sum + memory(*id)?.resident))?;
    ensure!(share <= CPU_MAX, "an idle worker uses {:.2} % of a core", share * 100.0);
    // Node alone needs more; its figure is shown and not judged.
    let is_judged = !of.agent.first().is_some_and(|program| program.ends_with("node"));
    ensure!(!is_judged || resident <= MEMORY_MAX_MB, "a worker uses {resident:.0} MB");
    let processes = all.len();
    Ok(format!("idle: {:.2} % of a core, {resident:.0} MB in {processes} processes", share * 100.0))
}
