//! Produce requests with a nonce, which can be sent again.

use serde_json::{Value, json};

use crate::broker::Broker;

/// The id and `deduplicated` of each result.
fn ids(answer: &Value) -> Vec<(String, bool)> {
    let results = answer["results"].as_array().expect("a list").iter();
    let id = |result: &Value| {
        let id = result["id"].as_str().unwrap_or_else(|| panic!("{result}"));
        (id.to_owned(), result["deduplicated"] == true)
    };
    results.map(id).collect()
}

#[tokio::test]
async fn a_request_can_be_sent_again_after_a_restart() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    let one = json!({ "topic": "t", "value": "a", "nonce": "n1" });
    let first = broker.post("/v1/produce", one.clone()).await.is(200);
    assert_eq!(first["deduplicated"], false);
    let messages = json!([{ "topic": "t", "value": "b" }, { "topic": "t", "value": "c" }]);
    let batch = json!({ "nonce": "n2", "messages": messages });
    let stored = ids(&broker.post("/v1/produce/batch", batch.clone()).await.is(200));
    let broker = broker.restart().await;
    let again = broker.post("/v1/produce", one).await.is(200);
    assert_eq!((&again["id"], &again["deduplicated"]), (&first["id"], &json!(true)));
    let repeated = ids(&broker.post("/v1/produce/batch", batch).await.is(200));
    assert!(repeated.iter().all(|(_, is_repeated)| *is_repeated), "{repeated:?}");
    assert!(repeated.iter().map(|of| &of.0).eq(stored.iter().map(|of| &of.0)));
    assert_eq!(broker.get("/v1/topics/t").await.is(200)["messages"], 3);
}

#[tokio::test]
async fn another_request_with_the_nonce_is_a_conflict() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let produce = |value| json!({ "topic": "t", "value": value, "nonce": "n" });
    broker.post("/v1/produce", produce("a")).await.is(200);
    let refused = broker.post("/v1/produce", produce("b")).await.refused(422, "CONFLICT");
    assert_eq!(refused["field"], "request");
    let batch = json!({ "nonce": "n", "messages": [{ "topic": "t", "value": "b" }] });
    let answer = broker.post("/v1/produce/batch", batch).await.is(200);
    assert_eq!(answer["results"][0]["error"], "CONFLICT");
    // The query form.
    let query = "/v1/produce?topic=t&value=a&nonce=n";
    assert_eq!(broker.ask("POST", query).send().await.is(200)["deduplicated"], true);
}

#[tokio::test]
async fn a_rejected_item_is_decided_again() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let batch = json!({ "nonce": "n", "messages": [
        { "topic": "t", "value": "a" },
        { "topic": "later", "value": "b" },
        { "topic": "t" },
        { "topic": "t", "value": "c", "envelope": { "idempotency_key": "k" } },
    ] });
    let answer = broker.post("/v1/produce/batch", batch.clone()).await.is(200);
    assert_eq!(answer["accepted"], 2, "{answer}");
    assert_eq!(answer["results"][1]["error"], "NOT_FOUND");
    assert_eq!(answer["results"][2]["error"], "INVALID_ARGUMENT");
    broker.topic("later").await;
    let answer = broker.post("/v1/produce/batch", batch).await.is(200);
    assert_eq!(answer["accepted"], 3, "{answer}");
    let results = &answer["results"];
    for (at, is_repeated) in [(0, true), (1, false), (3, true)] {
        assert_eq!(results[at]["deduplicated"], is_repeated, "{answer}");
    }
    assert_eq!(broker.get("/v1/topics/t").await.is(200)["messages"], 2);
}

#[tokio::test]
async fn a_request_for_many_shards_is_stored_once() {
    let broker = Broker::with(|config| config.shards = Some(4)).await;
    let topics: Vec<String> = (0..8).map(|number| format!("t{number}")).collect();
    for topic in &topics {
        broker.topic(topic).await;
    }
    let message = |number: usize| {
        let (topic, target) = (&topics[number % 8], &topics[(number + 3) % 8]);
        let mut message = json!({ "topic": topic, "value": number.to_string() });
        match number % 3 {
            0 => message["envelope"] = json!({ "target_topic": target }),
            1 => {
                let key = number.to_string();
                message["envelope"] = json!({ "target_topic": target, "idempotency_key": key });
            }
            _ => {}
        }
        message
    };
    let messages: Vec<Value> = (0..300).map(message).collect();
    let batch = json!({ "nonce": "n", "messages": messages });
    let first = ids(&broker.post("/v1/produce/batch", batch.clone()).await.is(200));
    assert!(first.iter().all(|(_, is_repeated)| !is_repeated));
    let again = ids(&broker.post("/v1/produce/batch", batch).await.is(200));
    assert!(again.iter().all(|(_, is_repeated)| *is_repeated));
    assert!(again.iter().map(|of| &of.0).eq(first.iter().map(|of| &of.0)));
    let shown = broker.get("/v1/topics?detail=true").await.is(200);
    let stored = shown["topics"].as_array().expect("a list").iter();
    assert_eq!(stored.map(|topic| topic["messages"].as_u64().expect("a number")).sum::<u64>(), 300);
}

#[tokio::test]
async fn an_invalid_nonce_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for nonce in [String::new(), "x".repeat(65)] {
        let produce = json!({ "topic": "t", "value": "a", "nonce": nonce });
        let refused = broker.post("/v1/produce", produce).await.refused(400, "INVALID_ARGUMENT");
        assert_eq!(refused["field"], "nonce");
    }
    let item = json!({ "topic": "t", "value": "a", "nonce": "n" });
    let batch = json!({ "messages": [item] });
    let answer = broker.post("/v1/produce/batch", batch).await.is(200);
    assert_eq!(answer["results"][0]["field"], "nonce");
    let v1 = Broker::v1().await;
    v1.topic("t").await;
    let refused = v1.post("/v1/produce", item).await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(refused["message"], "nonce: unknown field under the profile v1");
}
