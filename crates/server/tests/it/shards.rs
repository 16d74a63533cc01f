//! Several shards on one node: every request is routed to its shard, and messages a commit produces
//! arrive once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;

const SHARDS: u32 = 5;

async fn sharded() -> Broker {
    Broker::with(|config| config.shards = Some(SHARDS)).await
}

/// Topics on more than one shard.
const TOPICS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

async fn with_topics() -> Broker {
    let broker = sharded().await;
    for topic in TOPICS {
        broker.topic(topic).await;
    }
    broker
}

async fn values(broker: &Client, topic: &str) -> Vec<Value> {
    let page = broker.get(format!("/v1/topics/{topic}/messages")).await.is(200);
    let messages = page["messages"].as_array().expect("messages");
    messages.iter().map(|message| message["value"].clone()).collect()
}

/// Waits until `count` messages have arrived.
async fn arrives(broker: &Client, topic: &str, count: usize) -> Vec<Value> {
    for _ in 0..200 {
        let values = values(broker, topic).await;
        if values.len() >= count {
            return values;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{topic} did not receive {count} messages");
}

#[tokio::test]
async fn topics_on_all_shards_can_be_listed_and_used() {
    let broker = with_topics().await;
    let listed = broker.get("/v1/topics").await.is(200);
    assert_eq!(listed["topics"], json!(TOPICS));
    for topic in TOPICS {
        broker.produce(topic, topic).await;
        let delivery = broker.receive(topic, "g", "o").await;
        assert_eq!(delivery["value"], topic);
        let id = delivery["id"].as_str().expect("an id");
        let explained = broker.get(format!("/v1/explain?id={id}")).await.is(200);
        assert_eq!(explained["topic"], topic);
        broker.ack(json!({ "token": delivery["lease"]["token"] })).await.is(204);
    }
}

#[tokio::test]
async fn effects_on_all_shards_can_be_read_and_listed() {
    let broker = sharded().await;
    for number in 0..30 {
        let begin = json!({ "scope": "op/x", "key": format!("k{number}"), "on_doubt": "park" });
        let began = broker.post("/v1/effects/begin", begin.clone()).await.is(200);
        assert_eq!(began["fence"], 1);
        broker.post("/v1/effects/begin", begin).await.refused(409, "IN_PROGRESS");
        if number % 3 == 0 {
            let finish = json!({ "token": began["token"], "status": "SUCCEEDED" });
            broker.post("/v1/effects/finish", finish).await.is(200);
        }
    }
    let (mut keys, mut cursor) = (Vec::new(), String::new());
    for _ in 0..20 {
        let path = format!("/v1/effects?state=IN_PROGRESS&limit=7{cursor}");
        let page = broker.get(path).await.is(200);
        let effects = page["effects"].as_array().expect("effects");
        keys.extend(effects.iter().map(|effect| effect["key"].clone().to_string()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 20);
}

#[tokio::test]
async fn a_commit_produces_to_every_shard_once() {
    let broker = with_topics().await;
    broker.produce("a", "x").await;
    let delivery = broker.receive("a", "g", "o").await;
    let produce: Vec<Value> =
        TOPICS.iter().map(|topic| json!({ "topic": topic, "value": "next" })).collect();
    let commit = json!({ "token": delivery["lease"]["token"], "produce": produce });
    let answer = broker.post("/v1/commit", commit.clone()).await.is(200);
    let statuses: Vec<&str> = answer["produced"]
        .as_array()
        .expect("receipts")
        .iter()
        .filter_map(|one| one["status"].as_str())
        .collect();
    assert!(statuses.contains(&"queued") && statuses.contains(&"produced"), "{statuses:?}");
    assert_eq!(broker.post("/v1/commit", commit).await.is(200)["repeated"], true);
    // Messages from one shard to another arrive in order, so once the last has arrived, all have.
    broker.produce("a", "y").await;
    let delivery = broker.receive("a", "g", "o").await;
    let last: Vec<Value> =
        TOPICS.iter().map(|topic| json!({ "topic": topic, "value": "last" })).collect();
    let commit = json!({ "token": delivery["lease"]["token"], "produce": last });
    broker.post("/v1/commit", commit).await.is(200);
    for topic in &TOPICS[1..] {
        assert_eq!(arrives(&broker, topic, 2).await, ["next", "last"], "{topic}");
    }
}

#[tokio::test]
async fn a_message_rejected_by_another_shard_is_dead_lettered_at_the_source() {
    let broker = with_topics().await;
    broker.produce("a", "x").await;
    let delivery = broker.receive("a", "g", "o").await;
    let token = &delivery["lease"]["token"];
    for number in 0..10 {
        let none = json!([{ "topic": format!("no{number}"), "value": "v" }]);
        let commit = json!({ "token": token, "produce": none });
        let refused = broker.post("/v1/commit", commit).await.refused(404, "NOT_FOUND");
        assert_eq!((&refused["kind"], &refused["index"]), (&json!("topic"), &json!(0)));
    }
    let keyed = json!({ "idempotency_key": "k" });
    for topic in &TOPICS[1..] {
        broker.produce_with(topic, "first", keyed.clone()).await;
    }
    let others = TOPICS[1..].iter();
    let others = others.map(|topic| json!({ "topic": topic, "value": "other", "envelope": keyed }));
    let mut queued = 0;
    for one in others {
        let commit = json!({ "token": token, "produce": [one] });
        let answer = broker.post("/v1/commit", commit).await;
        if answer.status == 200 {
            queued += 1;
            break;
        }
        answer.refused(422, "CONFLICT");
    }
    assert_eq!(queued, 1, "one of five is on another shard");
    for _ in 0..200 {
        let dead = broker.get("/v1/dlq/a").await.is(200);
        if let Some(letter) = dead["dead_letters"].get(0) {
            assert_eq!(letter["dlq"]["reason"], "undeliverable");
            assert_eq!(letter["dlq"]["group"], "g");
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("it was not dead-lettered");
}

#[tokio::test]
async fn messages_in_the_outbox_arrive_after_a_restart() {
    let broker = Broker::on_disk(|config| config.shards = Some(SHARDS)).await;
    for topic in TOPICS {
        broker.topic(topic).await;
    }
    broker.produce("a", "x").await;
    let delivery = broker.receive("a", "g", "o").await;
    let produce: Vec<Value> =
        TOPICS.iter().map(|topic| json!({ "topic": topic, "value": "next" })).collect();
    let commit = json!({ "token": delivery["lease"]["token"], "produce": produce });
    broker.post("/v1/commit", commit.clone()).await.is(200);
    let broker = broker.restart().await;
    assert_eq!(broker.post("/v1/commit", commit).await.is(200)["repeated"], true);
    for topic in &TOPICS[1..] {
        assert_eq!(arrives(&broker, topic, 1).await, ["next"], "{topic}");
    }
}

/// Two topics on different shards.
async fn apart(broker: &Client) -> (&'static str, &'static str) {
    for to in &TOPICS[1..] {
        let routed = json!({ "topic": "a", "value": "probe", "envelope": { "target_topic": to } });
        let id = broker.post("/v1/produce", routed).await.is(200)["id"].clone();
        let local = broker.produce("a", "probe").await["id"].clone();
        // The id begins with the shard, so ids of one shard have the same prefix.
        if id.as_str().expect("an id")[..8] != local.as_str().expect("an id")[..8] {
            return ("a", to);
        }
    }
    panic!("all are on one shard");
}

#[tokio::test]
async fn a_message_routed_to_another_shard_is_stored_once() {
    let broker = Broker::on_disk(|config| config.shards = Some(SHARDS)).await;
    for topic in TOPICS {
        broker.topic(topic).await;
    }
    let (from, to) = apart(&broker).await;
    let before = values(&broker, to).await.len();
    let routed = |value: &str, to: &str| {
        let envelope = json!({ "idempotency_key": "k", "target_topic": to });
        json!({ "topic": from, "value": value, "envelope": envelope })
    };
    // A rejected request stores no key.
    broker.post("/v1/produce", routed("x", "nowhere")).await.refused(404, "NOT_FOUND");
    let mut wrong = routed("x", to);
    wrong["envelope"]["retry_policy"] = json!({ "max_attempts": 0 });
    broker.post("/v1/produce", wrong).await.refused(400, "INVALID_ARGUMENT");
    let first = broker.post("/v1/produce", routed("x", to)).await.is(200);
    assert_eq!((&first["topic"], &first["final_topic"]), (&json!(from), &json!(to)));
    let again = broker.post("/v1/produce", routed("x", to)).await.is(200);
    assert_eq!((&again["id"], &again["deduplicated"]), (&first["id"], &json!(true)));
    broker.post("/v1/produce", routed("y", to)).await.refused(422, "CONFLICT");
    broker.post("/v1/produce", routed("x", from)).await.refused(422, "CONFLICT");
    let broker = broker.restart().await;
    let batch = json!({ "messages": [routed("x", to), routed("x", to)] });
    let batch = broker.post("/v1/produce/batch", batch).await.is(200);
    for index in 0..2 {
        assert_eq!(batch["results"][index]["id"], first["id"], "{batch}");
    }
    let taken = broker.get(format!("/v1/effects?scope=produce/{from}&key=k")).await.is(200);
    assert_eq!(taken["result"]["id"], first["id"]);
    assert_eq!(values(&broker, to).await.len(), before + 1);
}

/// The same requests get the same replies wherever the topics are stored.
#[tokio::test]
async fn a_rejected_message_stores_no_key_on_any_shard() {
    let broker = with_topics().await;
    for to in TOPICS {
        let full = json!({ "settings": { "max_backlog_messages": 1 } });
        broker.patch(format!("/v1/topics/{to}"), full).await.is(200);
        broker.produce(to, "fills it").await;
        let routed = |value: &str| {
            let envelope = json!({ "idempotency_key": to, "target_topic": to });
            json!({ "topic": "a", "value": value, "envelope": envelope })
        };
        broker.post("/v1/produce", routed("x")).await.refused(429, "RESOURCE_EXHAUSTED");
        let room = json!({ "settings": { "max_backlog_messages": null } });
        broker.patch(format!("/v1/topics/{to}"), room).await.is(200);
        let stored = broker.post("/v1/produce", routed("y")).await.is(200);
        assert_eq!(stored["deduplicated"], false, "{to}");
        broker.post("/v1/produce", routed("x")).await.refused(422, "CONFLICT");
        assert_eq!(values(&broker, to).await, ["fills it", "y"]);
    }
}
