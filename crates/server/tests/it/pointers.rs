//! Pointers over HTTP: set by a commit, read by name, listed by partition key.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;

async fn delivered(broker: &Client, value: &str) -> Value {
    broker.produce("orders", value).await;
    broker.receive("orders", "biller", "w").await["lease"]["token"].clone()
}

fn pointer(partition_key: &str, location: &str) -> Value {
    json!({ "dataset": "ledger", "version": "7", "partition_key": partition_key, "location": location })
}

#[tokio::test]
async fn a_commit_sets_pointers() {
    let broker = Broker::start().await;
    broker.topic("orders").await;
    let token = delivered(&broker, "a").await;
    let mut first = pointer("dt=2026-11-14/h=3", "s3://b/x");
    first["checksum"] = json!("sha256:1");
    let commit =
        json!({ "token": token, "pointers": [first, pointer("dt=2026-11-15", "s3://b/y")] });
    broker.post("/v1/commit", commit.clone()).await.is(200);
    assert_eq!(broker.post("/v1/commit", commit).await.is(200)["repeated"], true);
    let path = "/v1/pointers?topic=orders&dataset=ledger&version=7";
    let one = broker.get(format!("{path}&partition_key=dt%3D2026-11-14%2Fh%3D3")).await.is(200);
    assert_eq!((&one["topic"], &one["location"]), (&json!("orders"), &json!("s3://b/x")));
    assert_eq!((&one["checksum"], &one["message"]["attempt"]), (&json!("sha256:1"), &json!(1)));
    let none = broker.get(format!("{path}&partition_key=none")).await.refused(404, "NOT_FOUND");
    assert_eq!(none["kind"], "pointer");
    let page = broker.get(format!("{path}&limit=1")).await.is(200);
    assert_eq!(page["pointers"][0]["partition_key"], "dt=2026-11-14/h=3");
    let cursor = page["next_cursor"].as_str().expect("a next page");
    let page = broker.get(format!("{path}&limit=1&cursor={cursor}")).await.is(200);
    assert_eq!(page["pointers"][0]["partition_key"], "dt=2026-11-15");
    assert_eq!(page.get("next_cursor"), None);
    broker.get(format!("{path}&partition_key=a&limit=1")).await.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn another_message_is_rejected_with_the_current_pointer() {
    let broker = Broker::start().await;
    broker.topic("orders").await;
    let token = delivered(&broker, "a").await;
    let commit = |token: &Value, pointer: Value| json!({ "token": token, "pointers": [pointer] });
    broker.post("/v1/commit", commit(&token, pointer("k", "s3://b/x"))).await.is(200);
    let token = delivered(&broker, "b").await;
    let mut other = pointer("k", "s3://b/y");
    let refused = broker.post("/v1/commit", commit(&token, other.clone())).await;
    let refused = refused.refused(409, "ALREADY_EXISTS");
    assert_eq!(refused["current"]["location"], "s3://b/x");
    assert_eq!((&refused["part"], &refused["index"]), (&json!("pointers"), &json!(0)));
    other["replace"] = json!(true);
    broker.post("/v1/commit", commit(&token, other)).await.is(200);
    let path = "/v1/pointers?topic=orders&dataset=ledger&version=7&partition_key=k";
    assert_eq!(broker.get(path).await.is(200)["location"], "s3://b/y");
}
