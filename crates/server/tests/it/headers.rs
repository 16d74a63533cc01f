//! Headers of every response, authentication and origin checks, and the methods of a path.

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::broker::Broker;
use crate::raw::Raw;

#[tokio::test]
async fn a_valid_request_id_is_returned() {
    let broker = Broker::start().await;
    let longest = "a".repeat(128);
    for id in ["x", "A-z0.9_", &longest] {
        let answer = broker.ask("GET", "/v1/healthz").header("x-request-id", id).send().await;
        assert_eq!(answer.header("x-request-id"), id);
        let answer = broker.ask("GET", "/nowhere").header("x-request-id", id).send().await;
        assert_eq!(answer.refused(404, "NOT_FOUND")["request_id"], id);
    }
}

#[tokio::test]
async fn an_invalid_request_id_is_replaced() {
    let broker = Broker::start().await;
    let too_long = "a".repeat(129);
    for id in ["", "a b", "a/b", "ü", &too_long] {
        let answer = broker.ask("GET", "/v1/healthz").header("x-request-id", id).send().await;
        let given = answer.header("x-request-id");
        assert_ne!(given, id);
        assert!((1..=128).contains(&given.len()), "{given}");
    }
}

#[tokio::test]
async fn every_request_has_its_own_id() {
    let broker = Broker::start().await;
    let first = broker.get("/v1/healthz").await;
    let second = broker.get("/v1/healthz").await;
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_not_found_in_json() {
    let broker = Broker::start().await;
    for path in
        ["/", "/healthz", "/topics", "/v2/topics", "/v1", "/v1/", "/v1/topics/", "/v1/bogus"]
    {
        let body = broker.get(path).await.refused(404, "NOT_FOUND");
        assert_eq!(body["kind"], "route", "{path}: {body}");
    }
}

#[tokio::test]
async fn an_unsupported_method_is_rejected_with_the_supported_ones() {
    let broker = Broker::start().await;
    let group = "/v1/topics/t/groups/g";
    let cases = [
        ("/v1/healthz", vec!["GET"]),
        ("/v1/readyz", vec!["GET"]),
        ("/v1/version", vec!["GET"]),
        ("/v1/topics", vec!["GET", "POST"]),
        ("/v1/topics/t", vec!["GET", "PATCH", "DELETE"]),
        ("/v1/topics/t/groups", vec!["GET"]),
        (group, vec!["GET", "PUT", "DELETE"]),
        ("/v1/topics/t/groups/g/pause", vec!["POST"]),
        ("/v1/topics/t/groups/g/resume", vec!["POST"]),
        ("/v1/topics/t/groups/g/seek", vec!["POST"]),
        ("/v1/produce", vec!["POST"]),
        ("/v1/produce/batch", vec!["POST"]),
        ("/v1/consume", vec!["GET", "POST"]),
        ("/v1/receive", vec!["POST"]),
        ("/v1/ack", vec!["POST"]),
        ("/v1/nack", vec!["POST"]),
        ("/v1/extend", vec!["POST"]),
        ("/v1/settle", vec!["POST"]),
    ];
    for (path, methods) in cases {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if methods.contains(&method) {
                continue;
            }
            let answer = broker.ask(method, path).send().await;
            answer.refused(405, "METHOD_NOT_ALLOWED");
            let allow = answer.header("allow");
            let mut allowed: Vec<&str> = allow.split(',').map(str::trim).collect();
            allowed.retain(|method| *method != "HEAD");
            allowed.sort_unstable();
            let mut methods = methods.clone();
            methods.sort_unstable();
            assert_eq!(allowed, methods, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn the_answer_to_head_has_no_body() {
    let broker = Broker::start().await;
    for (path, status) in [("/v1/topics", "200"), ("/v1/topics/missing", "404")] {
        let mut raw = Raw::connect(broker.address()).await;
        let request = |method| format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        raw.write(format!("{}\r\n", request("HEAD")).as_bytes()).await;
        raw.write(format!("{}connection: close\r\n\r\n", request("GET")).as_bytes()).await;
        let answers = raw.until_closed().await;
        let (head, rest) = answers.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        let (other, body) = rest.split_once("\r\n\r\n").expect("a head");
        assert!(other.starts_with(&format!("HTTP/1.1 {status}")), "{rest}");
        let length = format!("content-length: {}", body.len());
        assert!(head.contains(&length) && other.contains(&length), "{answers}");
    }
}

#[tokio::test]
async fn a_request_with_an_origin_is_rejected() {
    let broker = Broker::start().await;
    for origin in ["http://example.com", "http://localhost:3000", "null"] {
        for (method, path) in [("GET", "/v1/topics"), ("POST", "/v1/produce"), ("GET", "/nowhere")]
        {
            let answer = broker.ask(method, path).header("origin", origin).send().await;
            answer.refused(403, "PERMISSION_DENIED");
        }
    }
}

#[tokio::test]
async fn a_request_with_an_allowed_origin_is_accepted() {
    let ours = "https://example.com";
    let broker = Broker::with(|config| config.allowed_origins = vec![ours.to_owned()]).await;
    broker.ask("GET", "/v1/topics").header("origin", ours).send().await.is(200);
    for other in ["https://example.com:8443", "http://example.com", "https://localhost"] {
        let answer = broker.ask("GET", "/v1/topics").header("origin", other).send().await;
        answer.refused(403, "PERMISSION_DENIED");
    }
}

#[tokio::test]
async fn only_loopback_hosts_are_accepted() {
    let broker = Broker::start().await;
    for host in ["localhost", "localhost:1", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8080"] {
        broker.ask("GET", "/v1/topics").header("host", host).send().await.is(200);
    }
    for host in [
        "evil.example",
        "evil.example:8080",
        "127.0.0.2",
        "localhost.evil.example",
        "[::2]",
        "[::1]evil",
        "::1",
    ] {
        let answer = broker.ask("GET", "/v1/topics").header("host", host).send().await;
        answer.refused(403, "PERMISSION_DENIED");
    }
}

#[tokio::test]
async fn an_allowed_host_is_accepted() {
    let broker =
        Broker::with(|config| config.allowed_hosts = vec!["queue.internal".to_owned()]).await;
    for host in ["queue.internal", "queue.internal:8080", "localhost"] {
        broker.ask("GET", "/v1/topics").header("host", host).send().await.is(200);
    }
    let answer = broker.ask("GET", "/v1/topics").header("host", "evil.example").send().await;
    answer.refused(403, "PERMISSION_DENIED");
}

#[tokio::test]
async fn the_host_rule_applies_to_http_2() {
    let broker = Broker::start().await;
    let stream = tokio::net::TcpStream::connect(broker.address()).await.expect("it listens");
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks it");
    let connection = tokio::spawn(connection);
    for (host, status) in [("localhost", 200), ("evil.example", 403)] {
        let request = hyper::Request::builder().uri(format!("http://{host}/v1/topics"));
        let request = request.body(String::new()).expect("a request");
        let response = sender.send_request(request).await.expect("an answer");
        assert_eq!(response.status(), status, "{host}");
    }
    connection.abort();
}

#[tokio::test]
async fn a_server_with_an_api_key_requires_it() {
    let broker = Broker::with(|config| config.api_key = Some("secret".to_owned().into())).await;
    let paths = ["/v1/version", "/v1/topics", "/v1/topics/t", "/v1/topics/t/groups"];
    for path in paths {
        broker.get(path).await.refused(401, "UNAUTHENTICATED");
        for wrong in
            ["Bearer wrong", "Bearer secre", "Bearer secrets", "Basic secret", "secret", "Bearer "]
        {
            let answer = broker.ask("GET", path).header("authorization", wrong).send().await;
            answer.refused(401, "UNAUTHENTICATED");
        }
    }
    broker.post_query("/v1/topics?name=t").await.refused(401, "UNAUTHENTICATED");
    let ask = broker.ask("POST", "/v1/topics?name=t").header("authorization", "Bearer secret");
    ask.send().await.is(201);
    for scheme in ["bearer", "BEARER"] {
        let ask = broker.ask("GET", "/v1/topics/t");
        ask.header("authorization", format!("{scheme} secret")).send().await.is(200);
    }
}

#[tokio::test]
async fn a_server_without_an_api_key_requires_none() {
    let broker = Broker::start().await;
    let ask = broker.ask("GET", "/v1/topics").header("authorization", "Bearer whatever");
    ask.send().await.is(200);
}

#[tokio::test]
async fn a_connection_that_is_not_http_is_closed() {
    let broker = Broker::start().await;
    for bytes in
        [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], b"hello\r\n\r\n", b"\0\0\0\0"]
    {
        let mut raw = Raw::connect(broker.address()).await;
        raw.write(bytes).await;
        raw.write(b"\r\n\r\n").await;
        let answer = raw.until_closed().await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer:?}");
    }
    broker.get("/v1/healthz").await.is(200);
}

#[tokio::test]
async fn http_2_is_supported() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let stream = tokio::net::TcpStream::connect(broker.address()).await.expect("it listens");
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks it");
    let connection = tokio::spawn(connection);
    let request = hyper::Request::post(format!("http://{}/v1/produce", broker.address()));
    let body = r#"{"topic":"t","value":"x"}"#.to_owned();
    let response = sender.send_request(request.body(body).expect("a request")).await;
    let response = response.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert!(response.headers().contains_key("x-request-id"));
    assert_eq!(broker.show("t").await["messages"], 1);
    connection.abort();
}
