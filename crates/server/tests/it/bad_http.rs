//! Malformed HTTP: wrong lengths, a second request smuggled into a first, and forged ids, cursors
//! and tokens. None is answered with 5xx, none hangs, none stores anything.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use driftq_core::{
    Generation, GroupId, Lane, LeaseToken, MessageId, ShardId, Timestamp, TokenKeys, TokenVersion,
    TopicId,
};
use serde_json::json;

use crate::broker::Broker;
use crate::raw::Raw;
use crate::verbs::{wanted, without_rates};

/// Longer than any of these requests may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends `bytes` and nothing more. Returns the statuses of all replies.
async fn statuses(broker: &Broker, bytes: &[u8], is_cut: bool) -> Vec<u16> {
    let mut raw = Raw::connect(broker.address()).await;
    raw.write(bytes).await;
    if is_cut {
        raw.end().await;
    }
    let shown: String = String::from_utf8_lossy(bytes).chars().take(200).collect();
    let answers = tokio::time::timeout(PATIENCE, raw.until_closed()).await;
    let answers = answers.unwrap_or_else(|_| panic!("no end of the reply to {shown:?}"));
    let codes = answers.split("HTTP/1.1 ").skip(1);
    codes.map(|answer| answer[..3].parse().expect("a status")).collect()
}

/// A request to create a topic with these headers and this body.
fn create(headers: &str, body: &str) -> String {
    format!(
        "POST /v1/topics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n{body}"
    )
}

/// A valid chunked body.
const CHUNKS: &str = "c\r\n{\"name\":\"n\"}\r\n0\r\n\r\n";

/// Bytes that could be parsed as a second request.
const SECOND: &str = "POST /v1/topics?name=second HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[tokio::test]
async fn a_wrong_content_length_stores_nothing() {
    let broker = Broker::start().await;
    let body = r#"{"name":"n"}"#;
    let rows: [(&str, String); 27] = [
        ("two lengths", create("content-length: 12\r\ncontent-length: 11\r\n", body)),
        ("two lengths in one", create("content-length: 12, 11\r\n", body)),
        ("a negative one", create("content-length: -12\r\n", body)),
        ("a plus", create("content-length: +12\r\n", body)),
        ("hex", create("content-length: 0xc\r\n", body)),
        ("none", create("content-length: \r\n", body)),
        ("too many digits", create("content-length: 18446744073709551628\r\n", body)),
        ("a space before the colon", create("content-length : 12\r\n", body)),
        ("folded", create("content-length:\r\n 12\r\n", body)),
        ("other than chunked", create("transfer-encoding: xchunked\r\n", body)),
        ("compressed and chunked", create("transfer-encoding: gzip, chunked\r\n", CHUNKS)),
        ("identity and chunked", create("transfer-encoding: identity, chunked\r\n", CHUNKS)),
        ("chunked twice", create("transfer-encoding: chunked, chunked\r\n", CHUNKS)),
        (
            "chunked in two lines",
            create("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", CHUNKS),
        ),
        ("no host", create("content-length: 12\r\n", body).replace("host: localhost\r\n", "")),
        ("chunked, then not", create("transfer-encoding: chunked, identity\r\n", body)),
        ("not hex", create("transfer-encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n")),
        ("negative", create("transfer-encoding: chunked\r\n", "-2\r\n{}\r\n0\r\n\r\n")),
        ("over 64 bits", create("transfer-encoding: chunked\r\n", "10000000000000000c\r\n{")),
        (
            "too short",
            create("transfer-encoding: chunked\r\n", "3\r\n{\"name\":\"n\"}\r\n0\r\n\r\n"),
        ),
        ("bare line ends", create("transfer-encoding: chunked\r\n", "c\n{\"name\":\"n\"}\n0\n\n")),
        ("no size", create("transfer-encoding: chunked\r\n", "\r\n\r\n")),
        (
            "chunked in 1.0",
            create("transfer-encoding: chunked\r\n", "c\r\n{\"name\":\"n\"}\r\n0\r\n\r\n")
                .replace("HTTP/1.1", "HTTP/1.0"),
        ),
        ("a NUL in a name", create("content-\0length: 12\r\n", body)),
        ("a NUL in a value", create("content-length: 1\x002\r\n", body)),
        ("no version", "POST /v1/topics?name=n\r\n\r\n".to_owned()),
        ("a space in the path", "POST /v1/topics?name=n x HTTP/1.1\r\n\r\n".to_owned()),
    ];
    for (what, bytes) in rows {
        let codes = statuses(&broker, bytes.as_bytes(), false).await;
        assert_eq!(codes, [400], "{what}");
        broker.get("/v1/healthz").await.is(200);
        assert_eq!(broker.get("/v1/topics").await.is(200), json!({ "topics": [] }), "{what}");
    }
}

#[tokio::test]
async fn a_truncated_request_stores_nothing() {
    let broker = Broker::start().await;
    let rows = [
        create("content-length: 13\r\n", r#"{"name":"n"}"#),
        create("content-length: 12\r\n", ""),
        create("transfer-encoding: chunked\r\n", "c\r\n{\"name\":\"n\"}\r\n"),
        create("transfer-encoding: chunked\r\n", "d\r\n{\"name\":\"n\"}"),
        create("transfer-encoding: chunked\r\n", "c\r\n{\"name\":\"n\"}\r\n0\r\n"),
        create("content-length: 12\r\n", r#"{"name":"n"}"#)[..60].to_owned(),
        "POST /v1/topics?name=n HTTP/1.1\r\nhost: localhost\r\n".to_owned(),
    ];
    for bytes in rows {
        let codes = statuses(&broker, bytes.as_bytes(), true).await;
        assert!(codes.is_empty() || codes == [400], "{codes:?} to {bytes:?}");
        assert_eq!(broker.get("/v1/topics").await.is(200), json!({ "topics": [] }), "{bytes:?}");
    }
}

#[tokio::test]
async fn a_request_smuggled_into_another_is_not_executed() {
    let broker = Broker::start().await;
    let both = "content-length: 5\r\ntransfer-encoding: chunked\r\n";
    let turned = "transfer-encoding: chunked\r\ncontent-length: 5\r\n";
    let kept = |request: String| request.replace("connection: close\r\n", "");
    let rows = [
        // Both a length and chunks: by its chunks the request has no body. The connection is not
        // reused.
        (kept(create(both, &format!("0\r\n\r\n{SECOND}"))), vec![400]),
        (kept(create(turned, &format!("0\r\n\r\n{SECOND}"))), vec![400]),
        (kept(create("content-length: 0\r\ncontent-length: 5\r\n", SECOND)), vec![400]),
        // The second request is the complete body of the first, and not JSON.
        (create(&format!("content-length: {}\r\n", SECOND.len()), SECOND), vec![400]),
        (create("content-length: 0\r\n", SECOND), vec![400]),
        // Inside a header, a name or a version.
        (create("x-a: b\rPOST /v1/topics?name=second HTTP/1.1\r\n", ""), vec![400]),
        (create("x-a: b\nPOST /v1/topics?name=second HTTP/1.1\r\n", ""), vec![400]),
    ];
    for (bytes, expected) in rows {
        let codes = statuses(&broker, bytes.as_bytes(), false).await;
        assert_eq!(codes, expected, "{bytes:?}");
        assert_eq!(broker.get("/v1/topics").await.is(200), json!({ "topics": [] }), "{bytes:?}");
    }
}

#[tokio::test]
async fn a_connection_is_closed_after_a_transfer_coding_other_than_chunked() {
    let broker = Broker::start().await;
    let first =
        "POST /v1/topics HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip, chunked\r\n\r\n";
    let bytes = format!("{first}0\r\n\r\n{SECOND}");
    assert_eq!(statuses(&broker, bytes.as_bytes(), false).await, [400]);
    assert_eq!(broker.get("/v1/topics").await.is(200), json!({ "topics": [] }));
}

#[tokio::test]
async fn http_1_0_needs_no_host() {
    let broker = Broker::start().await;
    let mut raw = Raw::connect(broker.address()).await;
    raw.write(b"GET /v1/topics HTTP/1.0\r\n\r\n").await;
    let answer = raw.until_closed().await;
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
}

#[tokio::test]
async fn one_foreign_host_among_several_is_rejected() {
    let broker = Broker::start().await;
    for hosts in [["localhost", "example.com"], ["example.com", "localhost"]] {
        let bytes = format!(
            "POST /v1/topics?name=n HTTP/1.1\r\nhost: {}\r\nhost: {}\r\nconnection: close\r\n\r\n",
            hosts[0], hosts[1]
        );
        assert_eq!(statuses(&broker, bytes.as_bytes(), false).await, [403], "{hosts:?}");
    }
    let absolute = "POST http://example.com/v1/topics?name=n HTTP/1.1\r\nhost: localhost\r\n\
                    connection: close\r\n\r\n";
    assert_eq!(statuses(&broker, absolute.as_bytes(), false).await, [403]);
    assert_eq!(broker.get("/v1/topics").await.is(200), json!({ "topics": [] }));
}

#[tokio::test]
async fn one_disallowed_origin_among_several_is_rejected() {
    let allowed = "http://localhost:3000";
    let broker = Broker::with(|config| config.allowed_origins = vec![allowed.to_owned()]).await;
    for origins in [[allowed, "http://example.com"], ["http://example.com", allowed]] {
        let ask = broker.ask("POST", "/v1/topics?name=n").header("origin", origins[0]);
        ask.header("origin", origins[1]).send().await.refused(403, "PERMISSION_DENIED");
    }
}

#[tokio::test]
async fn unusual_methods_and_targets_are_answered() {
    let broker = Broker::start().await;
    let close = "host: localhost\r\nconnection: close\r\n\r\n";
    let line = |line: &str| format!("{line} HTTP/1.1\r\n{close}");
    let many = format!("GET /v1/topics HTTP/1.1\r\n{}{close}", "x: y\r\n".repeat(200));
    let rows = [
        (line("OPTIONS *"), 404),
        (line("CONNECT localhost:80"), 404),
        (line("FROBNICATE /v1/topics"), 405),
        (line("OPTIONS /v1/topics"), 405),
        (line(&format!("GET /v1/topics/{}", "a".repeat(70_000))), 414),
        (line(&format!("GET /v1/topics?cursor={}", "a".repeat(60_000))), 400),
        (many, 431),
        (format!("GET /v1/topics HTTP/1.1\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n{close}"), 200),
        (format!("GET /v1/topics HTTP/1.1\r\nexpect: the-unexpected\r\n{close}"), 200),
    ];
    for (bytes, expected) in rows {
        let codes = statuses(&broker, bytes.as_bytes(), false).await;
        let shown: String = bytes.chars().take(80).collect();
        assert_eq!(codes, [expected], "{shown:?}");
    }
    broker.get("/v1/healthz").await.is(200);
}

#[tokio::test]
async fn a_head_request_for_a_stream_ends() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let head = "HEAD /v1/consume?topic=t&group=g&owner=o HTTP/1.1\r\nhost: localhost\r\n\
                connection: close\r\n\r\n";
    assert_eq!(statuses(&broker, head.as_bytes(), false).await, [200]);
    let gone = |group: &serde_json::Value| crate::verbs::connections(group).is_empty();
    broker.until_group("t", "g", "no consumer", gone).await;
}

#[tokio::test]
async fn half_a_million_unknown_settings_are_rejected_quickly() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let names: Vec<String> = (0..500_000).map(|number| format!("\"{number:x}\":1")).collect();
    let settings = format!(r#"{{"settings":{{{}}}}}"#, names.join(","));
    let patch = broker.ask("PATCH", "/v1/topics/t").body(settings).send();
    let answer = tokio::time::timeout(PATIENCE, patch).await.expect("a quick rejection");
    answer.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn the_rejection_of_a_long_request_is_short() {
    let broker = Broker::start().await;
    let long = "x".repeat(1 << 20);
    for body in [format!(r#"{{"{long}":1}}"#), format!(r#"{{"name":"n","partitions":"{long}"}}"#)] {
        let answer = broker.ask("POST", "/v1/topics").body(body).send().await;
        answer.refused(400, "INVALID_ARGUMENT");
        assert!(answer.body.len() < 4_000, "{} bytes", answer.body.len());
    }
    let query = "x".repeat(50_000);
    let answer = broker.post_query(format!("/v1/topics?{query}=1")).await;
    answer.refused(400, "INVALID_ARGUMENT");
    assert!(answer.body.len() < 4_000, "{} bytes", answer.body.len());
}

/// Numbers at the limits of a row, a lane or JSON.
const EDGES: [u64; 8] =
    [0, 1, 1_023, 1_024, u32::MAX as u64, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX];

#[tokio::test]
async fn forged_ids_are_rejected_or_not_found() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    broker.nack(crate::verbs::token(&delivery), json!({ "dead_letter": true })).await.is(204);
    broker.produce("t", "y").await;
    let stored = || async {
        [without_rates(broker.show("t").await), broker.get("/v1/dlq/t?state=all").await.is(200)]
    };
    let before = stored().await;
    let dead = before[1]["dead_letters"][0]["id"].as_str().expect("an id");
    let dead: MessageId = dead.parse().expect("an id");
    let mut ids = Vec::new();
    for edge in EDGES {
        let (small, number) = (edge as u32, edge);
        ids.push(MessageId { offset: number.wrapping_add(1), ..dead });
        ids.push(MessageId { lane: Lane(small.wrapping_add(1)), ..dead });
        ids.push(MessageId { topic: TopicId(number.wrapping_add(100)), ..dead });
        ids.push(MessageId { lane: Lane(u32::MAX), offset: number, ..dead });
    }
    ids.retain(|id| *id != dead);
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    for id in &ids {
        let answer = broker.get(format!("/v1/explain?id={id}")).await;
        assert!(answer.status == 404 || answer.status == 200, "{id}: {answer:?}");
    }
    let answer = broker.post("/v1/dlq/t/redrive", json!({ "ids": ids })).await.is(200);
    assert_eq!(answer["redriven"], 0, "{answer}");
    let all_missing = |one: &serde_json::Value| one["error"] == "NOT_FOUND";
    assert!(answer["results"].as_array().expect("a list").iter().all(all_missing), "{answer}");
    let purge = json!({ "ids": ids, "confirm": 0 });
    assert_eq!(broker.post("/v1/dlq/t/purge", purge).await.is(200), json!({ "purged": 0 }));
    assert_eq!(stored().await, before);
}

#[tokio::test]
async fn forged_offsets_and_cursors_are_handled() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    broker.nack(crate::verbs::token(&delivery), json!({ "dead_letter": true })).await.is(204);
    for edge in EDGES {
        let cursor = |place: String| BASE64URL_NOPAD.encode(place.as_bytes());
        let (peek, dlq) = (cursor(format!("0:{edge}")), cursor(edge.to_string()));
        broker.get(format!("/v1/topics/t/messages?cursor={peek}")).await.is(200);
        broker.get(format!("/v1/topics/t/messages?cursor={peek}&group=g")).await.is(200);
        broker.get(format!("/v1/dlq/t?cursor={dlq}")).await.is(200);
        broker.get(format!("/v1/topics?detail=true&cursor={dlq}")).await.is(200);
        broker.get(format!("/v1/topics/t/groups?cursor={dlq}")).await.is(200);
        for path in [
            format!("/v1/topics/t/messages?partition=0&from={edge}"),
            format!("/v1/explain?topic=t&partition=0&offset={edge}"),
            format!("/v1/explain?topic=t&partition={edge}&offset=0"),
        ] {
            let answer = broker.get(path.clone()).await;
            assert!([200, 400, 404].contains(&answer.status), "{path}: {answer:?}");
        }
        let place =
            json!({ "topic": "t", "group": "g", "partition": 0, "offset": edge, "owner": "p" });
        for verb in ["ack", "nack", "extend"] {
            let answer = broker.post(format!("/v1/{verb}"), place.clone()).await;
            assert!([204, 400, 409].contains(&answer.status), "{verb} {edge}: {answer:?}");
        }
        let seek = json!({ "to": { "partition": 0, "offset": edge }, "dry_run": true });
        let answer = broker.post("/v1/topics/t/groups/g/seek", seek).await;
        assert!([200, 400].contains(&answer.status), "{edge}: {answer:?}");
    }
    broker.receive_now("t", "g", "o").await;
}

#[tokio::test]
async fn forged_tokens_are_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive_with(wanted("t", "g", "o")).await;
    let real = delivery["lease"]["token"].as_str().expect("a token");
    for key in [[0; 32], [0xff; 32]] {
        for number in 0..=3 {
            let token = LeaseToken {
                restore: 0,
                namespace: "default".into(),
                shard: ShardId(0),
                topic: TopicId(1),
                lane: Lane(u32::MAX),
                offset: u64::MAX,
                group: GroupId(2),
                generation: Generation(3),
                attempt: 1,
                granted_at: Timestamp(0),
            };
            let forged = TokenKeys::new(number, key).mint(TokenVersion::V2, &token);
            for verb in ["ack", "nack", "extend"] {
                let answer = broker.post(format!("/v1/{verb}"), json!({ "token": forged })).await;
                answer.invalid("token");
            }
            broker.get(format!("/v1/explain?token={forged}")).await.invalid("token");
        }
    }
    // A change of any bit of a valid token must be detected.
    let bytes = BASE64URL_NOPAD.decode(&real.as_bytes()[3..]).expect("a token is base64");
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        let changed = format!("lt_{}", BASE64URL_NOPAD.encode(&changed));
        broker.ack(json!({ "token": changed })).await.invalid("token");
    }
    assert_eq!(broker.group("t", "g").await["leased"], 1);
}

#[tokio::test]
async fn a_list_with_too_many_items_is_rejected_with_its_field() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let rows = [
        ("/v1/settle", "items", "{}", "must have between 1 and 1000 items"),
        ("/v1/produce/batch", "messages", r#"{"topic":""}"#, "must have between 1 and 1000 items"),
        ("/v1/dlq/t/redrive", "ids", r#""""#, "must have between 1 and 1000 items"),
        ("/v1/dlq/t/purge", "ids", r#""""#, "must have between 1 and 100000 items"),
        ("/v1/commit", "produce", r#"{"topic":""}"#, "must have at most 100 items"),
        (
            "/v1/commit",
            "pointers",
            r#"{"dataset":"","version":"","partition_key":"","location":""}"#,
            "must have at most 100 items",
        ),
    ];
    for (path, field, item, message) in rows {
        // The longest body allowed.
        let count = ((8 << 20) - 100) / (item.len() + 1);
        let body = format!(r#"{{"{field}":[{}]}}"#, vec![item; count].join(","));
        let refused = broker.ask("POST", path).body(body).send().await.invalid(field);
        assert_eq!(refused["message"], format!("{field}: {message}"), "{path}");
    }
    let long = format!(r#"{{"to":[{}]}}"#, vec!["0"; 4_000_000].join(","));
    broker.ask("POST", "/v1/topics/t/groups/g/seek").body(long).send().await.invalid("to");
}
