//! Topics: create, list, show, delete.

use serde_json::json;

use crate::broker::Broker;
use crate::verbs::{fields, time, token};

#[tokio::test]
async fn a_topic_is_created_once() {
    let broker = Broker::start().await;
    let body = json!({ "name": "orders", "partitions": 3, "settings": { "lease_ms": 60000 } });
    let created = broker.post("/v1/topics", body.clone()).await.is(201);
    assert_eq!(created, json!({ "status": "created", "name": "orders", "partitions": 3 }));
    let exists = json!({ "status": "exists", "name": "orders", "partitions": 3 });
    assert_eq!(broker.post("/v1/topics", body).await.is(200), exists);
}

#[tokio::test]
async fn an_omitted_setting_is_not_compared() {
    let broker = Broker::start().await;
    broker.topic_with("orders", 3, json!({ "lease_ms": 60000 })).await;
    let exists = json!({ "status": "exists", "name": "orders", "partitions": 3 });
    for same in [
        json!({ "name": "orders", "partitions": 3 }),
        json!({ "name": "orders", "partitions": 3, "settings": { "max_in_flight": 1000 } }),
    ] {
        assert_eq!(broker.post("/v1/topics", same).await.is(200), exists);
    }
}

#[tokio::test]
async fn creating_a_different_topic_is_rejected_with_the_existing_one() {
    let broker = Broker::start().await;
    broker.topic_with("orders", 3, json!({ "lease_ms": 60000 })).await;
    let others = [
        (json!({ "name": "orders" }), "partitions 3, not 1"),
        (json!({ "name": "orders", "partitions": 2 }), "partitions 3, not 2"),
        (
            json!({ "name": "orders", "partitions": 3, "settings": { "lease_ms": 60001 } }),
            "lease_ms 60000, not 60001",
        ),
        (
            json!({ "name": "orders", "partitions": 2, "settings": { "max_in_flight": 7 } }),
            "partitions 3, not 2, max_in_flight 1000, not 7",
        ),
    ];
    for (other, difference) in others {
        let body = broker.post("/v1/topics", other).await.refused(409, "ALREADY_EXISTS");
        assert_eq!(body["message"], format!("the topic already exists with {difference}"));
        assert_eq!(body["current"]["name"], "orders", "{body}");
        assert_eq!(body["current"]["partitions"], 3, "{body}");
        assert_eq!(body["current"]["settings"]["lease_ms"], 60000, "{body}");
    }
}

#[tokio::test]
async fn partitions_default_to_one() {
    let broker = Broker::start().await;
    for (name, body) in [
        ("a", json!({ "name": "a" })),
        ("b", json!({ "name": "b", "partitions": 0 })),
        ("c", json!({ "name": "c", "partitions": null })),
    ] {
        let created = broker.post("/v1/topics", body).await.is(201);
        assert_eq!(created, json!({ "status": "created", "name": name, "partitions": 1 }));
    }
    assert_eq!(broker.post_query("/v1/topics?name=d").await.is(201)["partitions"], 1);
    assert_eq!(broker.post_query("/v1/topics?name=e&partitions=0").await.is(201)["partitions"], 1);
    assert_eq!(broker.post_query("/v1/topics?name=f&partitions=7").await.is(201)["partitions"], 7);
}

#[tokio::test]
async fn a_topic_has_1_to_1024_partitions() {
    let broker = Broker::start().await;
    broker.topic_with("most", 1024, json!({})).await;
    for partitions in [-1, 1025, i64::from(u32::MAX) + 2, i64::MIN] {
        let body = json!({ "name": "t", "partitions": partitions });
        broker.post("/v1/topics", body).await.invalid("partitions");
    }
    broker.post_query("/v1/topics?name=t&partitions=-1").await.invalid("partitions");
}

#[tokio::test]
async fn a_topic_name_has_a_limited_character_set() {
    let broker = Broker::start().await;
    let longest = "a".repeat(250);
    for name in ["a", "9", "A.b-c_d", "dlq", "sys", "dlqs.x", "xdlq.", &longest] {
        broker.post("/v1/topics", json!({ "name": name })).await.is(201);
        assert_eq!(broker.show(name).await["name"], name);
    }
    let too_long = "a".repeat(251);
    let bad = [
        "", ".a", "-a", "_a", "a b", "a/b", "ü", "a\n", "a:b", "dlq.b", "dlq.", "sys.a", "sys.",
        &too_long,
    ];
    for name in bad {
        let answer = broker.post("/v1/topics", json!({ "name": name })).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn topics_are_listed_by_name_including_dead_letter_topics() {
    let broker = Broker::start().await;
    assert_eq!(broker.get("/v1/topics").await.is(200), json!({ "topics": [] }));
    for name in ["refunds", "orders", "Zebra"] {
        broker.topic(name).await;
    }
    let names = json!({ "topics": ["Zebra", "orders", "refunds"] });
    assert_eq!(broker.get("/v1/topics").await.is(200), names);
    broker.produce("orders", "x").await;
    let delivery = broker.receive("orders", "g", "o").await;
    broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    let names = json!({ "topics": ["Zebra", "dlq.orders", "orders", "refunds"] });
    assert_eq!(broker.get("/v1/topics").await.is(200), names);
}

#[tokio::test]
async fn topics_with_details_are_listed_in_pages() {
    let broker = Broker::start().await;
    for name in ["a", "b", "c", "d", "e"] {
        broker.topic(name).await;
    }
    let all = broker.get("/v1/topics?detail=true").await.is(200);
    assert_eq!(fields(&all), ["topics"], "the last page has no cursor");
    assert_eq!(all["topics"].as_array().map(Vec::len), Some(5));
    assert_eq!(all["topics"][0].get("partitions_detail"), None);
    assert_eq!(all["topics"][0]["partitions"], 1);
    let mut names = Vec::new();
    let mut path = "/v1/topics?detail=true&limit=2".to_owned();
    loop {
        let page = broker.get(&path).await.is(200);
        assert_eq!(broker.get(&path).await.is(200), page, "a cursor can be reused");
        let topics = page["topics"].as_array().expect("a list");
        assert!(topics.len() <= 2);
        names.extend(topics.iter().map(|topic| topic["name"].as_str().expect("a name").to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/topics?detail=true&limit=2&cursor={cursor}");
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn a_page_has_1_to_1000_items() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for list in ["/v1/topics?", "/v1/topics?detail=true&", "/v1/topics/t/groups?"] {
        for limit in ["1", "1000"] {
            broker.get(format!("{list}limit={limit}")).await.is(200);
        }
        for limit in ["0", "1001", "-1", "x"] {
            broker.get(format!("{list}limit={limit}")).await.invalid("limit");
        }
        broker.get(format!("{list}cursor=!")).await.invalid("cursor");
    }
}

#[tokio::test]
async fn a_topic_reports_its_settings_and_contents() {
    let broker = Broker::start().await;
    let before = broker.get("/v1/version").await.is(200);
    broker.topic_with("orders", 2, json!({ "lease_ms": 60000, "unkeyed": "first" })).await;
    let produce = |key: &str| json!({ "topic": "orders", "key": key, "value": "12345" });
    broker.post("/v1/produce", produce("")).await.is(200);
    broker.post("/v1/produce", produce("")).await.is(200);
    for group in ["mailer", "biller"] {
        broker.put(format!("/v1/topics/orders/groups/{group}"), json!({})).await.is(201);
    }
    let topic = broker.show("orders").await;
    let names = "bytes changed_settings created_at dead_letters groups messages name partitions \
                 partitions_detail rates settings";
    assert_eq!(fields(&topic).join(" "), names);
    assert!(time(&topic["created_at"]) >= time(&before["started_at"]));
    assert_eq!(topic["name"], "orders");
    assert_eq!(topic["partitions"], 2);
    assert_eq!(topic["changed_settings"], json!(["lease_ms", "unkeyed"]));
    assert_eq!(topic["messages"], 2);
    assert_eq!(topic["bytes"], 10);
    assert_eq!(topic["dead_letters"], 0);
    assert_eq!(topic["groups"], json!(["biller", "mailer"]));
    let partitions = json!([
        { "partition": 0, "first_offset": 0, "next_offset": 2, "messages": 2, "bytes": 10 },
        { "partition": 1, "first_offset": 0, "next_offset": 0, "messages": 0, "bytes": 0 },
    ]);
    assert_eq!(topic["partitions_detail"], partitions);
}

#[tokio::test]
async fn an_unknown_topic_is_not_found() {
    let broker = Broker::start().await;
    let not_found = |answer: &crate::client::Answer| {
        assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], "topic");
    };
    not_found(&broker.get("/v1/topics/t").await);
    not_found(&broker.patch("/v1/topics/t", json!({ "settings": {} })).await);
    not_found(&broker.delete("/v1/topics/t?confirm=t").await);
    not_found(&broker.delete("/v1/topics/t").await);
    not_found(&broker.get("/v1/topics/t/groups").await);
    not_found(&broker.get("/v1/topics/t/groups/g").await);
    not_found(&broker.put("/v1/topics/t/groups/g", json!({})).await);
    not_found(&broker.delete("/v1/topics/t/groups/g?confirm=g").await);
    not_found(&broker.post("/v1/produce", json!({ "topic": "t", "value": "x" })).await);
    not_found(&broker.get("/v1/consume?topic=t&group=g&owner=o").await);
    not_found(&broker.post("/v1/receive", crate::verbs::wanted("t", "g", "o")).await);
    not_found(&broker.post_query("/v1/ack?topic=t&group=g&partition=0&offset=0&owner=o").await);
}

#[tokio::test]
async fn deleting_a_topic_requires_its_name_as_confirmation() {
    let broker = Broker::start().await;
    broker.topic("orders").await;
    for value in ["a", "b", "c"] {
        broker.produce("orders", value).await;
    }
    let first = broker.receive("orders", "biller", "o").await;
    broker.nack(token(&first), json!({ "dead_letter": true })).await.is(204);
    broker.receive("orders", "biller", "o").await;
    for path in
        ["/v1/topics/orders", "/v1/topics/orders?confirm=order", "/v1/topics/orders?confirm="]
    {
        let body = broker.delete(path).await.refused(400, "INVALID_ARGUMENT");
        let message = body["message"].as_str().expect("a message");
        for part in ["3 messages", "1 open", "1 group", "1 dead letter", "?confirm=orders"] {
            assert!(message.contains(part), "{part:?} in {message:?}");
        }
    }
    let deleted = broker.delete("/v1/topics/orders?confirm=orders").await.is(200);
    assert_eq!(deleted, json!({ "status": "deleted", "messages": 3, "dead_letters": 1 }));
    broker.get("/v1/topics/orders").await.refused(404, "NOT_FOUND");
    assert_eq!(broker.get("/v1/topics").await.is(200), json!({ "topics": [] }));
}

#[tokio::test]
async fn a_recreated_topic_is_empty() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "lease_ms": 60000 })).await;
    let key = json!({ "idempotency_key": "k" });
    broker.produce_with("t", "old", key.clone()).await;
    broker.receive("t", "g", "o").await;
    broker.delete("/v1/topics/t?confirm=t").await.is(200);
    broker.topic("t").await;
    let topic = broker.show("t").await;
    assert_eq!(topic["groups"], json!([]));
    assert_eq!(topic["changed_settings"], json!([]));
    assert_eq!(topic["messages"], 0);
    let receipt = broker.produce_with("t", "new", key).await;
    assert_eq!(receipt["offset"], 0);
    assert_eq!(receipt["deduplicated"], false);
    assert_eq!(broker.receive("t", "g", "o").await["value"], "new");
}

#[tokio::test]
async fn tokens_of_a_deleted_topic_are_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    broker.delete("/v1/topics/t?confirm=t").await.is(200);
    for op in ["ack", "nack", "extend"] {
        let answer = broker.post(format!("/v1/{op}"), token(&delivery)).await;
        assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], "topic", "{op}");
    }
    broker.topic("t").await;
    broker.produce("t", "y").await;
    let other = broker.receive("t", "g", "o").await;
    for op in ["ack", "nack", "extend"] {
        broker.post(format!("/v1/{op}"), token(&delivery)).await.refused(404, "NOT_FOUND");
    }
    broker.ack(token(&other)).await.is(204);
}

#[tokio::test]
async fn a_dead_letter_topic_can_be_read_but_not_deleted_on_its_own() {
    let broker = Broker::start().await;
    broker.topic_with("t", 2, json!({})).await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    let dead = broker.show("dlq.t").await;
    assert_eq!(dead["partitions"], 2, "as many partitions as its source");
    assert_eq!(dead["messages"], 1);
    assert_eq!(broker.show("t").await["dead_letters"], 1);
    let answer = broker.delete("/v1/topics/dlq.t?confirm=dlq.t").await;
    answer.refused(409, "FAILED_PRECONDITION");
    broker.delete("/v1/topics/t?confirm=t").await.is(200);
    broker.get("/v1/topics/dlq.t").await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn producing_to_a_dead_letter_topic_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    broker.nack(token(&delivery), json!({ "dead_letter": true })).await.is(204);
    let answer = broker.post("/v1/produce", json!({ "topic": "dlq.t", "value": "x" })).await;
    assert!([400, 404, 409].contains(&answer.status), "{answer:?}");
    assert_eq!(broker.show("dlq.t").await["messages"], 1);
}
