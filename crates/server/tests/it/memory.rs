//! The memory budget: bodies, consumers and settles each have a share that the others cannot use.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};

use crate::broker::Broker;
use crate::raw::Raw;
use crate::unread;

/// A sixteenth is for small bodies and for settles, an eighth for large bodies.
const BUDGET: u64 = 128 << 20;

async fn with_budget(bytes: u64) -> Broker {
    let broker = Broker::with(|config| config.memory_budget_bytes = Some(bytes)).await;
    broker.topic("t").await;
    broker
}

/// A client that declares 8 MB and stops after a few bytes.
async fn unfinished(broker: &Broker, path: &str) -> Raw {
    let mut raw = Raw::connect(broker.address()).await;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 8000000\r\n\
         connection: close\r\n\r\n{{\"topic\":"
    );
    raw.write(head.as_bytes()).await;
    // Connections are accepted in order.
    broker.get("/v1/healthz").await.is(200);
    raw
}

fn padded(value: serde_json::Value, bytes: usize) -> Vec<u8> {
    let mut body = value.to_string().into_bytes();
    body.resize(bytes, b' ');
    body
}

#[tokio::test]
async fn unfinished_bodies_block_neither_small_bodies_nor_settles() {
    let broker = with_budget(BUDGET).await;
    broker.post("/v1/produce", json!({ "topic": "t", "value": "first" })).await.is(200);
    let receive = json!({ "topic": "t", "group": "g", "owner": "o" });
    let received = broker.post("/v1/receive", receive).await.is(200);
    let token = received["messages"][0]["lease"]["token"].clone();
    let mut slow = unfinished(&broker, "/v1/produce").await;
    let began = Instant::now();
    broker.post("/v1/produce", json!({ "topic": "t", "value": "small" })).await.is(200);
    let item = json!({ "items": [{ "op": "ack", "token": token }] });
    let settled = broker.ask("POST", "/v1/settle").body(padded(item, 100_000)).send().await;
    assert_eq!(settled.is(200)["done"], 1);
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());

    let large = padded(json!({ "topic": "t", "value": "large" }), 1 << 20);
    broker.ask("POST", "/v1/produce").body(large).send().await.is(200);
    assert!(began.elapsed() > Duration::from_millis(900), "memory was free for it");
    let answer = slow.until_closed().await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    for part in [r#""reason":"memory""#, r#""retryable":true"#, "too slowly"] {
        assert!(answer.contains(part), "{answer}");
    }
}

#[tokio::test]
async fn a_body_without_free_memory_for_five_seconds_is_rejected() {
    let broker = with_budget(BUDGET).await;
    let mut slow = Vec::new();
    for _ in 0..12 {
        slow.push(unfinished(&broker, "/v1/produce").await);
    }
    // No request follows the last one, so it may take its 30 s.
    let until = Instant::now() + Duration::from_secs(10);
    let mut answers = Vec::new();
    for mut raw in slow {
        answers.extend(timeout_at(until, raw.until_closed()).await);
    }
    let waited = answers.iter().filter(|answer| answer.contains("too many requests")).count();
    assert!((1..11).contains(&waited), "{waited} of them found no free memory: {answers:?}");
    assert!(answers.iter().all(|answer| answer.contains(r#""reason":"memory""#)), "{answers:?}");
}

#[tokio::test]
async fn consumers_beyond_their_share_are_rejected_until_one_leaves() {
    let broker = with_budget(1 << 20).await;
    let consume = || broker.ask("GET", "/v1/consume?topic=t&group=g&owner=o");
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(consume().stream().await);
    }
    let body = consume().send().await.refused(429, "RESOURCE_EXHAUSTED");
    assert_eq!(body["reason"], "memory", "{body}");
    let poll = json!({ "topic": "t", "group": "g", "owner": "o", "wait_ms": 0 });
    let body = broker.post("/v1/receive", poll.clone()).await.refused(429, "RESOURCE_EXHAUSTED");
    assert_eq!(body["reason"], "memory", "{body}");
    streams.pop();
    for _ in 0..100 {
        if broker.post("/v1/receive", poll.clone()).await.status == 200 {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("the memory of a closed stream is not freed");
}

#[tokio::test]
async fn unfinished_bodies_of_settles_do_not_block_small_settles() {
    let broker = with_budget(BUDGET).await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        slow.push(unfinished(&broker, "/v1/ack").await);
    }
    let began = Instant::now();
    broker.post("/v1/ack", json!({ "token": "none" })).await.is(400);
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_waiting_poll_does_not_reserve_memory_for_its_body() {
    let broker = with_budget(BUDGET).await;
    let poll = json!({ "topic": "t", "group": "g", "owner": "o", "wait_ms": 60_000 });
    let poll = String::from_utf8(padded(poll, 8_000_000)).expect("it is JSON");
    let mut polls = Vec::new();
    for _ in 0..4 {
        let mut raw = Raw::connect(broker.address()).await;
        let head =
            "POST /v1/receive HTTP/1.1\r\nhost: localhost\r\ncontent-length: 8000000\r\n\r\n";
        raw.write(format!("{head}{poll}").as_bytes()).await;
        polls.push(raw);
    }
    let began = Instant::now();
    let large = padded(json!({ "topic": "other", "value": "large" }), 1 << 20);
    broker.topic("other").await;
    broker.ask("POST", "/v1/produce").body(large).send().await.is(200);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test]
async fn unread_list_responses_block_only_other_lists() {
    let broker = with_budget(BUDGET).await;
    for _ in 0..8 {
        let large = json!({ "topic": "t", "value": "x".repeat(1_000_000) });
        broker.post("/v1/produce", large).await.is(200);
    }
    let path = "/v1/topics/t/messages?limit=1000";
    let page = broker.get(path).await.is(200);
    let count = page["messages"].as_array().map(Vec::len);
    assert!(count.is_some_and(|count| (4..=6).contains(&count)), "{count:?} messages of 1 MB");
    assert!(page["next_cursor"].is_string());
    let stalled = unread::client(0);
    let url = format!("http://{}{path}", broker.address());
    let unread = stalled.get(url).send().await.expect("headers need no window");
    broker.post("/v1/produce", json!({ "topic": "t", "value": "small" })).await.is(200);
    let refused = broker.get(path).await;
    assert_eq!(refused.status, 429);
    drop((unread, stalled));
    assert_eq!(broker.get(path).await.status, 200);
}
