//! A client of the HTTP API that returns every answer, rejections included.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use reqwest::Method;
use serde_json::Value;

/// Longer than the longest wait that a request may specify.
const ANSWER_WITHIN: Duration = Duration::from_secs(70);

/// A client of one server.
#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    /// How often a request with an unknown outcome (503) is repeated.
    repeats: u32,
}

/// Status and body. An empty body is `null`.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The body, which is JSON.
    pub body: Value,
}

impl Reply {
    /// Returns the body, or an error unless the status is a success.
    pub fn ok(self) -> anyhow::Result<Value> {
        anyhow::ensure!((200..300).contains(&self.status), "rejected: {self}");
        Ok(self.body)
    }
}

impl std::fmt::Display for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.status, self.body)
    }
}

impl Api {
    /// Creates a client of the server at this address.
    pub fn new(address: SocketAddr) -> anyhow::Result<Api> {
        let http = reqwest::Client::builder().timeout(ANSWER_WITHIN).no_proxy().build()?;
        Ok(Api { http, base: format!("http://{address}/v1"), repeats: 0 })
    }

    /// Returns a client that repeats requests with an unknown outcome, as the API requires.
    pub fn repeating(self) -> Api {
        Api { repeats: 3, ..self }
    }

    /// The base URL of the API.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Sends a request and returns the reply.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        let mut reply = self.send_once(method.clone(), path, body).await?;
        for _ in 0..self.repeats {
            if reply.status != 503 {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            reply = self.send_once(method.clone(), path, body).await?;
        }
        Ok(reply)
    }

    async fn send_once(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        let what = format!("{method} {path}");
        let mut request = self.http.request(method, format!("{}/{path}", self.base));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.with_context(|| what.clone())?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await.with_context(|| what.clone())?;
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).with_context(|| what)?
        };
        Ok(Reply { status, body })
    }

    /// Returns the Prometheus metrics page.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        let page = self.base.replace("/v1", "/metrics");
        Ok(self.http.get(page).send().await?.error_for_status()?.text().await?)
    }

    /// GET.
    pub async fn get(&self, path: &str) -> anyhow::Result<Reply> {
        self.send(Method::GET, path, None).await
    }

    /// POST with a body.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// PUT with a body.
    pub async fn put(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        self.send(Method::PUT, path, Some(body)).await
    }

    /// PATCH with a body.
    pub async fn patch(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        self.send(Method::PATCH, path, Some(body)).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> anyhow::Result<Reply> {
        self.send(Method::DELETE, path, None).await
    }
}
