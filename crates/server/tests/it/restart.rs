//! A restarted server has everything it ever acknowledged.

use serde_json::json;

use driftq_server::Server;
use driftq_server::config::{Config, EngineConfig};

use crate::broker::Broker;
use crate::verbs::{time, token, without_rates};

#[tokio::test]
async fn topics_groups_and_settings_survive_a_restart() {
    let broker = Broker::durable().await;
    broker.topic_with("t", 2, json!({ "lease_ms": 60_000, "unkeyed": "spread" })).await;
    broker.produce("t", "a").await;
    broker.put("/v1/topics/t/groups/late", json!({ "start": "latest" })).await.is(201);
    broker.produce("t", "b").await;
    let topic = without_rates(broker.show("t").await);
    let group = broker.group("t", "late").await;
    let broker = broker.restart().await;
    assert_eq!(without_rates(broker.show("t").await), topic);
    let after = broker.group("t", "late").await;
    for field in ["created_at", "backlog", "open", "oldest_unsettled_at"] {
        assert_eq!(after[field], group[field], "{field}");
    }
    assert_eq!(broker.receive("t", "late", "o").await["value"], "b");
    assert!(broker.receive_now("t", "late", "o").await.is_empty());
}

#[tokio::test]
async fn idempotency_keys_survive_a_restart() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    let key = json!({ "idempotency_key": "k" });
    let first = broker.produce_with("t", "x", key.clone()).await;
    let broker = broker.restart().await;
    let again = broker.produce_with("t", "x", key.clone()).await;
    assert_eq!(again["deduplicated"], true);
    assert_eq!(again["id"], first["id"]);
    let other = json!({ "topic": "t", "value": "y", "envelope": key });
    broker.post("/v1/produce", other).await.refused(422, "CONFLICT");
}

#[tokio::test]
async fn attempts_errors_and_delays_survive_a_restart() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    broker.nack(token(&delivery), json!({ "reason": "card", "delay_ms": 3_000 })).await.is(204);
    let due = broker.group("t", "g").await["partitions"][0]["next_retry_at"].clone();
    let broker = broker.restart().await;
    assert_eq!(broker.group("t", "g").await["partitions"][0]["next_retry_at"], due);
    let again = broker.receive("t", "g", "o").await;
    assert_eq!(again["attempts"], 2);
    assert_eq!(again["last_error"], "card");
    assert!(time(&again["lease"]["expires_at"]) >= time(&due) + 30_000, "not before it was due");
}

#[tokio::test]
async fn envelope_trace_and_bytes_survive_a_restart() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let envelope = json!({ "run_id": "r", "deadline": "2999-12-21T12:00:00.250Z",
        "retry_policy": { "max_attempts": 5, "backoff_ms": 1 } });
    let body = json!({ "topic": "t", "key": "k", "value_base64": "/wD+", "envelope": envelope });
    let ask = broker.ask("POST", "/v1/produce").json(&body).header("traceparent", parent);
    ask.send().await.is(200);
    let broker = broker.restart().await;
    let delivery = broker.receive("t", "g", "o").await;
    assert_eq!(delivery["value_base64"], "/wD+");
    assert_eq!(delivery["key"], "k");
    assert_eq!(delivery["envelope"], envelope);
    assert_eq!(delivery["trace"], json!({ "traceparent": parent }));
}

#[tokio::test]
async fn settled_messages_stay_settled_after_a_restart() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let first = broker.receive("t", "g", "o").await;
    broker.nack(token(&first), json!({ "delay_ms": 0 })).await.is(204);
    let second = broker.receive("t", "g", "o").await;
    broker.ack(token(&second)).await.is(204);
    let broker = broker.restart().await;
    assert_eq!(broker.group("t", "g").await["backlog"], 0);
    broker.ack(token(&second)).await.is(204);
    assert_eq!(broker.ack(token(&first)).await.refused(409, "STALE_LEASE")["state"], "settled");
}

#[tokio::test]
async fn deleted_topics_and_groups_stay_deleted_after_a_restart() {
    let broker = Broker::durable().await;
    for topic in ["t", "u"] {
        broker.topic(topic).await;
        broker.produce(topic, "x").await;
        broker.receive(topic, "g", "o").await;
    }
    broker.delete("/v1/topics/t?confirm=t").await.is(200);
    broker.delete("/v1/topics/u/groups/g?confirm=g").await.is(200);
    let broker = broker.restart().await;
    assert_eq!(broker.get("/v1/topics").await.is(200), json!({ "topics": ["u"] }));
    assert_eq!(broker.show("u").await["groups"], json!([]));
}

#[tokio::test]
async fn ids_and_offsets_are_never_reused_after_a_restart() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    let first = broker.produce("t", "x").await;
    let broker = broker.restart().await;
    let second = broker.produce("t", "x").await;
    assert_eq!((&first["offset"], &second["offset"]), (&json!(0), &json!(1)));
    broker.delete("/v1/topics/t?confirm=t").await.is(200);
    let broker = broker.restart().await;
    broker.topic("t").await;
    let third = broker.produce("t", "x").await;
    assert_ne!(first["id"], third["id"]);
    assert_ne!(second["id"], third["id"]);
}

#[tokio::test]
async fn a_stopped_server_has_released_its_directory() {
    let data = tempfile::TempDir::new().expect("a directory of its own");
    let mut config = Config::local(EngineConfig::Sqlite(data.path().to_owned()));
    config.listen = ([127, 0, 0, 1], 0).into();
    for _ in 0..10 {
        Server::start(config.clone()).await.expect("the directory is not locked").stop().await;
    }
}

#[tokio::test]
async fn a_poll_without_waiting_returns_messages_from_disk() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    broker.produce("t", "a").await;
    broker.produce("t", "b").await;
    broker.receive("t", "g", "o").await;
    let broker = broker.restart().await;
    assert_eq!(broker.receive_now("t", "g", "o").await.len(), 1);
}

#[tokio::test]
async fn repeated_polls_without_waiting_return_all_messages_from_disk() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    broker.produce("t", "a").await;
    broker.produce("t", "b").await;
    broker.receive("t", "g", "o").await;
    let broker = broker.restart().await;
    for _ in 0..1_000 {
        if !broker.receive_now("t", "g", "o").await.is_empty() {
            return;
        }
    }
    panic!("never delivered");
}
