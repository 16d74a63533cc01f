//! A forward clock jump that is held back, and its confirmation.

use std::fs;

use driftq_core::{BootRecord, ClockRecord, Timestamp};
use driftq_server::config::EngineConfig;
use driftq_storage::conformance::wait;
use driftq_storage::sqlite::Sqlite;
use driftq_storage::{Engine as _, wall_clock};
use serde_json::json;

use crate::acts::{acts, words};
use crate::broker::Broker;
use crate::verbs::time;

const HOUR_MS: u64 = 3_600_000;

/// A server on a directory that a process of this boot left with a time `ms` behind the clock.
async fn after_a_jump_of(ms: u64) -> Broker {
    after_a_process_at(Timestamp(wall_clock().0 - ms)).await
}

/// A server on a directory that a process of this boot used at time `now` a moment ago.
async fn after_a_process_at(now: Timestamp) -> Broker {
    Broker::in_directory(|config| {
        let EngineConfig::Sqlite(directory) = &config.engine else { panic!("it is a directory") };
        let engine = Sqlite::open(directory, config.shards).expect("it opens");
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
        let uptime = fs::read_to_string("/proc/uptime").expect("an uptime");
        let seconds: f64 = uptime.split(' ').next().and_then(|text| text.parse().ok()).expect("s");
        let record = ClockRecord::Boot(BootRecord {
            boot_id: boot_id.trim().to_owned(),
            boot_ms: (seconds * 1_000.0) as u64,
            now,
        });
        wait(engine.put_meta(record.name(), record.text(), None)).expect("it is stored");
    })
    .await
}

/// How far the time of the server is behind the clock.
async fn behind_ms(broker: &Broker) -> u64 {
    let produced = broker.produce("t", "x").await;
    let id = produced["id"].as_str().expect("an id");
    let explained = broker.get(&format!("/v1/explain?id={id}")).await.is(200);
    wall_clock().0.saturating_sub(time(&explained["produced_at"]))
}

#[tokio::test]
async fn a_jump_while_no_process_ran_is_held_back_until_it_is_confirmed() {
    let broker = after_a_jump_of(3 * HOUR_MS).await;
    broker.topic("t").await;
    let behind = behind_ms(&broker).await;
    assert!(behind.abs_diff(3 * HOUR_MS) < 60_000, "{behind}");
    let ready = broker.get("/v1/readyz").await.is(200);
    assert_eq!(ready["status"], "ready");
    let reason = ready["reasons"][0].as_str().unwrap_or_default();
    assert!(reason.starts_with("clock: 10") && reason.contains("driftq clock confirm"), "{ready}");
    broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
    let explained = broker.get("/v1/explain?topic=t&group=g").await.is(200);
    let ahead = explained["clock"]["ahead_ms"].as_u64().unwrap_or_default();
    assert!(ahead.abs_diff(3 * HOUR_MS) < 60_000, "{explained}");

    let confirmed = broker.post("/v1/clock/confirm", json!({ "by": "ops" })).await.is(200);
    let ahead = confirmed["ahead_ms"].as_u64().unwrap_or_default();
    assert!(ahead.abs_diff(3 * HOUR_MS) < 60_000, "{confirmed}");
    assert!(wall_clock().0.abs_diff(time(&confirmed["now"])) < 60_000, "{confirmed}");
    // The first commit after the confirmation samples the clock.
    broker.produce("t", "y").await;
    assert!(behind_ms(&broker).await < 60_000);
    assert_eq!(broker.get("/v1/readyz").await.is(200), json!({ "status": "ready" }));
    let broker = broker.restart().await;
    assert_eq!(broker.get("/v1/readyz").await.is(200), json!({ "status": "ready" }));
    let (acts, _) = acts(&broker, "limit=9").await;
    assert_eq!(words(&acts, "act"), ["confirm_clock", "create_group", "create_topic"]);
    assert_eq!(acts[0]["by"], "ops");
    assert_eq!(acts[0]["details"]["ahead_ms"], confirmed["ahead_ms"].to_string());
}

#[tokio::test]
async fn a_clock_behind_the_stored_time_is_reported_and_stops_nothing() {
    let broker = after_a_process_at(wall_clock().after(180_000)).await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let ready = broker.get("/v1/readyz").await.is(200);
    assert_eq!(ready["status"], "ready");
    let reason = ready["reasons"][0].as_str().unwrap_or_default();
    assert!(reason.starts_with("clock: 1") && reason.contains("s behind"), "{ready}");
}

#[tokio::test]
async fn a_jump_of_less_than_an_hour_is_followed() {
    let broker = after_a_jump_of(HOUR_MS - 60_000).await;
    broker.topic("t").await;
    assert!(behind_ms(&broker).await < 60_000);
    assert_eq!(broker.get("/v1/readyz").await.is(200), json!({ "status": "ready" }));
}

#[tokio::test]
async fn confirming_without_a_clock_jump_is_rejected() {
    let broker = Broker::start().await;
    let refused = broker.post("/v1/clock/confirm", json!({})).await;
    let refused = refused.refused(409, "FAILED_PRECONDITION");
    let message = "nothing to confirm: no forward jump of the clock is held back";
    assert_eq!(refused["message"], message);
}
