//! The way to a server.

use std::error::Error;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use reqwest::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::failure::Failure;
use crate::output::Format;

/// The most that is read of the file with the key.
const KEY_FILE_BYTES: u64 = 4_096;

/// Which server, and how to show what it says.
#[derive(Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Remote {
    /// The server to ask
    #[arg(long, default_value = "http://127.0.0.1:8080", env = "DRIFTQ_URL")]
    #[arg(global = true, hide_env_values = true)]
    pub(crate) url: String,
    /// A file whose first line is the server's key; with `serve`, every request must carry it
    #[arg(long, value_name = "FILE", env = "DRIFTQ_API_KEY_FILE")]
    #[arg(global = true, hide_env_values = true)]
    api_key_file: Option<PathBuf>,
    /// How to show answers
    #[arg(short, long, value_enum, default_value = "table")]
    #[arg(global = true, hide_possible_values = true, value_name = "table|json|ndjson")]
    pub(crate) output: Format,
}

/// A client of one server.
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<String>,
}

impl Remote {
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let file = self.api_key_file.as_deref().filter(|file| !file.as_os_str().is_empty());
        let key = file.map(first_line).transpose();
        let key = key.map_err(|why| Failure::Usage(format!("--api-key-file: {why}")))?;
        let base = self.url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        if base.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
            let message =
                "this client speaks http only: give the address of a node behind the proxy";
            return Err(Failure::Usage(format!("--url {base}: {message}, with its port")).into());
        }
        Ok(Client { http: reqwest::Client::new(), base, key })
    }
}

/// The key that a file holds, or what is wrong with it.
pub(crate) fn first_line(path: &Path) -> Result<String, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| wrong(&error))?;
    file.take(KEY_FILE_BYTES).read_to_string(&mut text).map_err(|error| wrong(&error))?;
    let key = text.lines().next().unwrap_or_default().trim();
    match key.len() {
        16.. => Ok(key.to_owned()),
        0..16 => Err(wrong(&"a key has at least 16 characters")),
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
    pub(crate) async fn get(&self, path: &str, query: &[(&str, String)]) -> anyhow::Result<Answer> {
        body(self.send(Method::GET, path, query, None::<Value>).await?).await
    }

    /// A success, read as what it is known to be.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> anyhow::Result<T> {
        let response = self.send(Method::GET, path, query, None::<Value>).await?;
        let bytes = response.bytes().await.map_err(broke_off)?;
        serde_json::from_slice(&bytes).context(NOT_OURS)
    }

    /// All pages of a list as one.
    pub(crate) async fn get_all(
        &self,
        path: &str,
        query: &[(&str, String)],
        items: &str,
    ) -> anyhow::Result<Answer> {
        let mut query = query.to_vec();
        query.push(("limit", "1000".to_owned()));
        let first = self.get(path, &query).await?;
        if first["next_cursor"].is_null() {
            return Ok(first);
        }
        let (mut all, mut page) = (Vec::new(), first.into_value());
        loop {
            if let Value::Array(of_page) = page[items].take() {
                all.extend(of_page);
            }
            let Some(cursor) = page["next_cursor"].as_str() else {
                return Ok(Answer::parse(json!({ items: all }).to_string())?);
            };
            query.retain(|(name, _)| *name != "cursor");
            query.push(("cursor", cursor.to_owned()));
            page = self.get(path, &query).await?.into_value();
        }
    }

    pub(crate) async fn delete(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> anyhow::Result<Answer> {
        body(self.send(Method::DELETE, path, query, None::<Value>).await?).await
    }

    pub(crate) async fn post(&self, path: &str, asked: impl Serialize) -> anyhow::Result<Answer> {
        body(self.send(Method::POST, path, &[], Some(asked)).await?).await
    }

    pub(crate) async fn patch(&self, path: &str, asked: Value) -> anyhow::Result<Answer> {
        body(self.send(Method::PATCH, path, &[], Some(asked)).await?).await
    }

    pub(crate) async fn put(&self, path: &str, asked: Value) -> anyhow::Result<Answer> {
        body(self.send(Method::PUT, path, &[], Some(asked)).await?).await
    }

    /// A success, its body still to be read.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
        asked: Option<impl Serialize>,
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
            if error.is_builder() {
                return Failure::Usage(format!("--url {} is not an address", self.base));
            }
            let cause = root(&error);
            let kind = cause.downcast_ref::<std::io::Error>().map(|error| error.kind());
            Failure::Unreachable(match error.is_connect() {
                true if kind == Some(ErrorKind::ConnectionRefused) => {
                    let message = "start one with `driftq dev`, or give --url";
                    format!("no server at {}: {message}", self.base)
                }
                true => format!("no way to {}: {cause}", self.base),
                false => format!("{}: {error}", self.base),
            })
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::UNAUTHORIZED {
            return Err(Failure::NoEntry { has_key: self.key.is_some() }.into());
        }
        let body = response.json().await.unwrap_or(Value::Null);
        Err(Failure::Refused { status: status.as_u16(), body }.into())
    }
}

/// What an error comes from in the end.
fn root<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    error.source().map_or(error, root)
}

/// Whether it happened is not known.
pub(crate) fn broke_off(error: reqwest::Error) -> Failure {
    Failure::Unreachable(format!("the answer broke off: {}", root(&error)))
}

const NOT_OURS: &str = "the answer is not JSON: is this a DriftQ server?";

/// The body of a success; `null` where there is none.
async fn body(response: Response) -> anyhow::Result<Answer> {
    let bytes = response.bytes().await.map_err(broke_off)?;
    let written = String::from_utf8(bytes.to_vec()).context(NOT_OURS)?;
    Answer::parse(written).context(NOT_OURS)
}
