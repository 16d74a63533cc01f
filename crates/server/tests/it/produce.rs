//! Producing one message.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::verbs::{fields, time};

#[tokio::test]
async fn a_receipt_has_the_position_of_the_message() {
    let broker = Broker::start().await;
    broker.topic("orders").await;
    for offset in 0..3 {
        let receipt = broker.produce("orders", "x").await;
        assert_eq!(
            fields(&receipt),
            ["deduplicated", "id", "offset", "partition", "status", "topic"]
        );
        assert_eq!(receipt["status"], "produced");
        assert_eq!(receipt["topic"], "orders");
        assert_eq!(receipt["partition"], 0);
        assert_eq!(receipt["offset"], offset);
        assert_eq!(receipt["deduplicated"], false);
        let id = receipt["id"].as_str().expect("an id");
        assert!(id.starts_with("m_") && id.len() <= 64, "{id}");
    }
}

#[tokio::test]
async fn a_message_is_delivered_as_produced() {
    let broker = Broker::start().await;
    broker.topic("orders").await;
    let envelope = json!({ "run_id": "run_1", "step_id": "charge", "parent_step_id": "cart",
        "tenant_id": "acme", "idempotency_key": "order-77", "target_topic": "orders",
        "partition_override": 0, "deadline": "2999-11-14T13:00:00.000Z",
        "retry_policy": { "max_attempts": 5, "backoff_ms": 250, "max_backoff_ms": 5000 } });
    let body = json!({ "topic": "orders", "key": "cust-9", "value": "{\"order\":77}", "envelope": envelope });
    let receipt = broker.post("/v1/produce", body).await.is(200);
    let delivery = broker.receive("orders", "biller", "worker-a").await;
    let names = "attempts envelope group id key last_error lease offset origin_id partition produced_at tenant_id topic value";
    assert_eq!(fields(&delivery).join(" "), names);
    assert_eq!(delivery["id"], receipt["id"]);
    assert_eq!(delivery["topic"], "orders");
    assert_eq!(delivery["group"], "biller");
    assert_eq!(delivery["partition"], 0);
    assert_eq!(delivery["offset"], 0);
    assert_eq!(delivery["attempts"], 1);
    assert_eq!(delivery["key"], "cust-9");
    assert_eq!(delivery["value"], "{\"order\":77}");
    assert_eq!(delivery["last_error"], "");
    assert_eq!(delivery["tenant_id"], "acme");
    assert_eq!(delivery["envelope"], envelope);
    assert_eq!(fields(&delivery["lease"]), ["attempt", "expires_at", "token"]);
    assert_eq!(delivery["lease"]["attempt"], 1);
    let token = delivery["lease"]["token"].as_str().expect("a token");
    assert!(token.starts_with("lt_") && token.len() <= 512, "{token}");
    assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)), "{token}");
    let lease = time(&delivery["lease"]["expires_at"]) - time(&delivery["produced_at"]);
    assert!((30_000..45_000).contains(&lease), "{lease}");
}

#[tokio::test]
async fn a_message_without_envelope_is_delivered_without_one() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    let names = "attempts group id key last_error lease offset origin_id partition produced_at tenant_id topic value";
    assert_eq!(fields(&delivery).join(" "), names);
    assert_eq!(delivery["key"], "");
    assert_eq!(delivery["tenant_id"], "default");
}

#[tokio::test]
async fn empty_envelope_fields_count_as_absent() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let empty = json!({ "run_id": "", "step_id": "", "parent_step_id": "", "tenant_id": "",
        "idempotency_key": "", "target_topic": "" });
    for _ in 0..2 {
        let receipt = broker.produce_with("t", "x", empty.clone()).await;
        assert_eq!(receipt["deduplicated"], false);
    }
    let delivery = broker.receive("t", "g", "o").await;
    assert_eq!(delivery.get("envelope"), None, "{delivery}");
    assert_eq!(delivery["tenant_id"], "default");
    for query in ["deadline=", "retry_max_attempts="] {
        let answer = broker.post_query(format!("/v1/produce?topic=t&value=x&{query}")).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn the_query_form_accepts_every_field_of_the_body() {
    let broker = Broker::start().await;
    broker.topic_with("t", 3, json!({})).await;
    broker.topic_with("tasks.enrich", 3, json!({})).await;
    let query = "topic=t&value=a%20b%26c&key=k&run_id=run_1&step_id=s&parent_step_id=p&tenant_id=acme\
                 &idempotency_key=i&target_topic=tasks.enrich&partition_override=1\
                 &deadline=2999-12-21T12:00:00%2B01:00&retry_max_attempts=5&retry_backoff_ms=250\
                 &retry_max_backoff_ms=5000";
    let receipt = broker.post_query(format!("/v1/produce?{query}")).await.is(200);
    assert_eq!(receipt["topic"], "t");
    assert_eq!(receipt["final_topic"], "tasks.enrich");
    assert_eq!(receipt["partition"], 1);
    let delivery = broker.receive("tasks.enrich", "g", "o").await;
    assert_eq!(delivery["key"], "k");
    assert_eq!(delivery["value"], "a b&c");
    let envelope = json!({ "run_id": "run_1", "step_id": "s", "parent_step_id": "p", "tenant_id": "acme",
        "idempotency_key": "i", "target_topic": "tasks.enrich", "partition_override": 1,
        "deadline": "2999-12-21T11:00:00.000Z",
        "retry_policy": { "max_attempts": 5, "backoff_ms": 250, "max_backoff_ms": 5000 } });
    assert_eq!(delivery["envelope"], envelope);
}

#[tokio::test]
async fn a_query_alias_and_its_name_cannot_be_combined() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let query = "topic=t&value=x&tenant=acme&idem_key=i&deadline_rfc3339=2999-12-21T12:00:00Z";
    broker.post_query(format!("/v1/produce?{query}")).await.is(200);
    let first = broker.receive("t", "g", "o").await;
    let envelope = json!({ "tenant_id": "acme", "idempotency_key": "i", "deadline": "2999-12-21T12:00:00.000Z" });
    assert_eq!(first["envelope"], envelope);
    let query = "topic=t&value=x&deadline_ms=32502772800250";
    broker.post_query(format!("/v1/produce?{query}")).await.is(200);
    let second = broker.receive("t", "g", "o").await;
    assert_eq!(second["envelope"]["deadline"], "2999-12-21T12:00:00.250Z");
    for both in [
        "tenant=a&tenant_id=a",
        "idem_key=a&idempotency_key=a",
        "deadline=2999-12-21T12:00:00Z&deadline_rfc3339=2999-12-21T12:00:00Z",
        "deadline=2999-12-21T12:00:00Z&deadline_ms=32502772800250",
        "deadline_rfc3339=2999-12-21T12:00:00Z&deadline_ms=32502772800250",
    ] {
        let answer = broker.post_query(format!("/v1/produce?topic=t&value=x&{both}")).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn a_message_needs_a_topic_and_one_value() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let bad = [
        json!({ "value": "x" }),
        json!({ "topic": "t" }),
        json!({ "topic": "t", "value": "" }),
        json!({ "topic": "t", "value_base64": "" }),
        json!({ "topic": "t", "value": "x", "value_base64": "eA==" }),
        json!({ "topic": "t", "value": 7 }),
        json!({ "topic": "t", "value": {} }),
    ];
    for body in bad {
        broker.post("/v1/produce", body).await.refused(400, "INVALID_ARGUMENT");
    }
    // An invalid name is either malformed or unknown.
    for topic in ["", "a b", "ü"] {
        let answer = broker.post("/v1/produce", json!({ "topic": topic, "value": "x" })).await;
        assert!([400, 404].contains(&answer.status), "{topic}: {answer:?}");
    }
    for query in ["value=x", "topic=t", "topic=t&value=", "topic=t&value_base64=eA=="] {
        broker.post_query(format!("/v1/produce?{query}")).await.refused(400, "INVALID_ARGUMENT");
    }
    assert_eq!(broker.show("t").await["messages"], 0);
}

#[tokio::test]
async fn bytes_are_sent_as_base64_and_text_as_text() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for (digits, shown) in [
        ("/wD+", json!({ "value_base64": "/wD+" })),
        ("eA==", json!({ "value": "x" })),
        ("w7w=", json!({ "value": "ü" })),
    ] {
        broker.post("/v1/produce", json!({ "topic": "t", "value_base64": digits })).await.is(200);
        let delivery = broker.receive("t", "g", "o").await;
        for name in ["value", "value_base64"] {
            assert_eq!(delivery.get(name), shown.get(name), "{digits}");
        }
    }
    for bad in ["eA", "eA=", "_w==", "e A==", "eB==", "\u{fc}"] {
        let body = json!({ "topic": "t", "value_base64": bad });
        broker.post("/v1/produce", body).await.invalid("value_base64");
    }
}

#[tokio::test]
async fn any_text_is_delivered_unchanged() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for value in ["\0", "line\nbreak", "\u{1f600} \"quoted\" \\ \u{7f}", " ", "null"] {
        let body = json!({ "topic": "t", "key": value, "value": value });
        broker.post("/v1/produce", body).await.is(200);
        let delivery = broker.receive("t", "g", "o").await;
        assert_eq!(delivery["value"], value);
        assert_eq!(delivery["key"], value);
    }
}

#[tokio::test]
async fn a_key_always_maps_to_the_same_partition() {
    let broker = Broker::start().await;
    broker.topic_with("three", 3, json!({})).await;
    broker.topic_with("four", 4, json!({})).await;
    let cases = [("user:1", 1, 3), ("user:2", 0, 2), ("order-123", 1, 2), ("", 0, 0)];
    for (key, of_three, of_four) in cases {
        for (topic, partition) in [("three", of_three), ("four", of_four)] {
            let body = json!({ "topic": topic, "key": key, "value": "x" });
            let receipt = broker.post("/v1/produce", body).await.is(200);
            assert_eq!(receipt["partition"], partition, "{key} of {topic}");
        }
    }
}

#[tokio::test]
async fn offsets_are_dense_in_each_partition() {
    let broker = Broker::start().await;
    broker.topic_with("t", 2, json!({})).await;
    let mut seen = Vec::new();
    for partition in [1, 0, 1, 1, 0] {
        let receipt =
            broker.produce_with("t", "x", json!({ "partition_override": partition })).await;
        assert_eq!(receipt["partition"], partition);
        seen.push(receipt["offset"].as_u64().expect("a number"));
    }
    assert_eq!(seen, [0, 0, 1, 2, 1]);
}

#[tokio::test]
async fn an_override_must_be_a_partition_of_the_final_topic() {
    let broker = Broker::start().await;
    broker.topic_with("two", 2, json!({})).await;
    broker.topic_with("three", 3, json!({})).await;
    broker.produce_with("three", "x", json!({ "partition_override": 2 })).await;
    for bad in [2, -1, 1024] {
        let body =
            json!({ "topic": "two", "value": "x", "envelope": { "partition_override": bad } });
        broker.post("/v1/produce", body).await.refused(400, "INVALID_ARGUMENT");
    }
    let routed = json!({ "partition_override": 2, "target_topic": "three" });
    assert_eq!(broker.produce_with("two", "x", routed).await["partition"], 2);
    let routed = json!({ "topic": "three", "value": "x",
        "envelope": { "partition_override": 2, "target_topic": "two" } });
    broker.post("/v1/produce", routed).await.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn a_message_is_stored_in_its_target_topic() {
    let broker = Broker::start().await;
    broker.topic("orders").await;
    broker.topic("orders.eu").await;
    let receipt = broker.produce_with("orders", "x", json!({ "target_topic": "orders.eu" })).await;
    assert_eq!(receipt["topic"], "orders");
    assert_eq!(receipt["final_topic"], "orders.eu");
    assert_eq!(broker.show("orders").await["messages"], 0);
    assert_eq!(broker.receive("orders.eu", "g", "o").await["id"], receipt["id"]);
    let same = broker.produce_with("orders", "x", json!({ "target_topic": "orders" })).await;
    assert_eq!(same.get("final_topic"), None, "only if it differs");
    let lost =
        json!({ "topic": "orders", "value": "x", "envelope": { "target_topic": "nowhere" } });
    let body = broker.post("/v1/produce", lost).await.refused(404, "NOT_FOUND");
    assert_eq!(body["kind"], "topic");
}

#[tokio::test]
async fn a_passed_deadline_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for deadline in
        ["2025-12-21T12:00:00Z", "1970-01-01T00:00:00Z", "2025-12-21T12:00:00.999999+14:00"]
    {
        let body = json!({ "topic": "t", "value": "x", "envelope": { "deadline": deadline } });
        let body = broker.post("/v1/produce", body).await.refused(400, "INVALID_ARGUMENT");
        assert_eq!(body["reason"], "deadline");
    }
    for query in ["deadline=2025-12-21T12:00:00Z", "deadline_ms=1766318400000"] {
        let answer = broker.post_query(format!("/v1/produce?topic=t&value=x&{query}")).await;
        assert_eq!(answer.refused(400, "INVALID_ARGUMENT")["reason"], "deadline");
    }
    for deadline in [
        json!("tomorrow"),
        json!("2999-12-21"),
        json!(32_502_772_800_250u64),
        json!("2999-12-21T12:00:00"),
    ] {
        let body = json!({ "topic": "t", "value": "x", "envelope": { "deadline": deadline } });
        let body = broker.post("/v1/produce", body).await.refused(400, "INVALID_ARGUMENT");
        assert_eq!(body.get("reason"), None, "{body}");
    }
}

#[tokio::test]
async fn a_deadline_has_millisecond_precision() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce_with("t", "x", json!({ "deadline": "2999-12-21T12:00:00.123999+02:00" })).await;
    let delivery = broker.receive("t", "g", "o").await;
    assert_eq!(delivery["envelope"]["deadline"], "2999-12-21T10:00:00.123Z");
}

#[tokio::test]
async fn a_retry_policy_may_be_given_in_part() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let good = [
        json!({ "max_attempts": 1 }),
        json!({ "max_attempts": 1000, "backoff_ms": 0, "max_backoff_ms": 0 }),
        json!({ "max_attempts": -1, "backoff_ms": 250 }),
        json!({ "max_attempts": 5, "max_backoff_ms": 5000 }),
        json!({ "backoff_ms": 5 }),
        json!({}),
    ];
    for policy in good {
        let envelope = json!({ "retry_policy": policy });
        broker.produce_with("t", "x", envelope.clone()).await;
        assert_eq!(broker.receive("t", "g", "o").await["envelope"], envelope);
    }
    let bad = [
        json!({ "max_attempts": 0 }),
        json!({ "max_attempts": -2 }),
        json!({ "max_attempts": 1001 }),
        json!({ "max_attempts": 1, "backoff_ms": 2, "max_backoff_ms": 1 }),
        json!({ "max_attempts": 1, "backoff_ms": -1 }),
    ];
    for policy in bad {
        let body = json!({ "topic": "t", "value": "x", "envelope": { "retry_policy": policy } });
        broker.post("/v1/produce", body).await.refused(400, "INVALID_ARGUMENT");
    }
    for query in ["retry_backoff_ms=-1", "retry_max_backoff_ms=x", "retry_max_attempts=0"] {
        let answer = broker.post_query(format!("/v1/produce?topic=t&value=x&{query}")).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn trace_headers_are_delivered_with_the_message() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let ask = |headers: &[(&'static str, &str)]| {
        let body = json!({ "topic": "t", "value": "x" });
        let ask = broker.ask("POST", "/v1/produce").json(&body);
        headers.iter().fold(ask, |ask, (name, value)| ask.header(name, *value))
    };
    ask(&[("traceparent", parent), ("tracestate", "vendor=1,other=2")]).send().await.is(200);
    let delivery = broker.receive("t", "g", "o").await;
    let trace = json!({ "traceparent": parent, "tracestate": "vendor=1,other=2" });
    assert_eq!(delivery["trace"], trace);
    ask(&[("traceparent", parent)]).send().await.is(200);
    assert_eq!(broker.receive("t", "g", "o").await["trace"], json!({ "traceparent": parent }));
    let malformed = [
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "hello",
        "",
    ];
    for bad in malformed {
        ask(&[("traceparent", bad), ("tracestate", "vendor=1")]).send().await.is(200);
        assert_eq!(broker.receive("t", "g", "o").await.get("trace"), None, "{bad}");
    }
}

#[tokio::test]
async fn an_all_zero_trace_is_ignored() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for bad in [
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
    ] {
        let body = json!({ "topic": "t", "value": "x" });
        let ask = broker.ask("POST", "/v1/produce").json(&body).header("traceparent", bad);
        ask.send().await.is(200);
        assert_eq!(broker.receive("t", "g", "o").await.get("trace"), None, "{bad}");
    }
}

/// A produce body with one text of this many bytes.
fn sized(field: &str, bytes: usize) -> Value {
    let text = "x".repeat(bytes);
    match field {
        "key" => json!({ "topic": "t", "key": text, "value": "x" }),
        "value" => json!({ "topic": "t", "value": text }),
        "value_base64" => {
            let digits = data_encoding::BASE64.encode(text.as_bytes());
            json!({ "topic": "t", "value_base64": digits })
        }
        other => json!({ "topic": "t", "value": "x", "envelope": { other: text } }),
    }
}

#[tokio::test]
async fn every_text_has_a_limit() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let cases = [
        ("key", 1024, 413),
        ("value", 1 << 20, 413),
        ("value_base64", 1 << 20, 413),
        ("run_id", 1024, 413),
        ("step_id", 1024, 413),
        ("parent_step_id", 1024, 413),
        ("tenant_id", 255, 400),
        ("idempotency_key", 255, 400),
    ];
    for (field, limit, status) in cases {
        let at_the_edge = broker.post("/v1/produce", sized(field, limit)).await;
        assert_eq!(at_the_edge.status, 200, "{field} of {limit}: {at_the_edge:?}");
        let past_it = broker.post("/v1/produce", sized(field, limit + 1)).await;
        assert_eq!(past_it.status, status, "{field} of {} bytes: {past_it:?}", limit + 1);
        if status == 413 {
            let body = past_it.refused(413, "TOO_LARGE");
            assert_eq!(body["limit"], limit, "{body}");
            assert_eq!(body["size"], limit + 1, "{body}");
            assert!(body["field"].as_str().is_some_and(|name| !name.is_empty()), "{body}");
        }
    }
}

#[tokio::test]
async fn a_larger_value_can_be_allowed() {
    let broker = Broker::with(|config| config.value_bytes = 2 << 20).await;
    broker.topic("t").await;
    broker.post("/v1/produce", sized("value", 2 << 20)).await.is(200);
    let body = broker.post("/v1/produce", sized("value", (2 << 20) + 1)).await;
    assert_eq!(body.refused(413, "TOO_LARGE")["limit"], 2 << 20);
}

#[tokio::test]
async fn an_idempotency_key_has_no_control_characters() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for key in ["a\nb", "a\u{0}", "\u{7f}", "a\u{85}b"] {
        let body = json!({ "topic": "t", "value": "x", "envelope": { "idempotency_key": key } });
        broker.post("/v1/produce", body).await.refused(400, "INVALID_ARGUMENT");
    }
    broker.produce_with("t", "x", json!({ "idempotency_key": "größe/7 \"x\"" })).await;
}

#[tokio::test]
async fn checks_run_in_the_order_of_the_contract() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_messages": 1 })).await;
    let past = "2025-12-21T12:00:00Z";
    let large = "x".repeat((1 << 20) + 1);
    // Syntax before the topic.
    let body = json!({ "topic": "nowhere", "value": "x", "bogus": 1 });
    broker.post("/v1/produce", body).await.refused(400, "INVALID_ARGUMENT");
    // The topic before its target, the deadline and the size.
    let body = json!({ "topic": "nowhere", "value": large, "envelope": { "target_topic": "t", "deadline": past } });
    broker.post("/v1/produce", body).await.refused(404, "NOT_FOUND");
    // The target before the deadline.
    let body = json!({ "topic": "t", "value": "x", "envelope": { "target_topic": "nowhere", "deadline": past } });
    broker.post("/v1/produce", body).await.refused(404, "NOT_FOUND");
    // The deadline before the size.
    let body = json!({ "topic": "t", "value": large, "envelope": { "deadline": past } });
    let body = broker.post("/v1/produce", body).await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(body["reason"], "deadline");
    // The size before the backlog.
    broker.produce("t", "x").await;
    let body = json!({ "topic": "t", "value": large });
    broker.post("/v1/produce", body).await.refused(413, "TOO_LARGE");
    let body = json!({ "topic": "t", "value": "x" });
    broker.post("/v1/produce", body).await.refused(429, "RESOURCE_EXHAUSTED");
}

#[tokio::test]
async fn labels_and_headers_are_delivered_peeked_and_kept_over_a_restart() {
    let broker = Broker::durable().await;
    broker.topic("orders").await;
    let envelope = json!({ "labels": { "model": "large", "région": "" }, "headers": { "Content-Type": "text/plain" } });
    broker.produce_with("orders", "x", envelope.clone()).await;
    // Empty maps count as absent.
    broker.produce_with("orders", "y", json!({ "labels": {}, "headers": null })).await;
    let broker = broker.restart().await;
    let peeked = broker.get("/v1/topics/orders/messages").await.is(200);
    assert_eq!(peeked["messages"][0]["envelope"], envelope, "{peeked}");
    let delivery = broker.receive("orders", "biller", "w").await;
    assert_eq!(delivery["envelope"], envelope);
    let delivery = broker.receive("orders", "biller", "w").await;
    assert_eq!(delivery.get("envelope"), None, "{delivery}");
}

#[tokio::test]
async fn labels_and_headers_beyond_the_limits_are_rejected() {
    let broker = Broker::start().await;
    broker.topic("orders").await;
    let many = |count: u32| {
        let labels: serde_json::Map<String, Value> =
            (0..count).map(|n| (format!("l{n}"), json!("x"))).collect();
        json!({ "labels": labels })
    };
    let post = async |envelope: Value| {
        let body = json!({ "topic": "orders", "value": "x", "envelope": envelope });
        broker.post("/v1/produce", body).await
    };
    post(many(16)).await.is(200);
    post(many(17)).await.invalid("envelope.labels");
    post(json!({ "labels": { "": "x" } })).await.invalid("envelope.labels");
    post(json!({ "headers": { "a\nb": "x" } })).await.invalid("envelope.headers");
    post(json!({ "labels": { "a": 1 } })).await.invalid("envelope.labels.a");
    for (field, limit) in [("labels", 1_024), ("headers", 16_384)] {
        post(json!({ field: { "a": "x".repeat(limit - 1) } })).await.is(200);
        let answer = post(json!({ field: { "a": "x".repeat(limit) } })).await;
        let body = answer.refused(413, "TOO_LARGE");
        assert_eq!(
            (&body["field"], &body["limit"]),
            (&json!(format!("envelope.{field}")), &json!(limit))
        );
    }
}
