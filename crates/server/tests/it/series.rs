//! Series and rates of topics, groups and shards.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::token;

async fn series(broker: &Client, query: &str) -> Value {
    broker.get(&format!("/v1/series?{query}")).await.is(200)
}

fn sum(series: &Value, name: &str) -> u64 {
    let values = series["series"][name].as_array().expect("an array");
    values.iter().filter_map(Value::as_u64).sum()
}

/// Waits until the slots that are complete hold `count`.
async fn with_sum(broker: &Client, query: &str, name: &str, count: u64) -> Value {
    let began = Instant::now();
    loop {
        let series = series(broker, query).await;
        if sum(&series, name) == count {
            return series;
        }
        assert!(began.elapsed() < Duration::from_secs(15), "{series}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn series_and_rates_count_what_happened() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for value in ["a", "b", "c"] {
        broker.produce("t", value).await;
    }
    let held = broker.receive_now("t", "g", "o").await;
    broker.ack(token(&held[0])).await.is(204);
    broker.nack(token(&held[1]), json!({ "delay_ms": 600_000 })).await.is(204);
    let group = with_sum(&broker, "topic=t&group=g", "delivered", 3).await;
    for (name, count) in [("acked", 1), ("nacked", 1), ("expired", 0), ("redelivered", 0)] {
        assert_eq!(sum(&group, name), count, "{name}: {group}");
    }
    let last = |name: &str| group["series"][name].as_array().and_then(|all| all.last()).cloned();
    assert_eq!((last("backlog"), last("leased")), (Some(json!(2)), Some(json!(1))));
    assert_eq!(last("waiting"), Some(json!(1)));
    assert_eq!(group["step_ms"], 5_000);
    assert_eq!(group["breaks"][0]["reason"], "shard acquired", "{group}");
    // Slots from before the server started were not counted.
    assert!(group["series"]["delivered"][0].is_null(), "{group}");
    let topic = series(&broker, "topic=t&names=produced,produced_bytes").await;
    assert_eq!((sum(&topic, "produced"), sum(&topic, "produced_bytes")), (3, 3));
    assert_eq!(topic["series"].as_object().map(|series| series.len()), Some(2));
    let shard = series(&broker, "shard=0").await;
    assert!(sum(&shard, "commands") >= 6, "{shard}");
    let shown = broker.get("/v1/topics/t/groups/g").await.is(200);
    assert_eq!(shown["rates"], json!({ "delivered": 0.2, "acked": 0.1, "failed": 0.1 }));
    let shown = broker.get("/v1/topics/t").await.is(200);
    assert_eq!(shown["rates"], json!({ "produced": 0.2 }));
}

#[tokio::test]
async fn a_series_request_must_name_something_that_exists() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for (query, status, part) in [
        ("", 400, "topic or shard is required"),
        ("group=g", 400, "is required with group"),
        ("topic=t&shard=0", 400, "cannot be combined with topic"),
        ("shard=1", 400, "must be below 1"),
        ("topic=t&names=acked", 400, "must be names of produced, produced_bytes"),
        ("topic=t&step=7", 400, "5"),
        ("topic=nope", 404, "nope"),
        ("topic=t&group=nope", 404, "nope"),
    ] {
        let answer = broker.get(&format!("/v1/series?{query}")).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status == status && text.contains(part), "{query}: {answer:?}");
    }
    let series = series(&broker, "topic=t&step=60&since_ms=0").await;
    assert_eq!(
        (&series["step_ms"], series["series"]["produced"].as_array().map(Vec::len)),
        (&json!(60_000), Some(359))
    );
}
