//! The audit chain of the ledger, which clients can verify by hashing it again.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{ended, named, under};
use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::{token, with};

#[derive(Deserialize)]
struct Page {
    records: Vec<Link>,
    next: Option<u64>,
}

#[derive(Deserialize)]
struct Link {
    record: Box<RawValue>,
    hash: String,
}

/// Reads the records of a chain and hashes each with its predecessor, as the reference specifies.
/// Returns the records and the last hash.
async fn chain(broker: &Client, shard: u64) -> (Vec<Value>, String) {
    let (mut from, mut records) = (1, Vec::new());
    let mut hash = blake3::hash(format!(r#"{{"namespace":"default","shard":{shard}}}"#).as_bytes());
    loop {
        let path = format!("/v1/audit/records?shard={shard}&from={from}");
        let page = broker.get(path).await;
        page.is(200);
        let Page { records: links, next } = serde_json::from_slice(&page.body).expect("a page");
        for Link { record, hash: said } in links {
            let text = record.get();
            hash = blake3::Hasher::new().update(hash.as_bytes()).update(text.as_bytes()).finalize();
            assert_eq!(said, hash.to_hex().as_str(), "{text}");
            let record: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(record["seq"], records.len() + 1);
            records.push(record);
        }
        match next {
            None => return (records, hash.to_string()),
            Some(next) => from = next,
        }
    }
}

fn said(records: &[Value], field: &str) -> Vec<String> {
    let text = |record: &Value| record[field].as_str().unwrap_or("-").to_owned();
    records.iter().map(text).collect()
}

#[tokio::test]
async fn begin_finish_resolve_and_commit_are_recorded() {
    let broker = Broker::start().await;
    assert_eq!(broker.get("/v1/audit").await.is(200), json!({ "chains": [] }));
    assert_eq!(chain(&broker, 0).await.0, [] as [Value; 0]);
    let how = json!({ "on_doubt": "park", "owner": "api-1", "tenant_id": "acme", "request": "a" });
    let began = broker.execute("k", how.clone()).await;
    broker.begin(named("k"), how).await.refused(409, "IN_PROGRESS");
    let unknown = with(ended("UNKNOWN"), json!({ "error": "timeout" }));
    broker.finish(&began, unknown.clone()).await.is(200);
    assert_eq!(broker.finish(&began, unknown).await.is(200)["repeated"], true);
    let resolve = json!({ "tenant_id": "acme", "fence": 1, "as": "succeeded", "result": { "b":  1 },
        "by": "ops", "reason": "looked" });
    broker.post("/v1/effects/resolve", with(named("k"), resolve)).await.is(200);
    broker.finish(&began, ended("SUCCEEDED")).await.refused(409, "STALE_FENCE");
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "worker-a").await;
    let began = broker.begin(under(&delivery), json!({ "on_doubt": "park", "key": "u" })).await;
    let effects = json!([{ "token": began.is(200)["token"], "status": "FAILED_FINAL" }]);
    let commit = with(token(&delivery), json!({ "effects": effects, "result": 7 }));
    broker.post("/v1/commit", commit.clone()).await.is(200);
    broker.post("/v1/commit", commit).await.is(200);
    let (records, hash) = chain(&broker, 0).await;
    let decisions = ["begin", "finish", "resolve", "begin", "finish", "begin", "finish"];
    assert_eq!(said(&records, "decision"), decisions);
    let states = ["-", "IN_DOUBT", "SUCCEEDED", "-", "FAILED_FINAL", "-", "SUCCEEDED"];
    assert_eq!(said(&records, "state"), states);
    let by = ["api-1", "api-1", "ops", "worker-a", "worker-a", "worker-a", "worker-a"];
    assert_eq!(said(&records, "by"), by);
    assert_eq!(said(&records, "tenant")[2..4], ["acme", "default"]);
    assert_eq!(said(&records, "scope")[2..4], ["op/charge", "effect/t/g"]);
    assert_eq!(records[0]["request"], format!("blake3:{}", blake3::hash(b"a")));
    assert_eq!(records[2]["reason"], "looked");
    let outcome = r#"{"code":0,"result":{"json":"7"},"error":""}"#;
    assert_eq!(records[6]["outcome"], blake3::hash(outcome.as_bytes()).to_string());
    let told = broker.get("/v1/audit").await.is(200);
    let tip = json!({ "namespace": "default", "shard": 0, "seq": 7, "hash": hash });
    assert_eq!(told["chains"], json!([tip]));
}

#[tokio::test]
async fn a_range_of_a_chain_can_be_read() {
    let broker = Broker::start().await;
    for key in 0..9 {
        broker.execute(&format!("k{key}"), json!({ "on_doubt": "park" })).await;
    }
    for (query, keys, next) in [
        ("", &["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"][..], json!(10)),
        ("&from=3&to=5", &["k2", "k3", "k4"], Value::Null),
        ("&from=9&to=9", &["k8"], Value::Null),
        ("&from=9", &["k8"], json!(10)),
        ("&from=10", &[], Value::Null),
        ("&from=5&to=4", &[], Value::Null),
        ("&from=9007199254740991&to=9007199254740991", &[], Value::Null),
    ] {
        let page = broker.get(format!("/v1/audit/records?shard=0{query}")).await.is(200);
        let records = page["records"].as_array().expect("records");
        let shown: Vec<&str> =
            records.iter().filter_map(|link| link["record"]["key"].as_str()).collect();
        assert_eq!((&shown[..], &page["next"]), (keys, &next), "{query}");
    }
}

#[tokio::test]
async fn a_chain_continues_after_a_restart() {
    let broker = Broker::durable().await;
    let began = broker.execute("k", json!({ "on_doubt": "park" })).await;
    let (before, _) = chain(&broker, 0).await;
    let broker = broker.restart().await;
    assert_eq!(chain(&broker, 0).await.0, before);
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    let (after, hash) = chain(&broker, 0).await;
    assert_eq!(
        (&after[..1], said(&after, "decision")),
        (&before[..], vec!["begin".into(), "finish".into()])
    );
    assert_eq!(broker.get("/v1/audit").await.is(200)["chains"][0]["hash"], hash);
}

#[tokio::test]
async fn each_shard_has_its_own_chain() {
    let broker = Broker::with(|config| config.shards = Some(5)).await;
    for key in 0..40 {
        broker.execute(&format!("k{key}"), json!({ "on_doubt": "park" })).await;
    }
    let chains = broker.get("/v1/audit").await.is(200);
    let chains = chains["chains"].as_array().expect("chains");
    let mut records = 0;
    for tip in chains {
        let (found, hash) = chain(&broker, tip["shard"].as_u64().expect("a number")).await;
        assert_eq!((&tip["seq"], &tip["hash"]), (&json!(found.len()), &json!(hash)));
        records += found.len();
    }
    assert_eq!((chains.len(), records), (5, 40));
}
