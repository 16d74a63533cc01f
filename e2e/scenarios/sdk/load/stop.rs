//! SIGTERM under load: nothing is lost, no attempt is counted, no lease is left to expire.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use rustix::process::Signal;
use serde_json::json;

use super::{Load, Place, exits};
use crate::agent::lock;

const LANES: usize = 3;
const BACKLOG: u64 = 64;

pub(super) async fn run(of: &Load<'_>, count: usize) -> anyhow::Result<String> {
    let lanes = (0..LANES).map(|_| lane(of, count.div_ceil(LANES)));
    let messages: usize = try_join_all(lanes).await?.into_iter().sum();
    let stops = count.div_ceil(LANES) * LANES;
    Ok(format!(
        "stop: {stops} stops, {messages} messages, 0 lost, 0 attempts counted, 0 leases left"
    ))
}

async fn lane(of: &Load<'_>, stops: usize) -> anyhow::Result<usize> {
    let mut place = Place::start(of, false).await?;
    let steps = json!([{ "wait_ms": 30 }]);
    for stop in 0..=stops {
        if place.backlog().await? < BACKLOG {
            place.produce(BACKLOG as usize).await?;
        }
        let from = place.now();
        let mut agent = place.agent(steps.clone(), json!({ "concurrency": 8 })).await?;
        if stop == stops {
            // The last one works through the rest.
            place.until_settled().await?;
        } else {
            place.until("started", 1, from).await?;
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..200))).await;
        }
        agent.signal(Signal::TERM)?;
        let status = exits(&mut agent).await?;
        ensure!(status == Some(0), "the agent exited with {status:?}");
        let group = place.server.group("orders").await?;
        ensure!(group["leased"] == 0, "{} leases are left", group["leased"]);
    }
    let mut started: BTreeMap<String, usize> = BTreeMap::new();
    let events = lock(&place.events);
    for (_, event) in events.iter() {
        let id = || event["id"].as_str().context("an id").map(str::to_owned);
        match event["event"].as_str() {
            Some("started") => {
                ensure!(event["attempts"] == 1, "an attempt was counted: {event}");
                *started.entry(id()?).or_default() += 1;
            }
            Some("ended") => ensure!(event["how"] == "ok", "not finished: {event}"),
            _ => {}
        }
    }
    let all = started.len() == place.produced && started.values().all(|times| *times == 1);
    ensure!(all, "{} of {} messages were handled once", started.len(), place.produced);
    Ok(place.produced)
}
