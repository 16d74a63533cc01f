//! The v1 contract as its own document describes it: every endpoint, both forms, and its five
//! flows. The flows run with the current defaults and with the v1 defaults.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::verbs::fields;

/// Runs the flow with both defaults.
async fn both(flow: impl AsyncFn(&Broker)) {
    flow(&Broker::start().await).await;
    flow(&Broker::v1().await).await;
}

#[tokio::test]
async fn health_and_version() {
    both(async |broker| {
        assert_eq!(broker.get("/v1/healthz").await.is(200), json!({ "status": "ok" }));
        let version = broker.get("/v1/version").await.is(200);
        assert!(version["version"].is_string() && version["commit"].is_string(), "{version}");
        assert!(version["wal_enabled"].is_boolean(), "{version}");
    })
    .await;
}

#[tokio::test]
async fn topics_by_body_and_by_query() {
    both(async |broker| {
        let body = json!({ "name": "t1", "partitions": 3 });
        let created = broker.post("/v1/topics", body).await.is(201);
        assert_eq!(created, json!({ "status": "created", "name": "t1", "partitions": 3 }));
        let created = broker.post_query("/v1/topics?name=t2&partitions=3").await.is(201);
        assert_eq!(created, json!({ "status": "created", "name": "t2", "partitions": 3 }));
        assert_eq!(broker.get("/v1/topics").await.is(200), json!({ "topics": ["t1", "t2"] }));
    })
    .await;
}

#[tokio::test]
async fn unversioned_paths_are_rejected_and_supported_methods_listed() {
    both(async |broker| {
        for path in ["/topics", "/produce", "/consume?topic=t1&group=g1", "/ack", "/healthz"] {
            let body = broker.get(path).await.refused(404, "NOT_FOUND");
            assert!(body["message"].is_string());
        }
        let answer = broker.get("/v1/produce").await;
        answer.refused(405, "METHOD_NOT_ALLOWED");
        assert_eq!(answer.header("allow"), "POST");
    })
    .await;
}

#[tokio::test]
async fn produce_by_body_and_by_query() {
    both(async |broker| {
        broker.topic_with("t1", 3, json!({})).await;
        broker.topic_with("tasks.enrich", 3, json!({})).await;
        let body = json!({ "topic": "t1", "key": "k", "value": "payload",
            "envelope": { "run_id": "run_123", "step_id": "step_7", "parent_step_id": "step_3",
                "tenant_id": "tenant_a", "idempotency_key": "tenant_a:run_123:step_7",
                "target_topic": "tasks.enrich", "partition_override": 1, "deadline": "2999-12-21T12:00:00Z",
                "retry_policy": { "max_attempts": 5, "backoff_ms": 250, "max_backoff_ms": 5000 } } });
        let receipt = broker.post("/v1/produce", body).await.is(200);
        assert_eq!(receipt["status"], "produced");
        assert_eq!(receipt["topic"], "t1");
        let query = "topic=t1&value=payload&key=k&run_id=r&step_id=s&parent_step_id=p&tenant=a&idem_key=i\
                     &target_topic=tasks.enrich&partition_override=2&deadline=2999-12-21T12:00:00Z\
                     &retry_max_attempts=5&retry_backoff_ms=250&retry_max_backoff_ms=5000";
        let receipt = broker.post_query(format!("/v1/produce?{query}")).await.is(200);
        assert_eq!(receipt["status"], "produced");
        let unknown = json!({ "topic": "t1", "value": "x", "envelope": { "label": { "a": "b" } } });
        broker.post("/v1/produce", unknown).await.refused(400, "INVALID_ARGUMENT");
    })
    .await;
}

#[tokio::test]
async fn the_v1_profile_rejects_fields_of_later_releases() {
    let broker = Broker::v1().await;
    broker.topic("t1").await;
    for field in ["labels", "headers"] {
        let body = json!({ "topic": "t1", "value": "x", "envelope": { field: { "a": "b" } } });
        let rejected = broker.post("/v1/produce", body).await.refused(400, "INVALID_ARGUMENT");
        assert_eq!(rejected["field"], format!("envelope.{field}"), "{rejected}");
    }
}

#[tokio::test]
async fn a_stream_item_has_the_v1_format() {
    both(async |broker| {
        broker.topic_with("t1", 2, json!({})).await;
        let envelope = json!({ "run_id": "run_123", "step_id": "step_7", "parent_step_id": "step_3",
            "tenant_id": "tenant_a", "idempotency_key": "tenant_a:run_123:step_7", "target_topic": "t1",
            "partition_override": 1, "deadline": "2999-12-21T12:00:00.000Z",
            "retry_policy": { "max_attempts": 5, "backoff_ms": 250, "max_backoff_ms": 5000 } });
        broker.produce_with("t1", "payload", envelope.clone()).await;
        let path = "/v1/consume?topic=t1&group=g1&owner=worker-a&lease_ms=2000";
        let mut stream = broker.ask("GET", path).stream().await;
        assert_eq!(stream.headers["content-type"], "application/x-ndjson; charset=utf-8");
        let item = stream.next().await;
        assert_eq!((&item["partition"], &item["offset"]), (&json!(1), &json!(0)));
        assert_eq!(item["attempts"], 1);
        assert_eq!((&item["key"], &item["value"]), (&json!(""), &json!("payload")));
        assert_eq!(item["last_error"], "");
        assert_eq!(item["envelope"], envelope);
    })
    .await;
}

#[tokio::test]
async fn ack_and_nack_by_body_and_by_query_and_only_by_the_owner() {
    both(async |broker| {
        broker.topic("t1").await;
        broker.produce("t1", "a").await;
        broker.produce("t1", "b").await;
        let body = json!({ "topic": "t1", "group": "g1", "owner": "worker-a", "lease_ms": 2000 });
        let mut stream = broker.ask("GET", "/v1/consume").json(&body).stream().await;
        stream.next().await;
        stream.next().await;
        let place = |offset: u32, owner: &str| {
            json!({ "topic": "t1", "group": "g1", "partition": 0, "offset": offset, "owner": owner })
        };
        for path in ["/v1/ack", "/v1/nack"] {
            let body = broker.post(path, place(0, "worker-b")).await.refused(409, "FAILED_PRECONDITION");
            assert_eq!(body["message"], "not owner");
        }
        broker.post("/v1/ack", place(0, "worker-a")).await.is(204);
        let query = "topic=t1&group=g1&partition=0&offset=1&owner=worker-a";
        let nack = format!("/v1/nack?{query}&reason=timeout%20calling%20upstream");
        broker.post_query(nack).await.is(204);
        let again = stream.next().await;
        assert_eq!((&again["offset"], &again["attempts"]), (&json!(1), &json!(2)));
        assert_eq!(again["last_error"], "timeout calling upstream");
        broker.post_query(format!("/v1/ack?{query}")).await.is(204);
    })
    .await;
}

#[tokio::test]
async fn an_overloaded_partition_returns_retry_after() {
    let broker = Broker::v1().await;
    broker.topic("t1").await;
    broker.produce("t1", "a").await;
    broker.produce("t1", "b").await;
    let answer = broker.post("/v1/produce", json!({ "topic": "t1", "value": "c" })).await;
    let body = answer.refused(429, "RESOURCE_EXHAUSTED");
    assert!(body["reason"].is_string() && body["retry_after_ms"].is_u64(), "{body}");
    assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds >= 1));
}

#[tokio::test]
async fn the_v1_profile_sets_the_v1_defaults() {
    let broker = Broker::v1().await;
    broker.topic("t1").await;
    let settings = broker.show("t1").await["settings"].clone();
    for (name, value) in [
        ("lease_ms", 2_000),
        ("max_in_flight", 2),
        ("max_backlog_messages", 2),
        ("max_backlog_bytes", 20),
        ("dedupe_ttl_ms", 600_000),
    ] {
        assert_eq!(settings[name], value, "{name}");
    }
    assert_eq!(broker.show("t1").await["changed_settings"], json!([]));
}

#[tokio::test]
async fn flow_basic_consume_and_ack() {
    both(async |broker| {
        broker.topic("test").await;
        broker.post_query("/v1/produce?topic=test&value=hello").await.is(200);
        let path = "/v1/consume?topic=test&group=g1&owner=worker-a";
        let mut stream = broker.ask("GET", path).stream().await;
        let item = stream.next().await;
        let (partition, offset) = (&item["partition"], &item["offset"]);
        let ack = format!(
            "/v1/ack?topic=test&group=g1&partition={partition}&offset={offset}&owner=worker-a"
        );
        broker.post_query(ack).await.is(204);
        let group = broker.group("test", "g1").await;
        assert_eq!(group["partitions"][0]["settled_through"], *offset, "the offset advances");
        assert_eq!(group["open"], 0, "nothing is redelivered");
    })
    .await;
}

#[tokio::test]
async fn flow_slow_consumer() {
    both(async |broker| {
        broker.topic("test").await;
        broker.produce("test", "slow").await;
        let slow = "/v1/consume?topic=test&group=g1&owner=worker-a&lease_ms=300";
        let mut slow = broker.ask("GET", slow).stream().await;
        assert_eq!(slow.next().await["attempts"], 1);
        // The message is never acked, and another consumer of the group may receive it.
        let other = "/v1/consume?topic=test&group=g1&owner=worker-b&lease_ms=30000";
        let mut other = broker.ask("GET", other).stream().await;
        drop(slow);
        let again = other.next().await;
        assert_eq!(again["attempts"], 2);
        assert_eq!(again["last_error"], "ack_timeout");
        let ack = "/v1/ack?topic=test&group=g1&partition=0&offset=0&owner=worker-b";
        broker.post_query(ack).await.is(204);
        assert_eq!(broker.group("test", "g1").await["backlog"], 0);
    })
    .await;
}

#[tokio::test]
async fn flow_failure_then_success() {
    both(async |broker| {
        broker.topic("test").await;
        broker.produce("test", "job").await;
        let path = "/v1/consume?topic=test&group=g1&owner=worker-a";
        let mut stream = broker.ask("GET", path).stream().await;
        assert_eq!(stream.next().await["attempts"], 1);
        let nack = json!({ "topic": "test", "group": "g1", "partition": 0, "offset": 0,
            "owner": "worker-a", "reason": "db_deadlock" });
        broker.post("/v1/nack", nack).await.is(204);
        let again = stream.next().await;
        assert_eq!(again["attempts"], 2);
        assert_eq!(again["last_error"], "db_deadlock");
        let ack = "/v1/ack?topic=test&group=g1&partition=0&offset=0&owner=worker-a";
        broker.post_query(ack).await.is(204);
        let group = broker.group("test", "g1").await;
        assert_eq!((&group["open"], &group["backlog"]), (&json!(0), &json!(0)), "no retries");
    })
    .await;
}

#[tokio::test]
async fn flow_two_keys_across_partitions() {
    both(async |broker| {
        broker.topic_with("test", 3, json!({})).await;
        let produce = async |key: &str, value: &str| -> Value {
            let body = json!({ "topic": "test", "key": key, "value": value });
            broker.post("/v1/produce", body).await.is(200)["partition"].clone()
        };
        let a = produce("user:1", "A").await;
        let b = produce("user:1", "B").await;
        let c = produce("user:2", "C").await;
        assert_eq!(a, b, "the same key, the same partition");
        assert_eq!((a, c), (json!(1), json!(0)), "fnv1a32 of the key");
        let path = "/v1/consume?topic=test&group=g1&owner=worker-a&prefetch=3";
        let mut stream = broker.ask("GET", path).stream().await;
        let mut of_user_1 = Vec::new();
        for _ in 0..3 {
            let item = stream.next().await;
            if item["key"] == "user:1" {
                of_user_1.push(item["value"].clone());
            }
        }
        assert_eq!(of_user_1, [json!("A"), json!("B")], "in order within the partition");
    })
    .await;
}

#[tokio::test]
async fn flow_partition_override() {
    both(async |broker| {
        broker.topic_with("three", 3, json!({})).await;
        broker.topic_with("two", 2, json!({})).await;
        for key in ["user:1", "user:2"] {
            let body = json!({ "topic": "three", "key": key, "value": "x",
                "envelope": { "partition_override": 2 } });
            assert_eq!(broker.post("/v1/produce", body).await.is(200)["partition"], 2);
        }
        let body = json!({ "topic": "two", "value": "x", "envelope": { "partition_override": 2 } });
        let answer = broker.post("/v1/produce", body).await;
        let body = answer.refused(400, "INVALID_ARGUMENT");
        assert!(fields(&body).contains(&"message"));
    })
    .await;
}
