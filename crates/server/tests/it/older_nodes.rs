//! Nodes of two releases on one database, as during an upgrade.

use std::time::Duration;

use driftq_core::command::{GroupName, Join, Peer, Start, TopicName};
use driftq_core::node_codec::pack_call;
use driftq_core::{Command, ConsumerId};
use driftq_storage::Identity;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_postgres::Client as Database;

use crate::broker::Broker;
use crate::client::Answer;

const LABELS: &str = r#"{ "labels": { "model": "large" } }"#;

async fn database(node: &Broker) -> Database {
    let (client, connection) =
        tokio_postgres::connect(node.url(), tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    client
}

fn labelled(topic: &str) -> Value {
    let envelope: Value = serde_json::from_str(LABELS).expect("JSON");
    json!({ "topic": topic, "value": "v", "envelope": envelope })
}

async fn produce_until(node: &Broker, topic: &str, is_done: impl Fn(&Answer) -> bool) -> Answer {
    let began = Instant::now();
    loop {
        let answer = node.post("/v1/produce", labelled(topic)).await;
        if is_done(&answer) {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_secs(15), "{answer:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The lease of the older node has expired, but it may be alive: its connection to the database may
/// be interrupted.
#[tokio::test(flavor = "multi_thread")]
async fn labels_are_rejected_while_the_row_of_an_older_node_is_left() {
    let [one, two] = Broker::nodes::<2>(8).await;
    for topic in ["a", "b"] {
        one.topic(topic).await;
        one.post("/v1/produce", labelled(topic)).await.is(200);
    }
    let database = database(&one).await;
    let join = "INSERT INTO driftq.node
                    (node, address, version, rules, draining, joined_at, renewed_at, until)
                SELECT 77, 'http://127.0.0.1:9', '0', 3, false, now() - interval '1 h',
                    now() - interval '2 min', now() - interval '1 min'";
    database.batch_execute(join).await.expect("a row");
    for node in [&one, &two] {
        for topic in ["a", "b"] {
            let answer = produce_until(node, topic, |answer| answer.status != 200).await;
            answer.refused(409, "FAILED_PRECONDITION");
        }
        let plain = json!({ "topic": "a", "value": "v" });
        let messages = [plain.clone(), labelled("a"), plain, labelled("b")];
        let answer = node.post("/v1/produce/batch", json!({ "messages": messages })).await.is(200);
        let errors: Vec<&Value> = (0..4).map(|at| &answer["results"][at]["error"]).collect();
        let rejected = json!("FAILED_PRECONDITION");
        assert_eq!(errors, [&Value::Null, &rejected, &Value::Null, &rejected]);
    }
    database.batch_execute("DELETE FROM driftq.node WHERE node = 77").await.expect("a change");
    for node in [&one, &two] {
        produce_until(node, "b", |answer| answer.status == 200).await;
    }
}

/// The consumer must not use up attempts: its node cannot read what it receives.
#[tokio::test(flavor = "multi_thread")]
async fn a_labelled_delivery_to_a_consumer_of_an_older_node_is_given_back() {
    let [node] = Broker::nodes::<1>(1).await;
    node.topic("a").await;
    node.post("/v1/produce", labelled("a")).await.is(200);
    let database = database(&node).await;
    let identity =
        "SELECT convert_from(value::text::bytea, 'UTF8') FROM driftq.meta WHERE name = 'identity'";
    let identity: String = database.query_one(identity, &[]).await.expect("a row").get(0);
    let identity: Identity = serde_json::from_str(&identity).expect("an identity");
    let secret = identity.token_keys().expect("keys").peer_secret();
    let epoch: i64 =
        database.query_one("SELECT epoch FROM driftq.shard", &[]).await.expect("a row").get(0);
    let topic = TopicName { namespace: "default".into(), topic: "a".into() };
    let join = Command::Join(Join {
        consumer: ConsumerId(1),
        name: GroupName { topic, group: "g".into() },
        owner: "o".into(),
        lease_ms: None,
        credit: 1,
        credit_bytes: 1 << 20,
        start: Start::Earliest,
        peer: Peer::default(),
    });
    // Without the header for the codec, as the first release sends it.
    let ask = node.ask("POST", "/internal/v1/join").header("driftq-peer", secret);
    let ask = ask.header("driftq-shard", "0").header("driftq-epoch", epoch.to_string());
    let answer = ask.body(pack_call(&join)).send().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let delivery = node.receive("a", "g", "o").await;
    assert_eq!(delivery["attempts"], 1, "{delivery}");
}
