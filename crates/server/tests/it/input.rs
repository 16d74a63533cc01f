//! Request syntax: one body or one query, and unambiguous JSON.

use serde_json::json;

use crate::broker::Broker;

#[tokio::test]
async fn a_body_is_json_regardless_of_its_content_type() {
    let broker = Broker::start().await;
    for (number, kind) in
        ["application/x-www-form-urlencoded", "text/plain", "x"].iter().enumerate()
    {
        let body = format!(r#"{{"name":"t{number}"}}"#);
        let ask = broker.ask("POST", "/v1/topics").header("content-type", *kind).body(body);
        ask.send().await.is(201);
    }
    broker.ask("POST", "/v1/topics").body(r#"{"name":"bare"}"#).send().await.is(201);
}

#[tokio::test]
async fn a_request_with_body_and_query_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for path in ["/v1/produce?topic=t&value=x", "/v1/produce?topic=t", "/v1/produce?x"] {
        let answer = broker.post(path, json!({ "topic": "t", "value": "x" })).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
    assert_eq!(broker.show("t").await["messages"], 0);
}

#[tokio::test]
async fn a_request_without_body_and_query_is_rejected() {
    let broker = Broker::start().await;
    for path in ["topics", "produce", "produce/batch", "consume", "receive", "ack", "nack"] {
        broker.post_query(format!("/v1/{path}")).await.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn a_body_that_is_not_json_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let bodies: [&[u8]; 8] = [
        b"{",
        b"topic=t&value=x",
        b"[]",
        b"null",
        b"\"t\"",
        br#"{"topic":"t","value":"x"} {}"#,
        br#"{"topic":"t","value":"x",}"#,
        br#"{topic:"t",value:"x"}"#,
    ];
    for body in bodies {
        let answer = broker.ask("POST", "/v1/produce").body(body).send().await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn invalid_utf_8_in_a_body_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let bodies: [&[u8]; 3] = [
        b"{\"topic\":\"t\",\"value\":\"\xff\"}",
        b"{\"topic\":\"t\",\"value\":\"\xed\xa0\x80\"}",
        br#"{"topic":"t","value":"\ud800"}"#,
    ];
    for body in bodies {
        let answer = broker.ask("POST", "/v1/produce").body(body).send().await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn invalid_utf_8_in_a_query_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let answer = broker.post_query("/v1/produce?topic=t&value=%FF").await;
    answer.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn invalid_utf_8_in_a_path_is_rejected_in_json() {
    let broker = Broker::start().await;
    let answer = broker.get("/v1/topics/%FF").await;
    assert!([400, 404].contains(&answer.status), "{answer:?}");
    assert!(answer.json()["error"].is_string(), "{answer:?}");
}

#[tokio::test]
async fn a_duplicate_json_key_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let cases = [
        ("/v1/produce", r#"{"topic":"t","topic":"t","value":"x"}"#),
        ("/v1/produce", r#"{"topic":"t","value":"x","value":"y"}"#),
        ("/v1/produce", r#"{"topic":"t","value":"x","envelope":{"run_id":"a","run_id":"b"}}"#),
        (
            "/v1/produce",
            r#"{"topic":"t","value":"x","envelope":{"retry_policy":{"max_attempts":1,"max_attempts":2}}}"#,
        ),
        ("/v1/produce/batch", r#"{"messages":[{"topic":"t","value":"x","value":"y"}]}"#),
        ("/v1/topics", r#"{"name":"u","name":"u"}"#),
        ("/v1/topics", r#"{"name":"u","settings":{"lease_ms":300,"lease_ms":400}}"#),
        ("/v1/topics", r#"{"name":"u","settings":{},"settings":{}}"#),
        ("/v1/receive", r#"{"topic":"t","group":"g","owner":"o","wait_ms":0,"wait_ms":0}"#),
        ("/v1/ack", r#"{"token":"a","token":"a"}"#),
        ("/v1/effects/begin", r#"{"scope":"op/a","scope":"op/a","key":"k","on_doubt":"park"}"#),
        ("/v1/effects/finish", r#"{"token":"a","token":"a","status":"SUCCEEDED"}"#),
    ];
    for (path, body) in cases {
        let answer = broker.ask("POST", path).body(body).send().await;
        assert_eq!(answer.status, 400, "{path} {body}: {answer:?}");
    }
    let twice = r#"{"settings":{"lease_ms":300,"lease_ms":400}}"#;
    broker.ask("PATCH", "/v1/topics/t").body(twice).send().await.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn a_duplicate_key_inside_a_setting_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let policy = r#"{"max_attempts":1,"max_attempts":2,"backoff_ms":1,"max_backoff_ms":2}"#;
    let create = format!(r#"{{"name":"u","settings":{{"retry_policy":{policy}}}}}"#);
    let answer = broker.ask("POST", "/v1/topics").body(create).send().await;
    answer.refused(400, "INVALID_ARGUMENT");
    let patch = format!(r#"{{"settings":{{"retry_policy":{policy}}}}}"#);
    let answer = broker.ask("PATCH", "/v1/topics/t").body(patch).send().await;
    answer.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn deeply_nested_json_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for depth in [33, 200, 100_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let body = format!(r#"{{"topic":"t","value":"x","envelope":{deep}}}"#);
        let answer = broker.ask("POST", "/v1/produce").body(body).send().await;
        answer.refused(400, "INVALID_ARGUMENT");
        let body = format!(r#"{{"name":"u","settings":{{"retry_policy":{deep}}}}}"#);
        let answer = broker.ask("POST", "/v1/topics").body(body).send().await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn a_compressed_body_is_rejected() {
    let broker = Broker::start().await;
    let body = r#"{"name":"t"}"#;
    for encoding in ["gzip", "deflate", "br", "zstd"] {
        let ask = broker.ask("POST", "/v1/topics").header("content-encoding", encoding);
        ask.body(body).send().await.refused(400, "INVALID_ARGUMENT");
    }
    let ask = broker.ask("POST", "/v1/topics").header("content-encoding", "identity");
    ask.body(body).send().await.is(201);
}

#[tokio::test]
async fn an_unknown_field_is_rejected_by_name() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let cases = [
        ("/v1/topics", json!({ "name": "u", "bogus": 1 })),
        ("/v1/topics", json!({ "name": "u", "settings": { "bogus": 1 } })),
        ("/v1/produce", json!({ "topic": "t", "value": "x", "bogus": 1 })),
        ("/v1/produce", json!({ "topic": "t", "value": "x", "envelope": { "bogus": {} } })),
        (
            "/v1/produce",
            json!({ "topic": "t", "value": "x", "envelope": { "retry_policy": { "max_attempts": 1, "bogus": 1 } } }),
        ),
        ("/v1/produce/batch", json!({ "messages": [{ "topic": "t", "value": "x" }], "bogus": 1 })),
        ("/v1/consume", json!({ "topic": "t", "group": "g", "owner": "o", "bogus": 1 })),
        ("/v1/receive", json!({ "topic": "t", "group": "g", "owner": "o", "bogus": 1 })),
        ("/v1/ack", json!({ "token": "x", "bogus": 1 })),
        ("/v1/nack", json!({ "token": "x", "bogus": 1 })),
        ("/v1/extend", json!({ "token": "x", "bogus": 1 })),
        ("/v1/settle", json!({ "items": [], "bogus": 1 })),
        ("/v1/effects/begin", json!({ "scope": "op/a", "key": "k", "bogus": 1 })),
        ("/v1/effects/reacquire", json!({ "scope": "op/a", "key": "k", "bogus": 1 })),
        ("/v1/effects/finish", json!({ "token": "x", "status": "SUCCEEDED", "bogus": 1 })),
        ("/v1/effects/extend", json!({ "token": "x", "bogus": 1 })),
        ("/v1/effects/resolve", json!({ "scope": "op/a", "key": "k", "bogus": 1 })),
        ("/v1/topics/t/groups/g/pause", json!({ "bogus": 1 })),
        ("/v1/topics/t/groups/g/resume", json!({ "bogus": 1 })),
        ("/v1/topics/t/groups/g/seek", json!({ "to": "latest", "bogus": 1 })),
    ];
    for (path, body) in cases {
        let answer = broker.post(path, body).await;
        let body = answer.refused(400, "INVALID_ARGUMENT");
        assert!(body.to_string().contains("bogus"), "{path}: {body}");
    }
    broker
        .put("/v1/topics/t/groups/g", json!({ "bogus": 1 }))
        .await
        .refused(400, "INVALID_ARGUMENT");
    broker.patch("/v1/topics/t", json!({ "bogus": 1 })).await.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn an_unknown_field_inside_a_setting_is_rejected() {
    let broker = Broker::start().await;
    let policy = json!({ "max_attempts": 3, "backoff_ms": 1, "max_backoff_ms": 2, "bogus": 1 });
    let body = json!({ "name": "t", "settings": { "retry_policy": policy } });
    broker.post("/v1/topics", body).await.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn an_unknown_parameter_is_rejected_by_name() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let paths = [
        ("POST", "/v1/topics?name=u&bogus=1"),
        ("POST", "/v1/produce?topic=t&value=x&bogus=1"),
        ("GET", "/v1/consume?topic=t&group=g&owner=o&bogus=1"),
        ("POST", "/v1/ack?topic=t&group=g&partition=0&offset=0&owner=o&bogus=1"),
        ("POST", "/v1/nack?topic=t&group=g&partition=0&offset=0&owner=o&bogus=1"),
        ("POST", "/v1/effects/begin?scope=op/a&key=k&on_doubt=park&bogus=1"),
        ("GET", "/v1/effects?scope=op/a&key=k&bogus=1"),
        ("GET", "/v1/topics?bogus=1"),
        ("GET", "/v1/topics/t/groups?bogus=1"),
        ("DELETE", "/v1/topics/t?confirm=t&bogus=1"),
    ];
    for (method, path) in paths {
        let answer = broker.ask(method, path).send().await;
        answer.invalid("bogus");
    }
}

#[tokio::test]
async fn a_parameter_is_rejected_on_a_route_without_parameters() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
    for path in ["healthz", "readyz", "version", "topics/t", "topics/t/groups/g"] {
        let answer = broker.get(format!("/v1/{path}?bogus=1")).await;
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn a_duplicate_parameter_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for query in ["topic=t&topic=t&value=x", "topic=t&value=x&value=x"] {
        broker.post_query(format!("/v1/produce?{query}")).await.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn null_equals_absent() {
    let broker = Broker::start().await;
    broker
        .post("/v1/topics", json!({ "name": "t", "partitions": null, "settings": null }))
        .await
        .is(201);
    let body = json!({ "topic": "t", "key": null, "value": "x", "value_base64": null,
        "envelope": { "run_id": null, "deadline": null, "partition_override": null, "retry_policy": null } });
    broker.post("/v1/produce", body).await.is(200);
    let body = json!({ "topic": "t", "group": "g", "owner": "o", "lease_ms": null, "max": null,
        "wait_ms": null, "start": null });
    let delivery = broker.receive_with(body).await;
    assert_eq!(delivery.get("envelope"), None, "no envelope was set: {delivery}");
    let body = json!({ "token": delivery["lease"]["token"], "topic": null, "offset": null, "owner": null });
    broker.ack(body).await.is(204);
}

#[tokio::test]
async fn numbers_must_be_integers() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for partitions in [json!(1.5), json!("1"), json!(1e0), json!(true), json!([1])] {
        let body = json!({ "name": "u", "partitions": partitions });
        broker.post("/v1/topics", body).await.refused(400, "INVALID_ARGUMENT");
    }
    for partitions in ["1.0", "x", "", "99999999999999999999"] {
        let path = format!("/v1/topics?name=u&partitions={partitions}");
        broker.post_query(path).await.invalid("partitions");
    }
}

#[tokio::test]
async fn a_body_has_at_most_eight_mebibytes() {
    let broker = Broker::start().await;
    let padded = |bytes: usize| {
        let mut body = br#"{"name":"t"}"#.to_vec();
        body.resize(bytes, b' ');
        body
    };
    broker.ask("POST", "/v1/topics").body(padded(8 << 20)).send().await.is(201);
    let answer = broker.ask("POST", "/v1/topics").body(padded((8 << 20) + 1)).send().await;
    let body = answer.refused(413, "TOO_LARGE");
    assert_eq!(body["limit"], 8 << 20, "{body}");
    assert!(body["field"].is_string(), "{body}");
}

#[tokio::test]
async fn a_body_far_over_the_limit_is_rejected() {
    let broker = Broker::start().await;
    let body = vec![b' '; 32 << 20];
    broker.ask("POST", "/v1/topics").body(body).send().await.refused(413, "TOO_LARGE");
}

#[tokio::test]
async fn a_body_that_arrives_too_slowly_is_rejected() {
    let broker = Broker::in_memory().await;
    let mut raw = crate::raw::Raw::connect(broker.address()).await;
    let head = "POST /v1/topics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 12\r\n\
                connection: close\r\n\r\n{";
    raw.write(head.as_bytes()).await;
    broker.get("/v1/healthz").await.is(200);
    // From here on, time advances as soon as every task waits.
    tokio::time::pause();
    let answer = raw.until_closed().await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    for part in [r#""error":"REQUEST_TIMEOUT""#, r#""retryable":true"#, r#""outcome":"none""#] {
        assert!(answer.contains(part), "{answer}");
    }
}
