//! HTTP client of a DriftQ server.

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
use crate::cli_error::CliError;
use crate::output::Format;

/// Maximum number of bytes read from the API key file.
const KEY_FILE_BYTES: u64 = 4_096;

/// Options of all commands: the server and the output format.
#[derive(Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Remote {
    /// URL of the server
    #[arg(long, default_value = "http://127.0.0.1:8080", env = "DRIFTQ_URL")]
    #[arg(global = true, hide_env_values = true)]
    pub(crate) url: String,
    /// File whose first line is the API key; `serve` requires this key in every request except
    /// health checks. Without it, the variable DRIFTQ_API_KEY is the key
    #[arg(long, value_name = "FILE", env = "DRIFTQ_API_KEY_FILE")]
    #[arg(global = true, hide_env_values = true)]
    api_key_file: Option<PathBuf>,
    /// File with the certificates to trust for https, as PEM, instead of those of the system
    #[arg(long, value_name = "FILE", env = "DRIFTQ_CA_FILE")]
    #[arg(global = true, hide_env_values = true)]
    ca_file: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    #[arg(global = true, hide_possible_values = true, value_name = "table|json|ndjson")]
    pub(crate) output: Format,
}

/// A client that turns rejections into errors of the command line.
pub(crate) struct Client(driftq_client::Client);

impl Remote {
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let file = self.api_key_file.as_deref().filter(|file| !file.as_os_str().is_empty());
        let key = file.map(first_line).transpose();
        let key = key.map_err(|why| CliError::Usage(format!("--api-key-file: {why}")))?;
        let key = key.or_else(key_variable);
        Ok(Client(driftq_client::Client::new(self.http()?, &self.url).with_key(key)))
    }

    /// The client of the SDK, which repeats requests where that is safe.
    pub(crate) fn sdk(&self) -> anyhow::Result<driftq_client::Client> {
        Ok(self.client()?.0)
    }

    fn http(&self) -> anyhow::Result<reqwest::Client> {
        let is_encrypted =
            self.url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
        let file = self.ca_file.as_deref().filter(|file| !file.as_os_str().is_empty());
        let builder = reqwest::Client::builder();
        let builder = match file {
            Some(file) => {
                let wrong = |why: &dyn std::fmt::Display| {
                    CliError::Usage(format!("--ca-file {}: {why}", file.display()))
                };
                let text = std::fs::read(file).map_err(|error| wrong(&error))?;
                let trusted = reqwest::Certificate::from_pem_bundle(&text);
                let trusted = trusted.map_err(|error| wrong(&error))?;
                if trusted.is_empty() {
                    return Err(wrong(&"the file has no certificate; it must be PEM").into());
                }
                builder.tls_certs_only(trusted)
            }
            None if is_encrypted => builder,
            // Saves the time to load the certificates of the system.
            None => builder.tls_certs_only([]),
        };
        builder.build().context("the HTTP client cannot be built")
    }
}

/// The API key in the environment.
pub(crate) fn key_variable() -> Option<String> {
    let key = std::env::var("DRIFTQ_API_KEY").ok()?;
    let key = key.trim();
    (!key.is_empty()).then(|| key.to_owned())
}

/// Returns the API key in the first line of a file.
pub(crate) fn first_line(path: &Path) -> Result<String, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| wrong(&error))?;
    file.take(KEY_FILE_BYTES).read_to_string(&mut text).map_err(|error| wrong(&error))?;
    let key = text.lines().next().unwrap_or_default().trim();
    if key.is_empty() { Err(wrong(&"the file has no API key")) } else { Ok(key.to_owned()) }
}

/// Percent-encodes a path segment. Valid topic and group names are unchanged; the server rejects
/// all others.
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

    /// Sends a GET request and deserializes the body of the response.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> anyhow::Result<T> {
        let response = self.send(Method::GET, path, query, None::<Value>).await?;
        let bytes = response.bytes().await.map_err(read_error)?;
        serde_json::from_slice(&bytes).context(NOT_JSON)
    }

    /// Reads all pages of a list and returns them as one page.
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

    pub(crate) async fn post(
        &self,
        path: &str,
        request_body: impl Serialize,
    ) -> anyhow::Result<Answer> {
        body(self.send(Method::POST, path, &[], Some(request_body)).await?).await
    }

    pub(crate) async fn patch(&self, path: &str, request_body: Value) -> anyhow::Result<Answer> {
        body(self.send(Method::PATCH, path, &[], Some(request_body)).await?).await
    }

    pub(crate) async fn put(&self, path: &str, request_body: Value) -> anyhow::Result<Answer> {
        body(self.send(Method::PUT, path, &[], Some(request_body)).await?).await
    }

    /// Sends a request. Returns a successful response whose body has not been read.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
        request_body: Option<impl Serialize>,
    ) -> anyhow::Result<Response> {
        let base = self.0.url();
        let mut request = self.0.request(method, path);
        if !query.is_empty() {
            request = request.query(query);
        }
        if let Some(request_body) = request_body {
            request = request.json(&request_body);
        }
        let unreachable = |error: reqwest::Error| {
            if error.is_builder() {
                return CliError::Usage(format!(
                    "--url {base} is not a valid URL; write it as http://127.0.0.1:8080"
                ));
            }
            let cause = root(&error);
            let kind = cause.downcast_ref::<std::io::Error>().map(|error| error.kind());
            CliError::Unreachable(match error.is_connect() {
                true if kind == Some(ErrorKind::ConnectionRefused) => {
                    let message = "start one with `driftq dev`, or set --url";
                    format!("no server at {base}; {message}")
                }
                // A record that is not of TLS: the server answered in plain HTTP.
                true if cause.to_string().contains("InvalidContentType") => {
                    format!("the server at {base} does not use TLS; set --url to http://…")
                }
                true => format!("cannot connect to {base}: {cause}"),
                false => format!("{base}: {error}"),
            })
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::UNAUTHORIZED {
            return Err(CliError::Unauthenticated { has_key: self.0.has_key() }.into());
        }
        let text = response.text().await.unwrap_or_default();
        let body = serde_json::from_str(&text).unwrap_or_else(|_| plain(&text));
        Err(CliError::Refused { status: status.as_u16(), body }.into())
    }
}

/// The answer of a server, or of a proxy, that is not JSON.
fn plain(text: &str) -> Value {
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() && !line.starts_with('<') => json!({ "message": line }),
        Some(_) | None => Value::Null,
    }
}

/// Returns the root cause of an error.
fn root<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    error.source().map_or(error, root)
}

/// Converts an error while reading a response. The outcome of the request is unknown.
pub(crate) fn read_error(error: reqwest::Error) -> CliError {
    CliError::Unreachable(format!("the response ended early: {}", root(&error)))
}

const NOT_JSON: &str = "the response is not JSON; check that --url is a DriftQ server";

/// Reads the body of a response. An empty body is `null`.
async fn body(response: Response) -> anyhow::Result<Answer> {
    let bytes = response.bytes().await.map_err(read_error)?;
    let written = String::from_utf8(bytes.to_vec()).context(NOT_JSON)?;
    Answer::parse(written).context(NOT_JSON)
}
