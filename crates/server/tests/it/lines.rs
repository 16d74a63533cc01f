//! An NDJSON stream, read line by line.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{HeaderMap, Response};
use serde_json::Value;

use crate::client::{Answer, Wire};

/// Longer than any wait of a test.
const PATIENCE: Duration = Duration::from_secs(50);

/// A stream being read. Dropping it closes the connection.
pub(crate) struct Lines {
    wire: Wire,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    rest: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(wire: Wire, response: Response<Incoming>) -> Lines {
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        Lines { wire, status, headers: parts.headers, body, rest: Vec::new() }
    }

    /// The next line without its end, blank lines included. None: the stream has ended.
    pub(crate) async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(String::from_utf8(line[..end].to_vec()).expect("UTF-8"));
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame());
            match frame.await.expect("a line in time") {
                Some(Ok(frame)) => self.rest.extend(frame.into_data().unwrap_or_default()),
                Some(Err(broken)) => panic!("the stream broke: {broken}"),
                None => {
                    assert!(self.rest.is_empty(), "an incomplete line: {:?}", self.rest);
                    return None;
                }
            }
        }
    }

    /// The next delivery.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            let line = self.line().await.expect("the stream has not ended");
            if !line.is_empty() {
                return serde_json::from_str(&line).expect("one object a line");
            }
        }
    }

    /// Checks that only heartbeats arrive before the stream ends.
    pub(crate) async fn ends(&mut self) {
        while let Some(line) = self.line().await {
            assert_eq!(line, "", "a delivery, but the stream should have ended");
        }
    }

    /// The complete response, if it was not a stream.
    pub(crate) async fn into_answer(self) -> Answer {
        let Lines { wire: _wire, status, headers, body, .. } = self;
        let body: Bytes = body.collect().await.expect("a complete body").to_bytes();
        Answer { status, headers, body }
    }
}
