//! The overview of the server and the list of all groups.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::token;

async fn groups(broker: &Client, query: &str) -> Vec<String> {
    let list = broker.get(&format!("/v1/groups?{query}")).await.is(200);
    let name = |group: &Value| {
        let text = |name: &str| group[name].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text("topic"), text("group"))
    };
    list["groups"].as_array().expect("groups").iter().map(name).collect()
}

#[tokio::test]
async fn the_overview_adds_up_all_topics_and_groups() {
    let broker = Broker::in_directory(|_| ()).await;
    broker.topic("t").await;
    broker.topic("u").await;
    for value in ["a", "b", "c"] {
        broker.produce("t", value).await;
    }
    broker.produce("u", "d").await;
    let held = broker.receive_now("t", "g", "o").await;
    broker.nack(token(&held[0]), json!({ "dead_letter": true })).await.is(204);
    broker.nack(token(&held[1]), json!({ "delay_ms": 60_000 })).await.is(204);
    broker.put("/v1/topics/u/groups/slow", json!({})).await.is(201);
    let shown = broker.get("/v1/overview").await.is(200);
    for (name, count) in [
        ("topics", 2),
        ("groups", 2),
        ("stored_messages", 5),
        ("stored_bytes", 5),
        ("backlog", 3),
        ("leased", 1),
        ("waiting", 1),
        ("dead_letters", 1),
        ("effects_in_doubt", 0),
    ] {
        assert_eq!(shown[name], count, "{name}: {shown}");
    }
    assert!(shown["ready"] == true && shown["nodes"].is_null(), "{shown}");
    assert!(shown["storage_free_bytes"].as_u64() > Some(0), "{shown}");
    let attention = shown["attention"].as_array().expect("a list");
    let kinds: Vec<_> = attention.iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["no_consumers", "dead_letters"], "{shown}");
    assert_eq!((&attention[0]["topic"], &attention[0]["group"]), (&json!("u"), &json!("slow")));
    // Clients that ask together get the same answer, so that a dashboard costs little.
    broker.produce("u", "e").await;
    let again = broker.get("/v1/overview").await.is(200);
    assert_eq!(again, shown);
}

#[tokio::test]
async fn effects_in_doubt_need_attention() {
    let broker = Broker::start().await;
    let began = broker
        .post(
            "/v1/effects/begin",
            json!({ "scope": "op/charge", "key": "k", "request_hash": "h", "on_doubt": "park" }),
        )
        .await
        .is(200);
    broker.finish(&began, json!({ "status": "UNKNOWN" })).await.is(200);
    let shown = broker.get("/v1/overview").await.is(200);
    assert_eq!(shown["effects_parked"], 1, "{shown}");
    assert_eq!(shown["attention"][0]["kind"], "effects_in_doubt", "{shown}");
}

#[tokio::test]
async fn groups_of_all_topics_are_listed_worst_first() {
    let broker = Broker::start().await;
    for topic in ["a", "b", "c"] {
        broker.topic(topic).await;
    }
    for (topic, group) in [("a", "x"), ("b", "y"), ("b", "z"), ("c", "x")] {
        broker
            .put(&format!("/v1/topics/{topic}/groups/{group}"), json!({ "start": "latest" }))
            .await;
    }
    for (topic, count) in [("a", 1), ("b", 3), ("c", 2)] {
        for _ in 0..count {
            broker.produce(topic, "m").await;
        }
    }
    assert_eq!(groups(&broker, "").await, ["a/x", "b/y", "b/z", "c/x"]);
    assert_eq!(groups(&broker, "sort=backlog").await, ["b/y", "b/z", "c/x", "a/x"]);
    assert_eq!(groups(&broker, "sort=oldest&limit=2").await, ["a/x", "b/y"]);
    assert_eq!(groups(&broker, "q=x").await, ["a/x", "c/x"]);
    let first = broker.get("/v1/groups?limit=3").await.is(200);
    let cursor = first["next_cursor"].as_str().expect("there is another page");
    assert_eq!(groups(&broker, &format!("limit=3&cursor={cursor}")).await, ["c/x"]);
    broker
        .get(&format!("/v1/groups?sort=backlog&cursor={cursor}"))
        .await
        .refused(400, "INVALID_ARGUMENT");
}
