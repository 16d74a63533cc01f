//! A persistent HTTP/1.1 connection with minimal overhead, because CPU time used by the client is
//! not available to the server.

use std::net::SocketAddr;

use anyhow::Context as _;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const HEADERS_MAX: usize = 32;
const READ_BYTES: usize = 16 * 1024;

/// A connection with one request in flight at a time.
pub(crate) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    /// The complete body, unless it is a stream.
    pub(crate) body: &'a [u8],
    /// Whether the connection cannot be used again: it is a stream, or the server closes it.
    pub(crate) is_last: bool,
}

/// Where the body begins, and whether the connection ends after it.
struct Head {
    status: u16,
    body_at: usize,
    body_bytes: usize,
    is_last: bool,
}

impl Wire {
    pub(crate) async fn connect(address: SocketAddr) -> anyhow::Result<Wire> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, buffer: Vec::new() })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.buffer.clear();
        self.stream.write_all(bytes).await
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Answer<'_>> {
        self.send(request).await?;
        self.answer().await
    }

    /// Sends arbitrary bytes and waits for the status only. The connection cannot be used
    /// afterwards.
    pub(crate) async fn status(mut self, bytes: &[u8]) -> anyhow::Result<u16> {
        self.send(bytes).await?;
        loop {
            if let Some(head) = head(&self.buffer)? {
                return Ok(head.status);
            }
            self.more().await?;
        }
    }

    async fn answer(&mut self) -> anyhow::Result<Answer<'_>> {
        loop {
            if let Some(head) = head(&self.buffer)? {
                let end = head.body_at + head.body_bytes;
                while self.buffer.len() < end {
                    self.more().await?;
                }
                let body = &self.buffer[head.body_at..end];
                return Ok(Answer { status: head.status, body, is_last: head.is_last });
            }
            self.more().await?;
        }
    }

    /// Returns the next bytes of a stream.
    pub(crate) async fn next_bytes(&mut self) -> anyhow::Result<&[u8]> {
        self.buffer.clear();
        self.more().await?;
        Ok(&self.buffer)
    }

    async fn more(&mut self) -> anyhow::Result<()> {
        self.buffer.reserve(READ_BYTES);
        anyhow::ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "connection closed");
        Ok(())
    }

    /// Sends a request that must succeed, and returns its JSON response.
    pub(crate) async fn json(&mut self, request: &[u8]) -> anyhow::Result<Value> {
        let answer = self.ask(request).await?;
        let message = String::from_utf8_lossy(answer.body).into_owned();
        anyhow::ensure!(answer.status < 300, "rejected with {}: {message}", answer.status);
        Ok(if message.is_empty() { Value::Null } else { serde_json::from_str(&message)? })
    }
}

fn head(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(body_at) = response.parse(bytes)? else { return Ok(None) };
    let status = response.code.context("no status")?;
    let (mut body_bytes, mut is_last) = (0, false);
    for header in response.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            body_bytes = std::str::from_utf8(header.value)?.parse()?;
        } else if header.name.eq_ignore_ascii_case("transfer-encoding")
            || (header.name.eq_ignore_ascii_case("connection") && header.value == b"close")
        {
            is_last = true;
        }
    }
    Ok(Some(Head { status, body_at, body_bytes, is_last }))
}

/// Returns the bytes of a request.
pub(crate) fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub(crate) fn post(path: &str, body: &Value) -> Vec<u8> {
    request("POST", path, body.to_string().as_bytes())
}

pub(crate) fn get(path: &str) -> Vec<u8> {
    request("GET", path, b"")
}
