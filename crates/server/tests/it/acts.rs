//! Administrative acts are recorded in the commit that performs them, in a chain of their own.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::{token, with};

/// The records of a page, each checked against the hash of the one before it in its chain.
pub(crate) async fn acts(broker: &Client, query: &str) -> (Vec<Value>, Option<String>) {
    let page = broker.get(format!("/v1/audit/admin?{query}")).await.is(200);
    let records = page["acts"].as_array().expect("a list");
    let records = records.iter().map(|act| act["record"].clone()).collect();
    (records, page["next_cursor"].as_str().map(str::to_owned))
}

pub(crate) fn words(records: &[Value], field: &str) -> Vec<String> {
    records.iter().map(|record| record[field].as_str().unwrap_or("-").to_owned()).collect()
}

#[tokio::test]
async fn acts_are_listed_newest_first_with_who_why_and_what() {
    let broker = Broker::start().await;
    assert_eq!(acts(&broker, "").await, (Vec::new(), None));
    broker.topic("orders").await;
    broker.post("/v1/topics", json!({ "name": "orders", "partitions": 1 })).await.is(200);
    broker.produce("orders", "m0").await;
    broker.put("/v1/topics/orders/groups/biller", json!({})).await.is(201);
    let by = json!({ "by": "ops", "reason": "bad deploy" });
    let group = "/v1/topics/orders/groups/biller";
    broker.post(&format!("{group}/pause"), by.clone()).await.is(200);
    let seek = with(json!({ "to": "latest" }), by.clone());
    let dry = with(seek.clone(), json!({ "dry_run": true }));
    broker.post(&format!("{group}/seek"), dry).await.is(200);
    let sought = broker.post(&format!("{group}/seek"), seek).await;
    let request_id = sought.header("x-request-id").to_owned();
    sought.is(200);
    broker.delete(&format!("{group}?confirm=biller&by=ops&reason=old")).await.is(200);

    let (records, next) = acts(&broker, "").await;
    assert_eq!(next, None);
    let names = ["delete_group", "seek_group", "pause_group", "create_group", "create_topic"];
    assert_eq!(words(&records, "act"), names);
    let seek = &records[1];
    assert_eq!(seek["counts"], json!({ "redelivers": 0, "skips": 1, "dropped_open": 0 }));
    assert_eq!(seek["details"], json!({ "to": "latest" }));
    assert_eq!(seek["request_id"], request_id.as_str());
    let who = ["by", "reason", "topic", "group"].map(|field| &seek[field]);
    assert_eq!(who, ["ops", "bad deploy", "orders", "biller"]);
    assert_eq!(records[0]["counts"], json!({ "backlog": 0, "open": 0 }));
}

#[tokio::test]
async fn pages_follow_each_other_over_all_shards() {
    let broker = Broker::with(|config| config.shards = Some(4)).await;
    for number in 0..10 {
        broker.topic(&format!("t{number}")).await;
    }
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let (page, next) = acts(&broker, &format!("limit=3{cursor}")).await;
        assert!(page.len() <= 3);
        all.extend(page);
        match next {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let times: Vec<u64> = all.iter().map(|record| record["at_ms"].as_u64().unwrap_or(0)).collect();
    assert!(times.is_sorted_by(|one, other| one >= other), "{times:?}");
    let mut topics = words(&all, "topic");
    topics.sort();
    assert_eq!(topics, (0..10).map(|number| format!("t{number}")).collect::<Vec<_>>());
    // A cursor has a place for each shard and one for the storage.
    let broken = broker.get("/v1/audit/admin?cursor=MTI").await.is(400);
    assert_eq!(broken["field"], "cursor");
}

#[tokio::test]
async fn a_redrive_of_many_is_one_act_with_a_record_for_each() {
    let broker = Broker::start().await;
    broker.topic("orders").await;
    for number in 0..3 {
        broker.produce("orders", &format!("m{number}")).await;
    }
    let received = broker.receive_now("orders", "biller", "me").await;
    for message in &received {
        broker.nack(token(message), json!({ "dead_letter": true })).await.is(204);
    }
    let redrive = json!({ "filter": {}, "by": "ops", "reason": "fixed" });
    broker.post("/v1/dlq/orders/redrive", redrive).await.is(200);
    let (records, _) = acts(&broker, "limit=3").await;
    assert_eq!(words(&records, "act"), ["redrive", "redrive", "redrive"]);
    let ids = words(&records, "act_id");
    assert!(ids.iter().all(|id| *id == ids[0] && !id.is_empty()), "{ids:?}");
    assert_eq!(words(&records, "by"), ["ops", "ops", "ops"]);
}

#[tokio::test]
async fn acts_survive_a_restart_and_their_hashes_form_a_chain() {
    let broker = Broker::durable().await;
    for name in ["a", "b", "c"] {
        broker.topic(name).await;
    }
    let broker = broker.restart().await;
    let page = broker.get("/v1/audit/admin").await;
    page.is(200);
    #[derive(serde::Deserialize)]
    struct Page {
        acts: Vec<Act>,
    }
    #[derive(serde::Deserialize)]
    struct Act {
        record: Box<serde_json::value::RawValue>,
        hash: String,
    }
    let Page { acts } = serde_json::from_slice(&page.body).expect("a page");
    assert_eq!(acts.len(), 3);
    let mut hash = blake3::hash(br#"{"namespace":"default/acts","shard":0}"#);
    for Act { record, hash: shown } in acts.iter().rev() {
        let text = record.get();
        hash = blake3::Hasher::new().update(hash.as_bytes()).update(text.as_bytes()).finalize();
        assert_eq!(*shown, hash.to_hex().as_str(), "{text}");
    }
}
