//! Workers name themselves, and leave before they end.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::token;

#[tokio::test]
async fn a_worker_is_shown_and_gets_nothing_after_it_left() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let worker = json!({ "id": "w1", "sdk": "driftq-python", "version": "0.2.0", "host": "h", "pid": 4711, "concurrency": 8 });
    let poll = json!({ "topic": "t", "group": "g", "owner": "o", "wait_ms": 0, "worker": worker });
    broker.post("/v1/receive", poll.clone()).await.is(200);
    let shown = broker.get("/v1/topics/t/groups/g").await.is(200);
    assert_eq!(shown["consumers"][0]["worker"], worker, "{shown}");
    // A poll that waits returns at once, and the next ones too.
    let waits = json!({ "topic": "t", "group": "g", "owner": "o", "wait_ms": 30_000, "worker": { "id": "w1" } });
    let waiting = tokio::spawn({
        let broker = Client::clone(&broker);
        let waits = waits.clone();
        async move { broker.post("/v1/receive", waits).await.is(200) }
    });
    while broker.get("/v1/topics/t/groups/g").await.is(200)["consumers"][0]["connections"]
        == json!([])
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let began = Instant::now();
    broker.post("/v1/leave", json!({ "worker": "w1" })).await.is(204);
    assert_eq!(waiting.await.expect("it returns")["messages"], json!([]));
    broker.produce("t", "m").await;
    assert_eq!(broker.post("/v1/receive", waits).await.is(200)["messages"], json!([]));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // Another worker gets the message in its first attempt.
    let other = json!({ "topic": "t", "group": "g", "owner": "o", "worker": { "id": "w2" } });
    let got = broker.post("/v1/receive", other).await.is(200);
    assert_eq!(got["messages"][0]["attempts"], 1, "{got}");
    broker.ack(token(&got["messages"][0])).await.is(204);
}

#[tokio::test]
async fn a_stream_of_a_worker_that_left_ends() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let join = json!({ "topic": "t", "group": "g", "owner": "o", "worker": { "id": "w1" } });
    let stream = tokio::spawn({
        let broker = Client::clone(&broker);
        async move { broker.post("/v1/consume", join).await }
    });
    while broker.get("/v1/topics/t/groups/g").await.status != 200
        || broker.get("/v1/topics/t/groups/g").await.is(200)["consumers"] == json!([])
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    broker.post("/v1/leave", json!({ "worker": "w1" })).await.is(204);
    assert_eq!(stream.await.expect("it ends").status, 200);
}

#[tokio::test]
async fn the_texts_of_a_worker_are_checked() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for (worker, field) in [
        (json!({}), "worker.id"),
        (json!({ "id": "" }), "worker.id"),
        (json!({ "id": "w", "sdk": "x".repeat(256) }), "worker.sdk"),
        (json!({ "id": "w", "pid": -1 }), "worker.pid"),
        (json!({ "id": "w", "colour": "red" }), "worker.colour"),
    ] {
        let poll =
            json!({ "topic": "t", "group": "g", "owner": "o", "wait_ms": 0, "worker": worker });
        let answer = broker.post("/v1/receive", poll).await;
        assert_eq!((answer.status, &answer.json()["field"]), (400, &json!(field)), "{answer:?}");
    }
    for body in [json!({}), json!({ "worker": "" }), json!({ "worker": "a\nb" })] {
        assert_eq!(broker.post("/v1/leave", body).await.status, 400);
    }
}
