//! The way to a server.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use reqwest::{Method, Response};
use serde_json::Value;

use crate::failure::Failure;
use crate::output::Format;

/// Which server, and how to show what it says.
#[derive(Args)]
pub(crate) struct Remote {
    /// The server
    #[arg(long, global = true, default_value = "http://127.0.0.1:8080", env = "DRIFTQ_URL")]
    url: String,
    /// A file whose first line is the server's key; with `serve`, every request must carry it
    #[arg(long, global = true, env = "DRIFTQ_API_KEY_FILE")]
    api_key_file: Option<PathBuf>,
    /// How to show answers
    #[arg(short, long, global = true, value_enum, default_value = "table")]
    pub(crate) output: Format,
}

/// A client of one server.
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<String>,
}

impl Remote {
    pub(crate) fn api_key_file(&self) -> Option<&Path> {
        self.api_key_file.as_deref()
    }

    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let key = self.api_key_file.as_deref().map(crate::serve::first_line).transpose()?;
        let base = self.url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        Ok(Client { http: reqwest::Client::new(), base, key })
    }
}

/// A part of a path; names of topics and groups need no escape, and what does is refused by the server.
pub(crate) fn segment(text: &str) -> String {
    let escape = |b: u8| match b {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(escape).collect()
}

impl Client {
    pub(crate) async fn get(&self, path: &str, query: &[(&str, String)]) -> anyhow::Result<Value> {
        body(self.send(Method::GET, path, query, None).await?).await
    }

    pub(crate) async fn delete(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> anyhow::Result<Value> {
        body(self.send(Method::DELETE, path, query, None).await?).await
    }

    pub(crate) async fn post(&self, path: &str, asked: Value) -> anyhow::Result<Value> {
        body(self.send(Method::POST, path, &[], Some(asked)).await?).await
    }

    pub(crate) async fn patch(&self, path: &str, asked: Value) -> anyhow::Result<Value> {
        body(self.send(Method::PATCH, path, &[], Some(asked)).await?).await
    }

    pub(crate) async fn put(&self, path: &str, asked: Value) -> anyhow::Result<Value> {
        body(self.send(Method::PUT, path, &[], Some(asked)).await?).await
    }

    /// A success, its body still to be read.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
        asked: Option<Value>,
    ) -> anyhow::Result<Response> {
        let mut request = self.http.request(method, format!("{}/v1/{path}", self.base));
        if !query.is_empty() {
            request = request.query(query);
        }
        if let Some(asked) = asked {
            request = request.json(&asked);
        }
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let unreachable = |error: reqwest::Error| {
            let why = if error.is_connect() {
                format!("no server at {}: start one with `driftq dev`, or give --url", self.base)
            } else {
                format!("{}: {error}", self.base)
            };
            Failure::Unreachable(why)
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.json().await.unwrap_or(Value::Null);
        Err(Failure::Refused { status: status.as_u16(), body }.into())
    }
}

/// The body of a success; `null` where there is none.
async fn body(response: Response) -> anyhow::Result<Value> {
    let bytes = response.bytes().await.context("the answer broke off")?;
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&bytes).context("the answer is not JSON: is this a DriftQ server?")
}
