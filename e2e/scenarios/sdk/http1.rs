//! Requests and responses of HTTP/1.1, as bytes, so that a connection can end anywhere.

use std::collections::HashMap;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const HEAD_MAX: usize = 64 * 1024;

/// A request.
pub(crate) struct Request {
    /// Method and path, without the query.
    pub(crate) route: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) method: String,
    /// By name in lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Reads a request. `None` if the client has closed the connection.
    pub(crate) async fn read(connection: &mut TcpStream) -> anyhow::Result<Option<Request>> {
        let mut bytes = Vec::new();
        loop {
            if let Some((mut request, length)) = parse(&bytes)? {
                request.body = bytes.split_off(length);
                let size = request.headers.get("content-length").map_or(Ok(0), |n| n.parse())?;
                ensure!(request.body.len() <= size, "a second request before the answer");
                let mut rest = vec![0; size - request.body.len()];
                connection.read_exact(&mut rest).await?;
                request.body.append(&mut rest);
                return Ok(Some(request));
            }
            ensure!(bytes.len() < HEAD_MAX, "a head of {} bytes", bytes.len());
            if connection.read_buf(&mut bytes).await? == 0 {
                ensure!(bytes.is_empty(), "a request without an end");
                return Ok(None);
            }
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The request and the length of its head, once the head is complete.
fn parse(bytes: &[u8]) -> anyhow::Result<Option<(Request, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = parsed.parse(bytes)? else { return Ok(None) };
    let method = parsed.method.context("a method")?.to_owned();
    let target = parsed.path.context("a path")?.to_owned();
    let path = target.split('?').next().unwrap_or_default();
    let route = format!("{method} {path}");
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let headers = parsed.headers.iter();
    let headers = headers.map(|of| (of.name.to_ascii_lowercase(), text(of.value))).collect();
    Ok(Some((Request { route, target, method, headers, body: Vec::new() }, length)))
}

/// Writes a response.
pub(crate) async fn respond(
    connection: &mut TcpStream,
    status: u16,
    body: &[u8],
) -> anyhow::Result<()> {
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let length = body.len();
    let head = format!("HTTP/1.1 {status} -\r\n{kind}content-length: {length}\r\n\r\n");
    // 204 has no length.
    let head = if status == 204 { "HTTP/1.1 204 -\r\n\r\n".to_owned() } else { head };
    connection.write_all(&[head.as_bytes(), body].concat()).await?;
    Ok(())
}
