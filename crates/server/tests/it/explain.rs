//! Explanations of messages, groups and effects.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::{time, token, wanted, with};

/// Requests an explanation and checks that it has a sentence for humans.
async fn explain(broker: &Client, query: &str) -> Value {
    broker.get(format!("/v1/explain?{query}")).await.is(200)
}

fn message(value: &Value) -> &str {
    value["summary"].as_str().expect("a sentence")
}

#[tokio::test]
async fn a_message_is_explained_by_id_position_or_token() {
    let broker = Broker::start().await;
    broker.topic("orders").await;
    let envelope = json!({ "run_id": "run_1", "idempotency_key": "order-77" });
    let receipt = broker.produce_with("orders", "x", envelope).await;
    let delivery = broker.receive("orders", "biller", "worker-a").await;
    let id = receipt["id"].as_str().expect("an id");
    let lease = delivery["lease"]["token"].as_str().expect("a token");
    let by_id = explain(&broker, &format!("id={id}")).await;
    for query in ["topic=orders&partition=0&offset=0".to_owned(), format!("token={lease}")] {
        assert_eq!(explain(&broker, &query).await["id"], by_id["id"], "{query}");
    }
    assert_eq!(by_id["what"], "message");
    assert_eq!(by_id["id"], id);
    assert_eq!(by_id["topic"], "orders");
    assert_eq!((&by_id["partition"], &by_id["offset"]), (&json!(0), &json!(0)));
    assert_eq!(by_id["produced_at"], delivery["produced_at"]);
    assert_eq!(by_id["run_id"], "run_1");
    assert_eq!(by_id["idempotency_key"], "order-77");
    assert_eq!(by_id["history"], "not kept");
    let group = &by_id["groups"][0];
    assert_eq!(group["group"], "biller");
    assert_eq!(group["state"], "leased");
    assert_eq!(group["attempts"], 1);
    assert_eq!(group["max_attempts"], 20);
    assert_eq!(group["last_owner"], "worker-a");
    assert!(message(group).contains("worker-a"), "{group}");
    assert!(group["lease"].is_object(), "{group}");
}

#[tokio::test]
async fn every_state_of_a_message_is_explained() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for value in ["settled", "waiting", "dead", "leased", "ready"] {
        broker.produce("t", value).await;
    }
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(broker.receive("t", "g", "o").await);
    }
    broker.ack(token(&held[0])).await.is(204);
    let nack = json!({ "reason": "timeout", "delay_ms": 60_000 });
    broker.nack(token(&held[1]), nack).await.is(204);
    broker.nack(token(&held[2]), json!({ "dead_letter": true, "reason": "bad" })).await.is(204);
    for (offset, state) in ["settled", "waiting", "dead", "leased", "ready"].iter().enumerate() {
        let shown = explain(&broker, &format!("topic=t&partition=0&offset={offset}")).await;
        let group = &shown["groups"][0];
        assert_eq!(group["state"], *state, "{group}");
        assert!(!message(group).is_empty());
        match *state {
            "waiting" => {
                assert_eq!(group["last_error"], "timeout");
                time(&group["next_attempt_at"]);
            }
            "dead" => {
                assert_eq!(group["last_error"], "bad");
                assert!(group["dead_letter"].is_string(), "{group}");
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_group_without_deliveries_is_explained() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
    let pause = json!({ "reason": "bad deploy 41f2", "by": "ops" });
    broker.post("/v1/topics/t/groups/g/pause", pause).await.is(200);
    let shown = explain(&broker, "topic=t&group=g").await;
    assert_eq!(shown["what"], "group");
    for part in ["paused", "ops", "bad deploy 41f2"] {
        assert!(message(&shown).contains(part), "{part:?} in {shown}");
    }
    assert_eq!(shown["partitions"][0]["blocked"], "paused");
    assert_eq!(shown["consumers"], json!([]));
}

#[tokio::test]
async fn explaining_an_unknown_resource_is_not_found() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for (query, kind) in [
        ("topic=t&partition=0&offset=0", "message"),
        ("topic=nowhere&partition=0&offset=0", "topic"),
        ("topic=t&group=absent", "group"),
        ("topic=nowhere&group=g", "topic"),
    ] {
        let answer = broker.get(format!("/v1/explain?{query}")).await;
        assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], kind, "{query}");
    }
}

#[tokio::test]
async fn invalid_combinations_of_parameters_are_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let now = with(wanted("t", "g", "o"), json!({}));
    let delivery = broker.receive_with(now).await;
    let id = delivery["id"].as_str().expect("an id");
    for query in [
        String::new(),
        "topic=t".to_owned(),
        "topic=t&partition=0".to_owned(),
        "group=g".to_owned(),
        format!("id={id}&topic=t"),
        "id=nonsense".to_owned(),
        "token=nonsense".to_owned(),
        "topic=t&group=g&bogus=1".to_owned(),
    ] {
        let answer = broker.get(format!("/v1/explain?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {answer:?}");
    }
}

#[tokio::test]
async fn an_effect_is_explained_by_name_and_with_its_message() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce_with("t", "x", json!({ "idempotency_key": "k" })).await;
    let delivery = broker.receive("t", "g", "o").await;
    let begin = json!({ "lease_token": delivery["lease"]["token"], "on_doubt": "park" });
    broker.post("/v1/effects/begin", begin).await.is(200);
    let effect = broker.get("/v1/explain?scope=effect/t/g&key=k").await.is(200);
    assert_eq!(
        (&effect["what"], &effect["effect"]["state"]),
        (&json!("effect"), &json!("IN_PROGRESS"))
    );
    assert!(
        effect["summary"].as_str().is_some_and(|message| message.contains("then it is in doubt"))
    );
    let message = broker.get("/v1/explain?topic=t&partition=0&offset=0").await.is(200);
    let shown = json!([{ "scope": "effect/t/g", "key": "k", "state": "IN_PROGRESS", "fence": 1 }]);
    assert_eq!(message["groups"][0]["effects"], shown);
    for wrong in
        ["scope=op/x", "key=k", "scope=op/x&key=k&topic=t", "tenant_id=a&id=m_aa", "scope=x&key=k"]
    {
        broker.get(format!("/v1/explain?{wrong}")).await.refused(400, "INVALID_ARGUMENT");
    }
    broker.get("/v1/explain?scope=op/x&key=k").await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_topic_with_history_returns_the_events_of_a_message() {
    let broker = Broker::start().await;
    let settings = json!({ "history": true, "retry_policy": { "max_attempts": 5, "backoff_ms": 0, "max_backoff_ms": 0 } });
    broker.post("/v1/topics", json!({ "name": "t", "settings": settings })).await.is(201);
    broker.produce("t", "x").await;
    let first = broker.receive("t", "g", "worker-a").await;
    let nack = json!({ "token": first["lease"]["token"], "reason": "card declined" });
    broker.post("/v1/nack", nack).await.is(204);
    let second = broker.receive("t", "g", "worker-b").await;
    broker.ack(json!({ "token": second["lease"]["token"] })).await.is(204);
    let explained = explain(&broker, "topic=t&partition=0&offset=0").await;
    let told: Vec<(&Value, &Value)> = explained["history"]
        .as_array()
        .expect("events")
        .iter()
        .map(|event| (&event["event"], &event["attempt"]))
        .collect();
    let expected = [("delivered", 1), ("nacked", 1), ("delivered", 2), ("acked", 2)]
        .map(|(event, attempt)| (json!(event), json!(attempt)));
    assert_eq!(told, expected.iter().map(|(event, attempt)| (event, attempt)).collect::<Vec<_>>());
    assert_eq!(explained["history"][0]["owner"], "worker-a");
    assert_eq!(explained["history"][1]["error"], "card declined");
}

/// Workers that poll are not connected while they work. Before, almost every look at such a group
/// reported that it has no consumer.
#[tokio::test]
async fn a_group_of_polling_workers_has_consumers_between_their_polls() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for value in 0..10 {
        broker.produce("t", &value.to_string()).await;
    }
    for _ in 0..5 {
        let delivery = broker.receive("t", "g", "w").await;
        let working = explain(&broker, "topic=t&group=g").await;
        assert_eq!(working["partitions"][0]["blocked"], "consumers_full", "{working}");
        assert!(message(&working).contains("every consumer is busy"), "{working}");
        let [consumer] = &working["consumers"].as_array().expect("consumers")[..] else {
            panic!("{working}")
        };
        assert_eq!((&consumer["owner"], &consumer["leased"]), (&json!("w"), &json!(1)));
        broker.ack(crate::verbs::token(&delivery)).await.is(204);
        let between = explain(&broker, "topic=t&group=g").await;
        assert!(!message(&between).contains("no consumer"), "{between}");
    }
    let group = broker.group("t", "g").await;
    assert_eq!(group["consumers"][0]["settled_1m"], 5, "{group}");
    // The oldest message was not delivered yet.
    let oldest =
        &broker.get("/v1/topics/t/messages?partition=0&from=5").await.is(200)["messages"][0];
    assert_eq!(group["oldest_unsettled_at"], oldest["produced_at"], "{group}");
    assert_eq!(group["partitions"][0]["oldest_unsettled_at"], oldest["produced_at"]);
}
