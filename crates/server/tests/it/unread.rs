//! Messages in a response that an HTTP/2 client does not read count no attempt.

use std::time::Duration;

use serde_json::json;

use crate::broker::Broker;

/// A client that grants each response a window of `window` bytes and then reads nothing.
pub(crate) fn client(window: u32) -> reqwest::Client {
    let client = reqwest::Client::builder().http2_prior_knowledge();
    client.http2_initial_stream_window_size(window).build().expect("a client")
}

/// A server with a topic whose second attempt would be the last.
async fn broker() -> Broker {
    let broker = Broker::start().await;
    let retry_policy = json!({ "max_attempts": 2, "backoff_ms": 10, "max_backoff_ms": 10 });
    let settings = json!({ "lease_ms": 1_000, "retry_policy": retry_policy });
    let topic = json!({ "name": "t", "settings": settings });
    broker.post("/v1/topics", topic).await.is(201);
    broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
    broker
}

async fn produce(broker: &Broker) {
    for value in ["a", "b", "c"] {
        broker.produce("t", value).await;
    }
}

async fn are_at_the_first_attempt(broker: &Broker, window: u32) {
    for value in ["a", "b", "c"] {
        let delivery = broker.receive("t", "g", "reader").await;
        let seen = (&delivery["value"], &delivery["attempts"]);
        assert_eq!(seen, (&json!(value), &json!(1)), "window {window}");
    }
}

/// A window of 16 bytes is shorter than a line.
#[tokio::test]
async fn an_unread_stream_counts_no_attempt() {
    tokio::join!(stream(0), stream(16));
}

async fn stream(window: u32) {
    let (broker, stalled) = (broker().await, client(window));
    let consume = json!({ "topic": "t", "group": "g", "owner": "stalled", "prefetch": 8 });
    let url = format!("http://{}/v1/consume", broker.address());
    let response = stalled.post(url).body(consume.to_string()).send().await;
    let response = response.expect("headers need no window");
    produce(&broker).await;
    // The client stays connected for more lease periods than there are attempts.
    tokio::time::sleep(Duration::from_secs(4)).await;
    are_at_the_first_attempt(&broker, window).await;
    drop(response);
}

#[tokio::test]
async fn an_unread_poll_counts_no_attempt() {
    tokio::join!(poll(0), poll(16));
}

async fn poll(window: u32) {
    let (broker, stalled) = (broker().await, client(window));
    produce(&broker).await;
    let receive = json!({ "topic": "t", "group": "g", "owner": "stalled", "max": 3 });
    let url = format!("http://{}/v1/receive", broker.address());
    // One of the responses is kept, and the others are closed.
    let mut kept = None;
    for _ in 0..3 {
        let response = stalled.post(&url).body(receive.to_string()).send().await;
        kept = kept.or(response.ok());
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    are_at_the_first_attempt(&broker, window).await;
    let answer = kept.expect("headers need no window").text();
    let answer = tokio::time::timeout(Duration::from_secs(1), answer).await;
    assert!(!matches!(answer, Ok(Ok(_))), "its leases have ended");
}
