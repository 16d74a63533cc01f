//! Requests that a web page can make a browser send to a developer's queue.

use serde_json::json;

use crate::server::{Server, Side};
use crate::verdict::Verdict;
use crate::wire::{get, post};

/// Name, request line and headers, and whether the body is a message.
const REQUESTS: [(&str, &str, bool); 10] = [
    (
        "a form's POST",
        "POST /v1/produce HTTP/1.1\r\nhost: localhost\r\norigin: http://example.com\r\n\
         content-type: text/plain",
        true,
    ),
    (
        "a form's POST in the query",
        "POST /v1/produce?topic=work&value=v HTTP/1.1\r\nhost: localhost\r\n\
         origin: http://example.com\r\ncontent-type: application/x-www-form-urlencoded",
        false,
    ),
    (
        "a POST of a page without an origin",
        "POST /v1/produce HTTP/1.1\r\nhost: localhost\r\norigin: null",
        true,
    ),
    (
        "a CORS preflight",
        "OPTIONS /v1/produce HTTP/1.1\r\nhost: localhost\r\norigin: http://example.com\r\n\
         access-control-request-method: POST",
        false,
    ),
    (
        "an image",
        "GET /v1/consume?topic=work&group=g&owner=o HTTP/1.1\r\nhost: localhost\r\n\
         sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\nsec-fetch-dest: image",
        false,
    ),
    (
        "a page of this machine's other port",
        "POST /v1/produce HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: same-site",
        true,
    ),
    ("a rebound name", "GET /v1/topics HTTP/1.1\r\nhost: example.com", false),
    ("a POST to a rebound name", "POST /v1/produce HTTP/1.1\r\nhost: example.com:8080", true),
    (
        "a name that begins like ours",
        "POST /v1/produce HTTP/1.1\r\nhost: localhost.example.com",
        true,
    ),
    (
        "a rebound name in the request line",
        "POST http://example.com/v1/produce HTTP/1.1\r\nhost: localhost",
        true,
    ),
];

pub(crate) async fn run(driftq: &str, verdict: &mut Verdict) -> anyhow::Result<()> {
    let server = Server::start(Side::Sqlite(driftq.to_owned())).await?;
    let mut wire = server.connect().await?;
    wire.json(&post("/v1/topics", &json!({ "name": "work" }))).await?;
    let message = json!({ "topic": "work", "value": "v" });
    for (what, head, has_body) in REQUESTS {
        let body = if has_body { message.to_string() } else { String::new() };
        let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let status = server.connect().await?.status(request.as_bytes()).await?;
        verdict.must(format!("{what} is rejected: {status}"), status == 403);
    }
    // The same request without a page is accepted. So it was the page that was rejected, and
    // nothing from it was stored.
    wire.json(&post("/v1/produce", &message)).await?;
    let stored = wire.json(&get("/v1/topics/work")).await?["messages"].as_u64();
    verdict.must("nothing from a page is stored".to_owned(), stored == Some(1));
    Ok(())
}
