//! The stream of deliveries.

use std::time::Duration;

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;
use crate::lines::Lines;
use crate::raw::Raw;
use crate::verbs::{connections, time, token, wanted, with};

async fn stream(broker: &Client, more: Value) -> Lines {
    let body = with(wanted("t", "g", "o"), more);
    let stream = broker.ask("POST", "/v1/consume").json(&body).stream().await;
    assert_eq!(stream.status, 200);
    stream
}

#[tokio::test]
async fn a_stream_is_ndjson_and_starts_at_once() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let stream = stream(&broker, json!({})).await;
    let header = |name: &str| stream.headers[name].to_str().expect("text");
    assert_eq!(header("content-type"), "application/x-ndjson; charset=utf-8");
    assert_eq!(header("x-accel-buffering"), "no");
    assert_eq!(header("cache-control"), "no-store");
    assert!(!header("x-request-id").is_empty());
}

#[tokio::test]
async fn a_stream_can_be_requested_in_three_forms() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let query = "/v1/consume?topic=t&group=q&owner=o&lease_ms=1000&prefetch=1&start=earliest";
    let mut by_query = broker.ask("GET", query).stream().await;
    let body = json!({ "topic": "t", "group": "b", "owner": "o", "lease_ms": 1000, "prefetch": 1 });
    let mut by_get = broker.ask("GET", "/v1/consume").json(&body).stream().await;
    let body = with(body, json!({ "group": "p" }));
    let mut by_post = broker.ask("POST", "/v1/consume").json(&body).stream().await;
    broker.produce("t", "x").await;
    for (stream, group) in [(&mut by_query, "q"), (&mut by_get, "b"), (&mut by_post, "p")] {
        let delivery = stream.next().await;
        assert_eq!(delivery["group"], group);
        let lease = time(&delivery["lease"]["expires_at"]) - time(&delivery["produced_at"]);
        assert!((1_000..5_000).contains(&lease), "{lease}");
    }
}

#[tokio::test]
async fn topic_group_and_owner_are_required() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for query in ["group=g&owner=o", "topic=t&owner=o", "topic=t&group=g", "topic=t&group=g&owner="]
    {
        broker.get(format!("/v1/consume?{query}")).await.refused(400, "INVALID_ARGUMENT");
        let path = format!("/v1/receive?{query}&wait_ms=0");
        broker.post_query(path).await.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn an_owner_is_1_to_255_printable_bytes() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let longest = "o".repeat(255);
    let too_long = "o".repeat(256);
    let half = "ü".repeat(128);
    for owner in ["o", "Größe 7/b", &longest] {
        let now = with(wanted("t", "g", owner), json!({ "wait_ms": 0 }));
        broker.post("/v1/receive", now).await.is(200);
    }
    for owner in ["", "a\nb", "a\u{0}", "\u{7f}", &too_long, &half] {
        let now = with(wanted("t", "g", owner), json!({ "wait_ms": 0 }));
        broker.post("/v1/receive", now).await.refused(400, "INVALID_ARGUMENT");
        broker.post("/v1/consume", wanted("t", "g", owner)).await.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn lease_ms_and_prefetch_have_limits() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for (field, inside, outside) in
        [("lease_ms", [250, 43_200_000], [249, 43_200_001]), ("prefetch", [1, 10_000], [0, 10_001])]
    {
        for value in inside {
            stream(&broker, json!({ field: value })).await;
        }
        for value in outside.into_iter().chain([-1]) {
            let body = with(wanted("t", "g", "o"), json!({ field: value }));
            let answer = broker.ask("POST", "/v1/consume").json(&body).stream().await;
            assert_eq!(answer.status, 400, "{field} {value}");
            answer.into_answer().await.refused(400, "INVALID_ARGUMENT");
        }
    }
    for start in [json!("middle"), json!(0), json!({ "offset": 1 })] {
        let bad = with(wanted("t", "g", "o"), json!({ "start": start }));
        broker.post("/v1/consume", bad).await.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn a_stream_has_a_default_prefetch_of_two() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for value in ["a", "b", "c", "d"] {
        broker.produce("t", value).await;
    }
    let mut stream = stream(&broker, json!({})).await;
    let a = stream.next().await;
    let b = stream.next().await;
    assert_eq!((&a["value"], &b["value"]), (&json!("a"), &json!("b")));
    let group = broker.group("t", "g").await;
    assert_eq!(group["leased"], 2);
    assert_eq!(group["partitions"][0]["blocked"], "consumers_full");
    broker.ack(token(&b)).await.is(204);
    assert_eq!(stream.next().await["value"], "c");
    broker.nack(token(&a), json!({ "delay_ms": 60_000 })).await.is(204);
    assert_eq!(stream.next().await["value"], "d");
}

#[tokio::test]
async fn an_expired_lease_frees_its_prefetch() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "a").await;
    broker.produce("t", "b").await;
    let mut stream = stream(&broker, json!({ "prefetch": 1, "lease_ms": 250 })).await;
    assert_eq!(stream.next().await["value"], "a");
    let next = stream.next().await;
    assert!(next["value"] == "b" || next["attempts"] == 2, "{next}");
}

#[tokio::test]
async fn fresh_messages_are_delivered_in_order() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let mut stream = stream(&broker, json!({ "prefetch": 1000 })).await;
    for number in 0..50 {
        broker.produce("t", &number.to_string()).await;
    }
    for number in 0..50 {
        assert_eq!(stream.next().await["value"], number.to_string());
    }
}

#[tokio::test]
async fn consumers_of_a_group_receive_messages_in_turns() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let mut first = stream(&broker, json!({ "prefetch": 100 })).await;
    let mut second = stream(&broker, json!({ "prefetch": 100, "owner": "p" })).await;
    for value in ["a", "b", "c", "d", "e", "f"] {
        broker.produce("t", value).await;
    }
    let mut values = Vec::new();
    for _ in 0..3 {
        values.push(first.next().await["value"].as_str().expect("text").to_owned());
        values.push(second.next().await["value"].as_str().expect("text").to_owned());
    }
    values.sort();
    assert_eq!(values, ["a", "b", "c", "d", "e", "f"]);
    assert_eq!(broker.group("t", "g").await["leased"], 6);
}

#[tokio::test]
async fn two_streams_of_one_owner_are_one_consumer_with_two_connections() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let _first = stream(&broker, json!({})).await;
    let _second = stream(&broker, json!({})).await;
    let group = broker.group("t", "g").await;
    assert_eq!(group["consumers"].as_array().map(Vec::len), Some(1));
    assert_eq!(connections(&group).len(), 2);
}

#[tokio::test]
async fn an_idle_stream_has_a_blank_line_every_fifteen_seconds() {
    let broker = Broker::in_memory().await;
    broker.topic("t").await;
    let mut stream = stream(&broker, json!({})).await;
    // From here on, time advances as soon as every task waits.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    for beats in 1..=3 {
        assert_eq!(stream.line().await.as_deref(), Some(""));
        let after = began.elapsed().as_secs_f64() - 15.0 * f64::from(beats);
        assert!(after.abs() < 1.0, "heartbeat {beats} is {after} s off");
    }
    tokio::time::resume();
    broker.produce("t", "x").await;
    assert_eq!(stream.line().await.map(|line| line.contains("\"value\":\"x\"")), Some(true));
}

#[tokio::test]
async fn a_stream_ends_when_its_group_or_topic_is_deleted() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let mut first = stream(&broker, json!({})).await;
    broker.delete("/v1/topics/t/groups/g?confirm=g").await.is(200);
    first.ends().await;
    let mut second = stream(&broker, json!({})).await;
    broker.delete("/v1/topics/t?confirm=t").await.is(200);
    second.ends().await;
    let answer = broker.get("/v1/consume?topic=t&group=g&owner=o").await;
    assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], "topic");
}

#[tokio::test]
async fn a_poll_ends_when_its_group_or_topic_is_deleted() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for path in ["/v1/topics/t/groups/g?confirm=g", "/v1/topics/t?confirm=t"] {
        let body = with(wanted("t", "g", "o"), json!({ "wait_ms": 60_000 }));
        let ask = broker.ask("POST", "/v1/receive").json(&body);
        let poll = tokio::spawn(ask.send());
        // The poll joins the group before it is answered.
        let mut looks = tokio::time::interval(Duration::from_millis(5));
        while connections(&broker.get("/v1/topics/t/groups/g").await.json()).is_empty() {
            looks.tick().await;
        }
        broker.delete(path).await.is(200);
        let answer = poll.await.expect("no panic");
        assert!([200, 404].contains(&answer.status), "{answer:?}");
    }
}

#[tokio::test]
async fn a_draining_server_ends_its_streams_and_polls() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let mut stream = stream(&broker, json!({})).await;
    stream.next().await;
    let poll = with(wanted("t", "idle", "o"), json!({ "wait_ms": 60_000, "start": "latest" }));
    let poll = tokio::spawn(broker.ask("POST", "/v1/receive").json(&poll).send());
    broker.until_group("t", "idle", "the poll", |group| !connections(group).is_empty()).await;
    tokio::join!(broker.stop(), async {
        stream.ends().await;
        assert_eq!(poll.await.expect("no panic").is(200), json!({ "messages": [] }));
    });
}

#[tokio::test]
async fn messages_a_client_was_never_sent_are_given_back_uncounted() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_bytes": 1u64 << 30 })).await;
    let large = "x".repeat(1 << 20);
    for _ in 0..8 {
        broker.produce("t", &large).await;
    }
    let mut raw = Raw::connect(broker.address()).await;
    let head = "GET /v1/consume?topic=t&group=g&owner=gone&prefetch=8&lease_ms=3600000 HTTP/1.1\r\n\
                host: localhost\r\n\r\n";
    raw.write(head.as_bytes()).await;
    raw.head().await;
    // The client holds its full prefetch but reads none of it, and the socket buffer cannot contain
    // it all.
    broker
        .until_group("t", "g", "prefetched messages", |group| group["leased"].as_u64() > Some(6))
        .await;
    drop(raw);
    let delivery = broker.receive("t", "g", "next").await;
    assert_eq!(delivery["attempts"], 1, "the attempt is not counted");
    assert_eq!(delivery["last_error"], "");
    assert_eq!(delivery["lease"]["attempt"], 2, "no attempt number is granted twice");
}

#[tokio::test]
async fn a_message_a_client_has_read_keeps_its_lease_after_disconnect() {
    let broker = Broker::start().await;
    let policy = json!({ "max_attempts": 3, "backoff_ms": 0, "max_backoff_ms": 0 });
    broker.topic_with("t", 1, json!({ "retry_policy": policy })).await;
    broker.produce("t", "x").await;
    let mut first = stream(&broker, json!({ "lease_ms": 2_000 })).await;
    let delivery = first.next().await;
    drop(first);
    broker.until_group("t", "g", "no consumer", |group| connections(group).is_empty()).await;
    assert!(broker.receive_now("t", "g", "o").await.is_empty(), "the worker may still ack");
    broker.ack(token(&delivery)).await.is(204);
    assert_eq!(broker.group("t", "g").await["backlog"], 0);
}

#[tokio::test]
async fn a_client_that_reads_nothing_for_thirty_seconds_is_disconnected() {
    let broker = Broker::in_memory().await;
    broker.topic("t").await;
    let large = "x".repeat(1 << 20);
    for _ in 0..8 {
        broker.produce("t", &large).await;
    }
    let mut raw = Raw::connect(broker.address()).await;
    let head = "GET /v1/consume?topic=t&group=g&owner=asleep&prefetch=8&lease_ms=3600000 HTTP/1.1\r\n\
                host: localhost\r\n\r\n";
    raw.write(head.as_bytes()).await;
    raw.head().await;
    broker
        .until_group("t", "g", "prefetched messages", |group| group["leased"].as_u64() > Some(6))
        .await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    let group =
        broker.until_group("t", "g", "no consumer", |group| connections(group).is_empty()).await;
    assert!(group["leased"].as_u64() < Some(8), "{group}");
    assert_eq!(broker.receive("t", "g", "next").await["attempts"], 1);
    drop(raw);
}

#[tokio::test]
async fn a_stream_has_a_byte_limit_but_always_holds_one_message() {
    let broker = Broker::with(|config| config.limits.stream_bytes = 10).await;
    broker.topic("t").await;
    for value in ["123456789012345", "1234", "1234", "1234"] {
        broker.produce("t", value).await;
    }
    let mut stream = stream(&broker, json!({ "prefetch": 100 })).await;
    let first = stream.next().await;
    assert_eq!(broker.group("t", "g").await["leased"], 1);
    broker.ack(token(&first)).await.is(204);
    stream.next().await;
    stream.next().await;
    assert_eq!(broker.group("t", "g").await["leased"], 2);
}
