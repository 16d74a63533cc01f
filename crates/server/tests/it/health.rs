//! Is it alive, is it ready, what is it?

use std::time::{Duration, Instant};

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

/// Whether anything may connect to a database; what is connected is cut off.
async fn open_database(url: &str, is_open: bool) {
    let server = std::env::var("DRIFTQ_TEST_POSTGRES").expect("there is a server");
    let name = url.split("dbname=").nth(1).expect("a name");
    let (client, connection) =
        tokio_postgres::connect(&server, tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    let alter = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {is_open}");
    client.batch_execute(&alter).await.expect("it is altered");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
    client.query(end, &[&name]).await.expect("they are ended");
}

/// Asks until it is so, and says how long that took.
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
async fn a_node_without_its_database_is_soon_not_ready_and_ready_again_with_it() {
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
