//! Compares what came of a scenario with what must have.

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::agent::lock;
use crate::run::Run;
use crate::scenario::Expected;

pub(crate) async fn check(run: &Run<'_>) -> anyhow::Result<()> {
    let Expected {
        calls,
        acts,
        keys,
        stored,
        started,
        attempts,
        dead,
        open,
        leased,
        effects,
        events,
        at_most,
        headers,
        together,
        exit: _,
        within_ms,
    } = &run.scenario.expect;
    let took = run.took().as_millis();
    ensure!(took <= u128::from(*within_ms), "{took} ms, not {within_ms}");
    let counts = [
        ("calls of the provider", *calls, run.provider.calls()),
        ("acts of the provider", *acts, run.provider.acts()),
        ("downstream keys", *keys, run.provider.keys()),
        ("handlers at a time", *together, at_a_time(run)),
    ];
    for (what, wanted, is) in counts {
        ensure!(wanted.is_none_or(|wanted| wanted == is), "{is} {what}, not {wanted:?}");
    }
    for (topic, wanted) in stored {
        let is = run.server.stored(topic).await?;
        ensure!(is == *wanted, "{is} messages in {topic}, not {wanted}");
    }
    for (id, (times, last)) in run.started()? {
        ensure!(started.is_none_or(|n| n == times), "{id} was started {times} times");
        ensure!(attempts.is_none_or(|n| n == last), "{id} has used {last} attempts");
    }
    ensure!(started.is_none_or(|n| n == 0) || !run.started()?.is_empty(), "nothing was started");
    let mut reasons = run.server.dead().await?;
    reasons.sort();
    let is_so = reasons.iter().zip(dead).all(|(is, wanted)| is.starts_with(wanted));
    ensure!(is_so && reasons.len() == dead.len(), "dead letters {reasons:?}");
    let group = run.server.group("orders").await?;
    if !run.scenario.handler.is_empty() {
        let is = group["backlog"].as_u64();
        ensure!(open.is_none() || is == *open, "{is:?} messages are open: {group}");
        ensure!(group["leased"] == *leased, "{} are leased: {group}", group["leased"]);
    }
    for (key, wanted) in effects {
        let is = run.server.effect(key).await?;
        ensure!(is["state"] == **wanted, "the effect {key} is {}: {is}", is["state"]);
    }
    have_come(run, events)?;
    for (route, most) in at_most {
        let is = run.proxy.seen(route);
        ensure!(is <= *most, "{is} requests to {route}, more than {most}");
    }
    for (route, header) in headers {
        let (name, value) = header.split_once(": ").context("name: value")?;
        ensure!(run.proxy.has_header(route, name, value), "no {header} on {route}");
    }
    let left = run.proxy.left();
    ensure!(left.is_empty(), "these faults did not happen: {left:?}");
    let slots = run.scenario.worker.get("concurrency").and_then(Value::as_u64).unwrap_or(8);
    let asked = run.proxy.receive_sizes();
    ensure!(asked.iter().all(|max| *max <= slots), "{asked:?} messages for {slots} slots");
    Ok(())
}

/// Each event contains the wanted fields. Others may come between.
fn have_come(run: &Run<'_>, wanted: &[Value]) -> anyhow::Result<()> {
    let events = lock(&run.events);
    let mut come = events.iter();
    for fields in wanted {
        let has_come = come.any(|(_, event)| contains(event, fields));
        ensure!(has_come, "no event {fields} in its order in {:?}", all(&events));
    }
    Ok(())
}

fn contains(event: &Value, fields: &Value) -> bool {
    let mut fields = fields.as_object().into_iter().flatten();
    fields.all(|(name, value)| event[name] == *value)
}

fn all(events: &[(std::time::Instant, Value)]) -> Vec<String> {
    events.iter().map(|(_, event)| event.to_string()).collect()
}

/// The highest number of handlers that ran at a time.
fn at_a_time(run: &Run<'_>) -> usize {
    let (mut most, mut now) = (0_usize, 0_usize);
    for (_, event) in lock(&run.events).iter() {
        match event["event"].as_str() {
            Some("started") => now += 1,
            Some("ended") => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}
