//! A small HTTP client with one connection per request, so that a test can drop it at any time.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::lines::Lines;

/// Longer than any request of a test. A timeout reports the request.
const PATIENCE: Duration = Duration::from_secs(50);

/// A client of one server.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
}

/// A request, before it is sent.
pub(crate) struct Ask {
    address: SocketAddr,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        Client { address }
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn ask(&self, method: &'static str, path: impl Into<String>) -> Ask {
        let (path, headers, body) = (path.into(), Vec::new(), Vec::new());
        Ask { address: self.address, method, path, headers, body }
    }

    pub(crate) async fn get(&self, path: impl Into<String>) -> Answer {
        self.ask("GET", path).send().await
    }

    pub(crate) async fn post(&self, path: impl Into<String>, body: Value) -> Answer {
        self.ask("POST", path).json(&body).send().await
    }

    /// A POST without a body, with all parameters in the query.
    pub(crate) async fn post_query(&self, path: impl Into<String>) -> Answer {
        self.ask("POST", path).send().await
    }

    pub(crate) async fn put(&self, path: impl Into<String>, body: Value) -> Answer {
        self.ask("PUT", path).json(&body).send().await
    }

    pub(crate) async fn patch(&self, path: impl Into<String>, body: Value) -> Answer {
        self.ask("PATCH", path).json(&body).send().await
    }

    pub(crate) async fn delete(&self, path: impl Into<String>) -> Answer {
        self.ask("DELETE", path).send().await
    }
}

/// One connection. Dropping it closes the connection.
pub(crate) struct Wire(JoinHandle<()>);

impl Drop for Wire {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Ask {
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<Vec<u8>>) -> Ask {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Ask {
        let body = serde_json::to_vec(body).expect("plain JSON");
        self.header("content-type", "application/json").body(body)
    }

    /// Sets the body unchanged.
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Ask {
        self.body = body.into();
        self
    }

    /// Sends the request and reads the complete response.
    pub(crate) async fn send(self) -> Answer {
        let what = format!("{} {}", self.method, self.path);
        let answer = tokio::time::timeout(PATIENCE, async {
            let (_wire, response) = self.open().await;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.expect("a complete body").to_bytes();
            Answer { status: parts.status.as_u16(), headers: parts.headers, body }
        });
        let answer = answer.await.unwrap_or_else(|_| panic!("no answer to {what}"));
        answer.check_common();
        answer
    }

    /// Sends the request and reads the response line by line.
    pub(crate) async fn stream(self) -> Lines {
        let (wire, response) = self.open().await;
        Lines::new(wire, response)
    }

    async fn open(self) -> (Wire, Response<Incoming>) {
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.expect("it speaks HTTP");
        let wire = Wire(tokio::spawn(async move {
            // The response shows how the connection ended.
            let _ended = connection.await;
        }));
        let mut request = Request::builder().method(self.method).uri(self.path);
        if !self.headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(self.body))).expect("a request");
        let response = sender.send_request(request).await.expect("an answer");
        (wire, response)
    }
}

impl Answer {
    /// Checks the headers that every response has.
    fn check_common(&self) {
        assert_eq!(self.header("cache-control"), "no-store", "{self:?}");
        assert!(!self.header("x-request-id").is_empty(), "{self:?}");
        if self.status >= 400 && self.header("content-type") == "application/json" {
            crate::error_schema::check(&self.json());
        }
    }

    /// A header, or the empty string.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// The body; null if it is empty.
    pub(crate) fn json(&self) -> Value {
        if self.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// Checks the status and returns the body.
    #[track_caller]
    pub(crate) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Checks the form of an error response and returns its body.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, error: &str) -> Value {
        let body = self.is(status);
        assert_eq!(body["error"], error, "{body}");
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
        let is_retryable =
            [408, 429, 503].contains(&status) || ["IN_PROGRESS", "IN_DOUBT"].contains(&error);
        assert_eq!(body["retryable"], is_retryable, "{body}");
        assert_eq!(body["request_id"], self.header("x-request-id"), "{body}");
        assert_eq!(self.header("content-type"), "application/json", "{body}");
        match body["retry_after_ms"].as_u64() {
            Some(ms) => assert_eq!(self.header("retry-after"), ms.div_ceil(1_000).to_string()),
            None => assert_eq!(self.header("retry-after"), "", "{body}"),
        }
        body
    }

    /// Checks for a 400 that names this field.
    #[track_caller]
    pub(crate) fn invalid(&self, field: &str) -> Value {
        let body = self.refused(400, "INVALID_ARGUMENT");
        assert_eq!(body["field"], field, "{body}");
        body
    }
}
