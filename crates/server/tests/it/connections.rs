//! Idle connections, incomplete requests, and too many connections.

use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::broker::Broker;
use crate::raw::Raw;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEALTH: &[u8] = b"GET /v1/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
const CONSUME: &[u8] =
    b"GET /v1/consume?topic=t&group=g&owner=o HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A connection that has sent these bytes and that the server has accepted.
async fn sent(broker: &Broker, bytes: &[u8]) -> Raw {
    let mut raw = Raw::connect(broker.address()).await;
    raw.write(bytes).await;
    // Connections are accepted in order.
    broker.get("/v1/healthz").await.is(200);
    raw
}

/// How long a connection stays open that sends these bytes and no more.
async fn life(bytes: &[u8]) -> Duration {
    let broker = Broker::in_memory().await;
    let mut raw = sent(&broker, bytes).await;
    // From here on, time advances as soon as every task waits.
    tokio::time::pause();
    let began = Instant::now();
    raw.until_closed().await;
    let lived = began.elapsed();
    tokio::time::resume();
    lived
}

#[tokio::test]
async fn a_connection_must_show_its_http_version_within_ten_seconds() {
    for bytes in [&b""[..], b"P", b"PRI * HTTP", &PREFACE[..23]] {
        let lived = life(bytes).await.as_secs_f64();
        assert!((9.0..11.0).contains(&lived), "{lived} s after {bytes:?}");
    }
}

#[tokio::test]
async fn headers_must_be_complete_within_thirty_seconds() {
    for bytes in [&b"GET / HT"[..], b"POST /v1/topics HTTP/1.1\r\nhost: loc", HEALTH] {
        let lived = life(bytes).await.as_secs_f64();
        assert!((29.0..31.0).contains(&lived), "{lived} s after {bytes:?}");
    }
}

#[tokio::test]
async fn http_2_that_is_silent_after_its_preface_is_closed() {
    // Without settings, and with settings but without a reply to the ping.
    for bytes in [PREFACE, &[PREFACE, b"\0\0\0\x04\0\0\0\0\0"].concat()] {
        let lived = life(bytes).await.as_secs_f64();
        assert!(lived < 66.0, "{lived} s after {bytes:?}");
    }
}

type Sender = http2::SendRequest<String>;

/// An HTTP/2 client and its connection task.
async fn speak_http2(broker: &Broker) -> (Sender, tokio::task::JoinHandle<hyper::Result<()>>) {
    let stream = TcpStream::connect(broker.address()).await.expect("it listens");
    let io = TokioIo::new(stream);
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), io).await.expect("it speaks it");
    (sender, tokio::spawn(connection))
}

fn http2_get(path: &str) -> hyper::Request<String> {
    let request = hyper::Request::get(format!("http://localhost{path}"));
    request.body(String::new()).expect("a request")
}

#[tokio::test]
async fn http_2_without_a_stream_ends_after_a_minute() {
    let broker = Broker::in_memory().await;
    let (mut sender, connection) = speak_http2(&broker).await;
    let answer = sender.send_request(http2_get("/v1/topics")).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    drop(answer);
    tokio::time::pause();
    let began = Instant::now();
    // The client answers pings all the time, and the connection is closed without an error.
    connection.await.expect("no panic").expect("an end without an error");
    let lived = began.elapsed().as_secs_f64();
    assert!((59.0..66.0).contains(&lived), "{lived} s");
}

#[tokio::test]
async fn http_2_with_an_open_stream_stays_open() {
    let broker = Broker::in_memory().await;
    broker.topic("t").await;
    let (mut sender, connection) = speak_http2(&broker).await;
    let consume = http2_get("/v1/consume?topic=t&group=g&owner=o");
    let stream = sender.send_request(consume).await.expect("an answer");
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert!(!connection.is_finished());
    drop(stream);
    connection.abort();
}

/// Requests health on a connection and reads the reply.
async fn ask(raw: &mut Raw) {
    raw.write(HEALTH).await;
    assert!(raw.head().await.contains("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_full_server_closes_the_connection_idle_the_longest() {
    let broker = Broker::with(|config| config.limits.connections = 2).await;
    let mut silent = Raw::connect(broker.address()).await;
    let mut kept = Raw::connect(broker.address()).await;
    ask(&mut kept).await;
    let mut third = Raw::connect(broker.address()).await;
    ask(&mut third).await;
    assert_eq!(silent.until_closed().await, "");
    ask(&mut kept).await;
    ask(&mut Raw::connect(broker.address()).await).await;
    let rest = third.until_closed().await;
    assert!(rest.ends_with(r#"{"status":"ok"}"#), "the answer is complete: {rest}");
    ask(&mut kept).await;
}

#[tokio::test]
async fn incomplete_requests_do_not_block_new_connections() {
    let broker = Broker::with(|config| config.limits.connections = 8).await;
    let mut open = Vec::new();
    let half: [&[u8]; 5] = [b"", b"P", &PREFACE[..20], b"GET / HT", PREFACE];
    for bytes in half.iter().cycle().take(40) {
        let mut raw = Raw::connect(broker.address()).await;
        raw.write(bytes).await;
        open.push(raw);
        broker.get("/v1/healthz").await.is(200);
    }
}

#[tokio::test]
async fn a_new_connection_is_rejected_if_all_others_are_busy() {
    let broker = Broker::with(|config| config.limits.connections = 1).await;
    broker.topic("t").await;
    let mut stream = Raw::connect(broker.address()).await;
    stream.write(CONSUME).await;
    assert!(stream.head().await.starts_with("HTTP/1.1 200"));
    let mut second = Raw::connect(broker.address()).await;
    let answer = second.until_closed().await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.to_lowercase().contains("retry-after: 1"), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["error"], "RESOURCE_EXHAUSTED");
    assert_eq!(body["reason"], "connections");
    assert_eq!(body["retryable"], true);
    assert_eq!(body["retry_after_ms"], 1_000);
    drop(stream);
}

#[tokio::test]
async fn the_rejection_of_a_connection_has_the_common_headers() {
    let broker = Broker::with(|config| config.limits.connections = 0).await;
    let mut raw = Raw::connect(broker.address()).await;
    let answer = raw.until_closed().await.to_lowercase();
    assert!(answer.contains("x-request-id: "), "{answer}");
    assert!(answer.contains("cache-control: no-store"), "{answer}");
    assert!(answer.contains("\"request_id\":"), "{answer}");
}

#[tokio::test]
async fn an_incomplete_unauthenticated_body_does_not_block_a_connection() {
    let broker = Broker::with(|config| {
        config.limits.connections = 1;
        config.api_key = Some("secret".to_owned().into());
    })
    .await;
    let mut slow = Raw::connect(broker.address()).await;
    slow.write(b"GET /v1/healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{").await;
    broker.get("/v1/healthz").await.is(200);
    assert_eq!(slow.until_closed().await, "");
}

#[tokio::test]
async fn a_stopping_server_does_not_wait_for_idle_connections() {
    let broker = Broker::start().await;
    let mut open = Vec::new();
    for bytes in [&b""[..], b"PRI", b"GET / HT", HEALTH, PREFACE] {
        open.push(sent(&broker, bytes).await);
    }
    let (mut sender, connection) = speak_http2(&broker).await;
    sender.send_request(http2_get("/v1/topics")).await.expect("an answer");
    let began = std::time::Instant::now();
    broker.stop().await;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    for mut raw in open {
        raw.until_closed().await;
    }
    connection.await.expect("no panic").expect("an end without an error");
}
