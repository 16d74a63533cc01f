//! Producing, and the errors of requests.

use std::time::Duration;

use driftq_client::{Client, Error, Message};
use serde_json::json;
use tokio::net::TcpListener;

use crate::broker;

#[tokio::test]
async fn messages_are_stored_with_their_fields() {
    let broker = broker::start().await;
    let message = Message::json("orders", &json!({ "id": 1 })).expect("JSON").key("k").run_id("r");
    let receipt = broker.client().produce(message).await.expect("it is stored");
    assert_eq!((receipt.topic.as_str(), receipt.offset), ("orders", 0));
    let keyed = Message::bytes("orders", b"\xff").idempotency_key("i");
    assert!(!broker.client().produce(keyed.clone()).await.expect("it is stored").deduplicated);
    assert!(broker.client().produce(keyed).await.expect("it is stored").deduplicated);
    let shown = broker::get(broker.client(), "topics/orders/messages").await;
    assert_eq!(shown["messages"][0]["envelope"]["run_id"], "r");
    assert_eq!(shown["messages"][1]["value_base64"], "/w==");
}

#[tokio::test]
async fn each_item_of_a_batch_has_its_result() {
    let broker = broker::start().await;
    let messages = ["orders", "nowhere", "orders"].map(|topic| Message::text(topic, "a"));
    let results = broker.client().produce_batch(messages).await.expect("an answer");
    assert!(results[0].is_ok() && results[2].is_ok());
    let error = results[1].as_ref().expect_err("there is no such topic");
    assert_eq!(error.refusal().expect("a rejection").code, "NOT_FOUND");
}

#[tokio::test]
async fn a_rejection_says_why() {
    let broker = broker::start().await;
    let refused = broker.client().produce(Message::text("nowhere", "a")).await;
    let Err(Error::Refused(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!((refusal.status, &*refusal.code), (404, "NOT_FOUND"));
    assert!(matches!(Client::connect("127.0.0.1:8080"), Err(Error::Invalid(_))));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let unused = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", unused.local_addr().expect("it is bound"));
    drop(unused);
    let client =
        Client::builder().timeout(Duration::from_millis(300)).connect(&url).expect("a URL");
    let produced = client.produce(Message::text("orders", "a")).await;
    assert!(matches!(produced, Err(Error::Unavailable(_))), "{produced:?}");
}
