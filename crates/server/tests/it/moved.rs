//! Storages that continue elsewhere: restored from a backup, or copied from SQLite to PostgreSQL.

use driftq_server::Server;
use driftq_server::config::{Config, EngineConfig};
use driftq_server::offline;
use serde_json::{Value, json};

use crate::acts::acts;
use crate::broker::{Broker, copy_of, database};
use crate::client::Client;
use crate::verbs::{token, without_rates};

/// The error with which a server fails to start on a database.
async fn refused(url: &str) -> String {
    let mut config = Config::local(EngineConfig::Postgres(url.to_owned().into()));
    config.listen = ([127, 0, 0, 1], 0).into();
    let refused = Server::start(config).await.err();
    refused.expect("it does not start").to_string()
}

async fn begin(node: &Client, key: &str) -> Value {
    let begin = json!({ "scope": "op/charge", "key": key, "on_doubt": "park" });
    node.post("/v1/effects/begin", begin).await.is(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restore_older_tokens_and_ids_are_rejected() {
    let [node] = Broker::nodes::<1>(4).await;
    node.topic("t").await;
    node.produce("t", "first").await;
    let before = node.receive("t", "g", "o").await;
    let url = node.url().to_owned();
    node.stop().await;
    let backup = copy_of(&url).await;
    // The backup does not contain what happens from here on.
    let node = Broker::on_database(&url).await;
    let second = node.produce("t", "second").await;
    let after = node.receive("t", "g", "o").await;
    let begun = begin(&node, "k").await;
    node.stop().await;

    assert!(refused(&backup).await.contains("run `driftq mark-restored`"));
    let restore = offline::database_restored(&backup, &offline::act_of(Some("ops"), None))
        .await
        .expect("no node runs on it");
    let node = Broker::on_database(&backup).await;
    let (acts, _) = acts(&node, "limit=1").await;
    assert_eq!(["act", "by"].map(|field| &acts[0][field]), ["mark_restored", "ops"]);
    for stale in [&before, &after] {
        let answer = node.ack(token(stale)).await;
        assert!([404, 409].contains(&answer.status), "{answer:?}");
    }
    let again = node.produce("t", "another").await;
    assert_eq!(again["offset"], second["offset"], "the offset is reused");
    assert_ne!(again["id"], second["id"], "the id is not reused");
    let fence = begin(&node, "k").await["fence"].as_u64();
    assert!(
        fence > begun["fence"].as_u64() && fence >= Some(u64::from(restore) << 20),
        "{fence:?}"
    );
    let alive = offline::database_restored(&backup, &offline::act_of(Some("ops"), None))
        .await
        .expect_err("a node runs on it");
    assert!(alive.to_string().contains("stop the node"), "{alive}");
}

/// The database is reachable again at the same address, with other content.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_database_was_restored_under_it_claims_nothing() {
    let [node] = Broker::nodes::<1>(4).await;
    node.topic("t").await;
    let change = "UPDATE driftq.meta SET value = jsonb_set(value::jsonb, '{restore}', '77')::text
                  WHERE name = 'identity';
                  UPDATE driftq.shard SET epoch = epoch + 1000, node = NULL";
    let (client, connection) =
        tokio_postgres::connect(node.url(), tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    client.batch_execute(change).await.expect("a change");
    let epochs = async || {
        let rows = client.query("SELECT epoch FROM driftq.shard ORDER BY shard", &[]).await;
        rows.expect("rows").iter().map(|row| row.get(0)).collect::<Vec<i64>>()
    };
    let before = epochs().await;
    for _ in 0..300 {
        if node.get("/v1/readyz").await.json().to_string().contains("was replaced") {
            assert_eq!(epochs().await, before, "it has claimed again");
            let produce = json!({ "topic": "t", "value": "x" });
            node.post("/v1/produce", produce).await.refused(503, "UNAVAILABLE");
            let alive = "SELECT FROM driftq.node WHERE until > now()";
            let alive = client.query(alive, &[]).await.expect("rows");
            assert!(alive.is_empty(), "the others would leave shards to it");
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the node does not report it");
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_and_effects_begun_on_sqlite_finish_on_postgresql() {
    let broker = Broker::in_directory(|config| config.shards = Some(3)).await;
    for topic in ["a", "b", "c", "d"] {
        broker.topic(topic).await;
        for number in 0..20 {
            let body = json!({ "topic": topic, "value": format!("{topic}{number}"),
                "envelope": { "idempotency_key": number.to_string() } });
            broker.post("/v1/produce", body).await.is(200);
        }
    }
    let acked = broker.receive("a", "g", "o").await;
    broker.ack(token(&acked)).await.is(204);
    let dead = broker.receive("b", "g", "o").await;
    broker
        .nack(token(&dead), json!({ "dead_letter": true, "reason": "nul \u{0} inside" }))
        .await
        .is(204);
    let held = broker.receive("a", "g", "o").await;
    let lease = held["lease"]["token"].clone();
    let asked = json!({ "lease_token": lease, "on_doubt": "park" });
    let effect = broker.post("/v1/effects/begin", asked).await.is(200);
    let alone = begin(&broker, "k").await;
    let topics = without_rates(broker.get("/v1/topics?detail=true").await.is(200));
    let directory = broker.leave_directory().await;

    let url = database().await;
    let copied = offline::copy(directory.path(), &url, &mut |_, _| ()).await.expect("copied");
    assert!(copied["page"] > 80 && copied["record"] > 80, "{copied:?}");
    let twice = offline::copy(directory.path(), &url, &mut |_, _| ()).await.err();
    assert!(
        twice.is_some_and(|twice| twice.to_string().contains("already copied to this database"))
    );
    assert!(clock_records(&url).await.contains("clock_boot"), "a clock jump would be accepted");
    let serve = driftq_storage::sqlite::Sqlite::open(directory.path(), None).err();
    assert!(serve.is_some_and(|serve| serve.to_string().contains("was copied to a database")));
    let mut shards = Vec::new();
    offline::inspect(&url, None, &mut |seen| shards.push(seen)).await.expect("it is read");
    assert_eq!(shards.len(), 3);
    assert!(shards.iter().all(|shard| shard.problems.is_empty()), "{shards:?}");

    let node = Broker::on_database(&url).await;
    let moved = node.get("/v1/topics?detail=true").await.is(200);
    assert_eq!(without_rates(moved), topics);
    let commit = json!({ "token": lease,
        "effects": [{ "token": effect["token"], "status": "SUCCEEDED", "result": "charged" }] });
    node.post("/v1/commit", commit).await.is(200);
    let finish = json!({ "token": alone["token"], "status": "SUCCEEDED" });
    node.post("/v1/effects/finish", finish).await.is(200);
    node.ack(token(&acked)).await.is(204);
    node.ack(token(&dead)).await.refused(409, "STALE_LEASE");
    let repeated = json!({ "topic": "c", "value": "c7", "envelope": { "idempotency_key": "7" } });
    assert_eq!(node.post("/v1/produce", repeated).await.is(200)["deduplicated"], true);
    let next = node.receive("a", "g", "o").await;
    assert_eq!(next["value"], "a2");
    let refused = offline::copy(&directory.path().join("none"), &url, &mut |_, _| ()).await.err();
    assert!(
        refused.is_some_and(|refused| refused.to_string().contains("contains no DriftQ database"))
    );
}

async fn clock_records(url: &str) -> String {
    let (client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    let names = "SELECT string_agg(name, ' ') FROM driftq.meta WHERE name LIKE 'clock_%'";
    let names: Option<String> = client.query_one(names, &[]).await.expect("a row").get(0);
    names.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_directory_is_served_only_after_mark_restored() {
    let broker = Broker::in_directory(|_| ()).await;
    broker.topic("t").await;
    let directory = broker.leave_directory().await;
    let url = database().await;
    offline::copy(directory.path(), &url, &mut |_, _| ()).await.expect("copied");
    let other = database().await;
    offline::copy(directory.path(), &other, &mut |_, _| ()).await.expect("copied once more");
    driftq_storage::sqlite::Sqlite::open(directory.path(), None).err().expect("it was copied");
    offline::directory_restored(directory.path(), &offline::act_of(None, None)).expect("restored");
    let engine =
        driftq_storage::sqlite::Sqlite::open(directory.path(), None).expect("it is served");
    assert!(engine.identity().restore > 0, "tokens issued before the copy would be valid in both");
}

/// A directory can be copied only while no server runs on it.
#[tokio::test(flavor = "multi_thread")]
async fn copying_a_served_directory_is_rejected() {
    let broker = Broker::in_directory(|_| ()).await;
    broker.topic("t").await;
    let url = database().await;
    let directory = broker.directory();
    let refused = offline::copy(&directory, &url, &mut |_, _| ()).await.expect_err("refused");
    assert!(refused.to_string().contains("is in use by process"), "{refused}");
}

/// Inconsistent rows are detected while a node serves them.
#[tokio::test(flavor = "multi_thread")]
async fn a_served_shard_can_be_verified() {
    let [node] = Broker::nodes::<1>(4).await;
    node.topic("t").await;
    for _ in 0..5 {
        node.produce("t", "x").await;
    }
    node.receive("t", "g", "o").await;
    let url = node.url().to_owned();
    let problems = async || {
        let mut problems = Vec::new();
        let mut each = |seen: offline::Inspected| problems.extend(seen.problems);
        offline::inspect(&url, None, &mut each).await.expect("it is read");
        problems
    };
    assert_eq!(problems().await, [] as [String; 0]);
    let (client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    let last = "DELETE FROM driftq.page WHERE last = (SELECT max(last) FROM driftq.page)";
    client.batch_execute(last).await.expect("a page is lost");
    let found = problems().await;
    assert!(found.iter().any(|problem| problem.contains("its pages at 4")), "{found:?}");
    let damage = "UPDATE driftq.page SET body = set_byte(body, 9, get_byte(body, 9) # 1)";
    client.batch_execute(damage).await.expect("a bit is flipped");
    assert!(problems().await.len() > found.len());
    assert!(offline::inspect(&database().await, None, &mut |_| ()).await.is_err());
}
