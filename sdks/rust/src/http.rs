//! Requests to a DriftQ server.
//!
//! 1. Paths are below `/v1`; every request carries the API key, if there is one.
//! 2. A rejection is a [`Reply`], not an error: callers match on its status and body.
//! 3. A [`SendError`] means that the outcome of the request is unknown. One exception: if no connection could be opened,
//!    the request was not sent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Certificate, Method, RequestBuilder};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::connect;
use crate::delivery::Trace;

/// The delay before a request with an unknown outcome is sent again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long a produce is tried.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client of one server. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<String>,
    retries: u32,
    /// How long a produce is tried.
    timeout: Duration,
    /// The trace that requests continue.
    trace: Option<Trace>,
    /// The certificates to trust, if not those of the system.
    certificates: Arc<[Certificate]>,
    /// What the server can do, asked once.
    pub(crate) features: Arc<OnceCell<Vec<String>>>,
}

/// The status and body of a response.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The JSON body. An empty body is `null`.
    pub body: Value,
}

/// The request `what` got no complete response.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The connection failed or was closed.
    #[error("{what}")]
    Http {
        /// Method and path.
        what: String,
        /// The cause.
        source: reqwest::Error,
    },
    /// The body of the response is not JSON.
    #[error("{what}: the response is not JSON")]
    NotJson {
        /// Method and path.
        what: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// The server rejected the request.
    #[error("rejected: {0}")]
    Rejected(Reply),
}

impl SendError {
    /// Whether no connection could be opened, so that the request was not sent.
    pub(crate) fn is_not_sent(&self) -> bool {
        matches!(self, SendError::Http { source, .. } if source.is_connect())
    }
}

impl Reply {
    /// Returns the body, or an error unless the status is a success.
    pub fn ok(self) -> Result<Value, SendError> {
        if (200..300).contains(&self.status) {
            Ok(self.body)
        } else {
            Err(SendError::Rejected(self))
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.body)
    }
}

impl Client {
    /// Creates a client of the server at `url`, with or without `/v1` at its end. A worker opens
    /// connections of its own, which have the settings of [`crate::ClientBuilder`] only.
    pub fn new(http: reqwest::Client, url: &str) -> Client {
        let base = url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        Client {
            http,
            base,
            key: None,
            retries: 0,
            timeout: TIMEOUT,
            trace: None,
            certificates: Arc::default(),
            features: Arc::default(),
        }
    }

    /// Sends `key` with every request.
    #[must_use]
    pub fn with_key(self, key: Option<String>) -> Client {
        Client { key, ..self }
    }

    /// Sends a request again, up to `retries` times, if its outcome is unknown (503).
    #[must_use]
    pub fn with_retries(self, retries: u32) -> Client {
        Client { retries, ..self }
    }

    /// A client with connections of its own, for another runtime.
    pub(crate) fn separate(&self) -> Client {
        // It has been built before, with the same certificates.
        let http = connect::http(&self.certificates).unwrap_or_else(|_| self.http.clone());
        Client { http, ..self.clone() }
    }

    /// A client whose requests continue a trace.
    pub(crate) fn continuing(&self, trace: Option<Trace>) -> Client {
        Client { trace, ..self.clone() }
    }

    pub(crate) fn with_timeout(self, timeout: Option<Duration>) -> Client {
        Client { timeout: timeout.unwrap_or(TIMEOUT), ..self }
    }

    /// How long a produce is tried.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn trusting(self, certificates: Vec<Certificate>) -> Client {
        Client { certificates: certificates.into(), ..self }
    }

    /// The URL of the server, without `/v1`.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Whether requests carry an API key.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Starts a request, for callers that need a query or read the response as a stream.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.http.request(method, format!("{}/v1/{path}", self.base));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(Trace { traceparent, tracestate }) = &self.trace {
            request = request.header("traceparent", traceparent);
            if let Some(state) = tracestate {
                request = request.header("tracestate", state);
            }
        }
        request
    }

    /// Sends a request and returns the reply.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Reply, SendError> {
        let mut reply = self.send_once(method.clone(), path, body).await?;
        for _ in 0..self.retries {
            if reply.status != 503 {
                break;
            }
            tokio::time::sleep(RETRY_DELAY).await;
            reply = self.send_once(method.clone(), path, body).await?;
        }
        Ok(reply)
    }

    async fn send_once(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Reply, SendError> {
        let what = format!("{method} {path}");
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        let failed = |source| SendError::Http { what: what.clone(), source };
        let response = request.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await.map_err(failed)?;
        if bytes.is_empty() {
            return Ok(Reply { status, body: Value::Null });
        }
        let body = serde_json::from_slice(&bytes);
        Ok(Reply { status, body: body.map_err(|source| SendError::NotJson { what, source })? })
    }

    /// Returns the metrics page.
    pub async fn metrics(&self) -> Result<String, reqwest::Error> {
        let request = self.http.get(format!("{}/metrics", self.base));
        request.send().await?.error_for_status()?.text().await
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> Result<Reply, SendError> {
        self.send(Method::GET, path, None).await
    }

    /// Sends a POST request with a body.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Reply, SendError> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends a PUT request with a body.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Reply, SendError> {
        self.send(Method::PUT, path, Some(body)).await
    }

    /// Sends a PATCH request with a body.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Reply, SendError> {
        self.send(Method::PATCH, path, Some(body)).await
    }

    /// Sends a DELETE request.
    pub async fn delete(&self, path: &str) -> Result<Reply, SendError> {
        self.send(Method::DELETE, path, None).await
    }
}
