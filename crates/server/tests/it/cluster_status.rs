//! The state of a cluster, asked from any of its nodes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::token;

fn sum(series: &Value, name: &str) -> u64 {
    let values = series["series"][name].as_array().expect("an array");
    values.iter().filter_map(Value::as_u64).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_shows_the_series_and_totals_of_all() {
    let [one, two] = Broker::nodes::<2>(8).await;
    let topics = ["a", "b", "c", "d", "e", "f"];
    for topic in topics {
        one.topic(topic).await;
        one.produce(topic, "m").await;
        let got = two.receive(topic, "g", "o").await;
        two.ack(token(&got)).await.is(204);
    }
    let began = Instant::now();
    for node in [&one, &two] {
        for topic in topics {
            let path = format!("/v1/series?topic={topic}&group=g");
            while sum(&node.get(&path).await.is(200), "acked") < 1 {
                assert!(began.elapsed() < Duration::from_secs(20), "{topic}");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        let shown = node.get("/v1/overview").await.is(200);
        assert_eq!((&shown["topics"], &shown["groups"]), (&json!(6), &json!(6)), "{shown}");
        let nodes = shown["nodes"].as_array().expect("the nodes");
        assert!(nodes.iter().all(|node| node["state"] == "active"), "{shown}");
        assert_eq!((nodes.len(), &shown["attention"]), (2, &json!([])), "{shown}");
        let groups = node.get("/v1/groups?sort=backlog").await.is(200);
        assert_eq!(groups["groups"].as_array().map(Vec::len), Some(6));
    }
}

async fn connections(node: &Client, topic: &str) -> usize {
    let group = node.get(format!("/v1/topics/{topic}/groups/g")).await;
    let consumers = group.json()["consumers"].as_array().cloned().unwrap_or_default();
    let of = |consumer: &Value| consumer["connections"].as_array().map_or(0, Vec::len);
    consumers.iter().map(of).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_leaves_on_every_node() {
    let [one, two] = Broker::nodes::<2>(8).await;
    let topics = ["a", "b", "c", "d"];
    let mut polls = Vec::new();
    for (at, topic) in topics.into_iter().enumerate() {
        one.topic(topic).await;
        let node = Client::clone(if at % 2 == 0 { &one } else { &two });
        let poll = json!({
            "topic": topic, "group": "g", "owner": "o", "wait_ms": 30_000, "worker": { "id": "w" },
        });
        polls.push(tokio::spawn(async move { node.post("/v1/receive", poll).await.is(200) }));
    }
    for topic in topics {
        while connections(&one, topic).await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let began = Instant::now();
    two.post("/v1/leave", json!({ "worker": "w" })).await.is(204);
    for poll in polls {
        assert_eq!(poll.await.expect("it returns")["messages"], json!([]));
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    for topic in topics {
        one.produce(topic, "m").await;
        let poll = json!({ "topic": topic, "group": "g", "owner": "o", "wait_ms": 0, "worker": { "id": "w" } });
        assert_eq!(two.post("/v1/receive", poll).await.is(200)["messages"], json!([]));
        assert_eq!(one.receive(topic, "g", "other").await["attempts"], 1);
    }
}
