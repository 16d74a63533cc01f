//! SIGKILL of workers, of their renewal processes, and of the server, while orders are charged.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use rustix::process::Signal;
use serde_json::json;

use super::processes::{Process, children};
use super::{INTERVAL, Load, PATIENCE, Place};
use crate::agent::Agent;

const LANES: usize = 2;
/// Kills of workers between two of the server.
const KILLS_PER_SERVER: usize = 8;
const BACKLOG: u64 = 16;
/// How long a renewal process may outlive its worker.
const CHILD_LIFE: Duration = Duration::from_secs(1);

pub(super) async fn run(of: &Load<'_>, count: usize) -> anyhow::Result<String> {
    let lanes = (0..LANES).map(|_| lane(of, count.div_ceil(LANES)));
    let lanes = try_join_all(lanes).await?;
    let sum = |of: fn(&Killed) -> usize| lanes.iter().map(of).sum::<usize>();
    Ok(format!(
        "kill: {} kills of workers, {} of their children, {} of servers, {} orders, {} calls, \
         0 charged twice, 0 unlisted doubts, 0 children left",
        sum(|of| of.workers),
        sum(|of| of.children),
        sum(|of| of.servers),
        sum(|of| of.orders),
        sum(|of| of.calls),
    ))
}

#[derive(Default)]
struct Killed {
    workers: usize,
    children: usize,
    servers: usize,
    orders: usize,
    calls: usize,
}

async fn lane(of: &Load<'_>, kills: usize) -> anyhow::Result<Killed> {
    let mut place = Place::start(of, true).await?;
    let mut killed = Killed::default();
    let mut agent = worker(&place).await?;
    while killed.workers + killed.children < kills {
        if place.backlog().await? < BACKLOG {
            place.produce(BACKLOG as usize).await?;
        }
        let from = place.now();
        place.until("started", 1, from).await?;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..150))).await;
        if agent.exited()?.is_some() {
            // A worker may give up when its renewal process dies.
            agent = worker(&place).await?;
            continue;
        }
        let below = children(agent.id().context("it runs")?)?;
        match below.first().filter(|_| fastrand::u8(..4) == 0) {
            Some(child) => {
                child.kill()?;
                killed.children += 1;
            }
            None => {
                agent.signal(Signal::KILL)?;
                killed.workers += 1;
                are_gone(&below).await?;
                agent = worker(&place).await?;
            }
        }
        if (killed.workers + killed.children).is_multiple_of(KILLS_PER_SERVER) {
            place.server.restart().await?;
            killed.servers += 1;
        }
    }
    let began = Instant::now();
    while place.backlog().await? > 0 {
        ensure!(began.elapsed() < PATIENCE, "{} messages are left", place.backlog().await?);
        if agent.exited()?.is_some() {
            agent = worker(&place).await?;
        }
        tokio::time::sleep(INTERVAL).await;
    }
    let (orders, acts, keys) = (place.produced, place.provider.acts(), place.provider.keys());
    ensure!((acts, keys) == (orders, orders), "{acts} charges, {keys} keys for {orders} orders");
    for number in 0..orders {
        let effect = place.server.effect(&format!("charge-{number}")).await?;
        ensure!(effect["state"] == "SUCCEEDED", "an effect without its outcome: {effect}");
    }
    agent.signal(Signal::KILL)?;
    Ok(Killed { orders, calls: place.provider.calls(), ..killed })
}

async fn worker(place: &Place<'_>) -> anyhow::Result<Agent> {
    let charge = json!({ "effect": { "key": "charge-{id}", "on_doubt": "retry" } });
    let steps = json!([{ "wait_ms": 20 }, charge, { "wait_ms": 20 }]);
    place.agent(steps, json!({ "lease_ms": 1_500, "concurrency": 4 })).await
}

async fn are_gone(children: &[Process]) -> anyhow::Result<()> {
    let began = Instant::now();
    while children.iter().any(Process::is_alive) {
        ensure!(began.elapsed() < CHILD_LIFE, "a child outlives its worker by {CHILD_LIFE:?}");
        tokio::time::sleep(INTERVAL).await;
    }
    Ok(())
}
