//! Is it alive, is it ready, what is it?

use serde_json::json;

use crate::broker::{self, Broker};
use crate::verbs::{fields, time};

#[tokio::test]
async fn a_server_that_serves_is_alive_and_ready() {
    let broker = Broker::start().await;
    assert_eq!(broker.get("/v1/healthz").await.is(200), json!({ "status": "ok" }));
    assert_eq!(broker.get("/v1/readyz").await.is(200), json!({ "status": "ready" }));
}

#[tokio::test]
async fn the_version_says_what_runs_and_what_survives() {
    let broker = Broker::in_memory().await;
    let version = broker.get("/v1/version").await.is(200);
    let names = "api commit durability engine features started_at version wal_enabled";
    assert_eq!(fields(&version).join(" "), names);
    assert_eq!(version["wal_enabled"], false);
    assert_eq!(version["engine"], "memory");
    assert_eq!(version["api"], "v1");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    time(&version["started_at"]);
    let features =
        json!(["audit", "batch", "commit", "effects", "history", "pointers", "receive", "settle"]);
    assert_eq!(version["features"], features);
}

#[tokio::test]
async fn on_disk_the_version_says_that_acknowledged_is_durable() {
    let broker = Broker::durable().await;
    let version = broker.get("/v1/version").await.is(200);
    assert_eq!(version["wal_enabled"], true);
    let (engine, durability) = match broker::engine().as_str() {
        "postgres" => ("postgres", "fsync before every acknowledgement, on one server"),
        _ => ("sqlite", "fsync before every acknowledgement"),
    };
    assert_eq!(version["engine"], engine);
    assert_eq!(version["durability"], durability);
}
