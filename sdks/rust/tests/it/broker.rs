//! The server of the tests, and what they read from it.

use driftq_client::{Client, Message};
use driftq_testing::Broker;
use serde_json::Value;

/// Starts a server with the topics `orders` and `receipts`.
pub(crate) async fn start() -> Broker {
    Broker::start(["orders", "receipts"]).await.expect("it starts")
}

pub(crate) async fn produce(broker: &Broker, value: Value) {
    let message = Message::json("orders", &value).expect("JSON");
    broker.client().produce(message).await.expect("it is stored");
}

pub(crate) async fn get(client: &Client, path: &str) -> Value {
    client.get(path).await.expect("an answer").ok().expect("it exists")
}
