//! Liveness, readiness and version.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::broker::{self, Broker};
use crate::verbs::{fields, time};

#[tokio::test]
async fn a_running_server_is_alive_and_ready() {
    let broker = Broker::start().await;
    assert_eq!(broker.get("/v1/healthz").await.is(200), json!({ "status": "ok" }));
    assert_eq!(broker.get("/v1/readyz").await.is(200), json!({ "status": "ready" }));
}

#[tokio::test]
async fn the_version_reports_release_engine_and_features() {
    let broker = Broker::in_memory().await;
    let version = broker.get("/v1/version").await.is(200);
    let names = "api commit durability engine features started_at version wal_enabled";
    assert_eq!(fields(&version).join(" "), names);
    assert_eq!(version["wal_enabled"], false);
    assert_eq!(version["engine"], "memory");
    assert_eq!(version["api"], "v1");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    time(&version["started_at"]);
    let features = json!([
        "audit", "batch", "commit", "effects", "history", "labels", "nonce", "pointers", "receive",
        "settle"
    ]);
    assert_eq!(version["features"], features);
}

#[tokio::test]
async fn on_disk_the_version_reports_durable_acknowledgements() {
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

/// Allows or forbids connections to a database. Existing connections are closed.
async fn open_database(url: &str, is_open: bool) {
    let server = std::env::var("DRIFTQ_TEST_POSTGRES").expect("a PostgreSQL server for tests");
    let name = url.split("dbname=").nth(1).expect("a name");
    let (client, connection) =
        tokio_postgres::connect(&server, tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    let alter = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {is_open}");
    client.batch_execute(&alter).await.expect("the database is altered");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
    client.query(end, &[&name]).await.expect("the connections are closed");
}

/// Polls until readiness has this value. Returns how long that took.
async fn until_ready(broker: &Broker, is_ready: bool) -> (Duration, serde_json::Value) {
    let began = Instant::now();
    loop {
        let answer = broker.get("/v1/readyz").await;
        if (answer.status == 200) == is_ready {
            return (began.elapsed(), answer.json());
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn readiness_follows_the_reachability_of_the_database() {
    let [one, two] = Broker::nodes(4).await;
    for broker in [&one, &two] {
        until_ready(broker, true).await;
    }
    open_database(one.url(), false).await;
    for broker in [&one, &two] {
        let (took, message) = until_ready(broker, false).await;
        assert!(took < Duration::from_secs(8), "{took:?}: {message}");
    }
    open_database(one.url(), true).await;
    for broker in [&one, &two] {
        until_ready(broker, true).await;
    }
}
