//! Several nodes on one database: each serves some shards, and every node accepts every request.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::token;

const SHARDS: u32 = 8;
/// Topics on nearly all shards.
const TOPICS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

async fn three() -> [Broker; 3] {
    let nodes = Broker::nodes::<3>(SHARDS).await;
    for topic in TOPICS {
        nodes[0].topic(topic).await;
    }
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_accepts_every_request() {
    let [one, two, three] = three().await;
    for node in [&one, &two, &three] {
        let listed = node.get("/v1/topics").await.is(200);
        assert_eq!(listed["topics"], json!(TOPICS));
    }
    for topic in TOPICS {
        let produced = one.produce(topic, topic).await;
        let again = json!({ "topic": topic, "value": "v", "envelope": { "idempotency_key": "k" } });
        two.post("/v1/produce", again.clone()).await.is(200);
        assert_eq!(three.post("/v1/produce", again).await.is(200)["deduplicated"], true);
        let delivery = two.receive(topic, "g", "o").await;
        assert_eq!((&delivery["value"], &delivery["id"]), (&json!(topic), &produced["id"]));
        three.ack(token(&delivery)).await.is(204);
        one.ack(token(&delivery)).await.is(204);
        let refused = two.nack(token(&delivery), json!({})).await;
        refused.refused(409, "STALE_LEASE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn effects_and_commits_work_through_every_node() {
    let [one, two, three] = three().await;
    for (from, to) in TOPICS.iter().zip(TOPICS.iter().rev()) {
        one.produce(from, "order").await;
        let delivery = two.receive(from, "g", "o").await;
        let token = delivery["lease"]["token"].clone();
        let begin = json!({ "lease_token": token, "on_doubt": "park" });
        let begun = three.post("/v1/effects/begin", begin).await.is(200);
        let commit = json!({
            "token": token,
            "effects": [{ "token": begun["token"], "status": "SUCCEEDED", "result": "charged" }],
            "produce": [{ "topic": to, "value": format!("next of {from}") }],
        });
        one.post("/v1/commit", commit.clone()).await.is(200);
        assert_eq!(two.post("/v1/commit", commit).await.is(200)["repeated"], true);
    }
    for (from, to) in TOPICS.iter().zip(TOPICS.iter().rev()) {
        until_stored(&three, to, &format!("next of {from}")).await;
    }
}

async fn until_stored(node: &Client, topic: &str, value: &str) {
    for _ in 0..200 {
        let page = node.get(format!("/v1/topics/{topic}/messages")).await.is(200);
        let messages = page["messages"].as_array().expect("messages").clone();
        match messages.iter().filter(|message| message["value"] == value).count() {
            0 => tokio::time::sleep(Duration::from_millis(25)).await,
            1 => return,
            more => panic!("{value} is stored {more} times in {topic}"),
        }
    }
    panic!("{value} does not arrive in {topic}");
}

/// The consumer stays connected to one node while its shard moves to another.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_follows_its_shard_when_a_node_stops() {
    let [one, two, three] = three().await;
    let mut streams = Vec::new();
    for topic in TOPICS {
        let path = format!("/v1/consume?topic={topic}&group=g&owner=o&lease_ms=30000");
        streams.push(one.ask("GET", path).stream().await);
    }
    let produce_all = async |value: &str| {
        for topic in TOPICS {
            one.produce(topic, value).await;
        }
    };
    let began = Instant::now();
    let mut others = vec![two, three];
    for value in ["first", "second", "third"] {
        produce_all(value).await;
        for stream in &mut streams {
            let delivery = stream.next().await;
            assert_eq!(delivery["value"], value);
            one.ack(token(&delivery)).await.is(204);
        }
        if let Some(other) = others.pop() {
            other.stop().await;
        }
    }
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

/// A batch is stored in order, whichever node received it.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_through_another_node_keeps_its_order() {
    let [one, two] = Broker::nodes::<2>(SHARDS).await;
    one.topic("t").await;
    let values: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for node in [&one, &two] {
        let batch: Vec<Value> =
            values.iter().map(|value| json!({ "topic": "t", "value": value })).collect();
        node.post("/v1/produce/batch", json!({ "messages": batch })).await.is(200);
    }
    let page = two.get("/v1/topics/t/messages?limit=200").await.is(200);
    let stored = page["messages"].as_array().expect("messages");
    let stored: Vec<&str> = stored.iter().filter_map(|message| message["value"].as_str()).collect();
    let twice: Vec<&str> = values.iter().chain(&values).map(String::as_str).collect();
    assert_eq!(stored, twice);
}

/// A poll keeps the messages it requested. Further ones in flight are given back uncounted, from
/// every node.
#[tokio::test(flavor = "multi_thread")]
async fn messages_a_poll_through_another_node_does_not_take_are_given_back() {
    let [one, two] = Broker::nodes::<2>(SHARDS).await;
    one.topic_with("t", 1, json!({ "max_in_flight": 1000, "max_open": 1000 })).await;
    for node in [&one, &two] {
        for number in 0..200 {
            one.produce("t", &number.to_string()).await;
        }
        let began = Instant::now();
        let mut taken = 0;
        while taken < 200 {
            let wanted = json!({ "topic": "t", "group": "g", "owner": "o", "max": 7, "wait_ms": 2000, "lease_ms": 60_000 });
            let received = node.post("/v1/receive", wanted).await.is(200);
            for delivery in received["messages"].as_array().expect("messages") {
                assert_eq!(delivery["attempts"], 1, "{delivery}");
                node.ack(token(delivery)).await.is(204);
                taken += 1;
            }
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
}

/// Transferring large messages takes longer than the reply to the join of the poll.
#[tokio::test(flavor = "multi_thread")]
async fn a_poll_without_waiting_receives_large_messages_from_another_node() {
    let [one, two] = Broker::nodes::<2>(SHARDS).await;
    one.topic("t").await;
    let value = "v".repeat(100_000);
    for node in [&one, &two] {
        for _ in 0..40 {
            one.produce("t", &value).await;
        }
        let mut taken = 0;
        for _ in 0..40 {
            let wanted = json!({ "topic": "t", "group": "g", "owner": "o", "max": 40, "wait_ms": 0, "lease_ms": 60_000 });
            let received = node.post("/v1/receive", wanted).await.is(200);
            let deliveries = received["messages"].as_array().expect("messages");
            if deliveries.is_empty() {
                break;
            }
            for delivery in deliveries {
                assert_eq!(delivery["attempts"], 1, "{}", delivery["offset"]);
                node.ack(token(delivery)).await.is(204);
                taken += 1;
            }
        }
        assert_eq!(taken, 40, "an empty reply means that no message is available");
    }
}

/// Routes between nodes reject clients.
#[tokio::test(flavor = "multi_thread")]
async fn node_routes_reject_clients() {
    let [node] = Broker::nodes::<1>(1).await;
    for secret in ["", "guess"] {
        let ask = node.ask("POST", "/internal/v1/call").header("driftq-peer", secret);
        let answer = ask.header("driftq-shard", "0").header("driftq-epoch", "1").send().await;
        assert_eq!(answer.status, 404);
    }
}

/// Other nodes serve the shards that a node gave up, and a joining node gets its share.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_join_and_leave_under_load() {
    let [one, two] = Broker::nodes::<2>(SHARDS).await;
    for topic in TOPICS {
        one.topic(topic).await;
    }
    let mut produced = 0;
    let mut two = Some(two);
    for round in 0..4 {
        two = match two {
            Some(two) => {
                two.stop().await;
                None
            }
            None => Some(one.another().await),
        };
        for topic in TOPICS {
            one.produce(topic, &format!("{round}")).await;
            produced += 1;
        }
    }
    let stored: usize = futures_util::future::join_all(TOPICS.map(|topic| count(&one, topic)))
        .await
        .into_iter()
        .sum();
    assert_eq!(stored, produced);
}

async fn count(node: &Client, topic: &str) -> usize {
    let page: Value = node.get(format!("/v1/topics/{topic}/messages")).await.is(200);
    page["messages"].as_array().expect("messages").len()
}

/// No node serves these shards. A batch waits as long as a single request, not once per item.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_for_an_unserved_shard_is_rejected_as_one_request() {
    let [node] = Broker::nodes::<1>(SHARDS).await;
    for topic in TOPICS {
        node.topic(topic).await;
    }
    let (client, connection) =
        tokio_postgres::connect(node.url(), tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    // A node that looks alive and does not answer.
    let change = "INSERT INTO driftq.node
                      (node, address, version, rules, draining, joined_at, renewed_at, until)
                  SELECT 77, 'http://127.0.0.1:9', version, rules, draining, joined_at, now(),
                      now() + (until - renewed_at) FROM driftq.node;
                  UPDATE driftq.shard SET epoch = epoch + 1000, node = 77";
    client.batch_execute(change).await.expect("a change");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let messages: Vec<Value> =
        (0..200).map(|at| json!({ "topic": TOPICS[at % TOPICS.len()], "value": "v" })).collect();
    let began = Instant::now();
    let batch = node.post("/v1/produce/batch", json!({ "messages": messages })).await.is(200);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let results = batch["results"].as_array().expect("results");
    assert!(results.iter().all(|one| one["error"] == "UNAVAILABLE"), "{batch}");
}

/// An unreadable row breaks the loaded copy of one shard, which is served again once the row is
/// readable.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_cannot_be_loaded_is_retried() {
    let [node] = Broker::nodes::<1>(1).await;
    node.topic("t").await;
    node.produce("t", "before").await;
    node.receive("t", "g", "o").await;
    let (client, connection) =
        tokio_postgres::connect(node.url(), tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    let lose = "UPDATE driftq.topic SET body = '!' || body;
                UPDATE driftq.shard SET epoch = epoch + 1, node = NULL";
    client.batch_execute(lose).await.expect("a change");
    let until = async |word: &str| {
        for _ in 0..300 {
            if node.get("/v1/readyz").await.json().to_string().contains(word) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("it never becomes {word}: {:?}", node.get("/v1/readyz").await);
    };
    until("is damaged").await;
    let find = "UPDATE driftq.topic SET body = substr(body, 2)";
    client.batch_execute(find).await.expect("a change");
    until("\"ready\"").await;
    node.produce("t", "after").await;
    assert_eq!(count(&node, "t").await, 2);
}
