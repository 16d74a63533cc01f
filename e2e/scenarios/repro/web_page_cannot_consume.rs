//! A page of another site cannot lease messages through an image. Such a request has no Origin
//! header but a Sec-Fetch-Site header.

use std::time::Duration;

use serde_json::json;

use crate::raw::{exchange, status};
use crate::scene::{Fixture, Seen};

const LASTS: Duration = Duration::from_secs(1);

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let scene = Fixture::start(driftq).await?;
    scene.topic("dev", 1, json!({})).await?;
    let messages: Vec<_> = (0..100).map(|_| json!({ "topic": "dev", "value": "job" })).collect();
    scene.api.post("produce/batch", &json!({ "messages": messages })).await?.ok()?;
    let address = scene.server.address;
    let image = format!(
        "GET /v1/consume?topic=dev&group=g&owner=x&credit=10000&lease_ms=43200000 HTTP/1.1\r\nhost: {address}\r\n\
         accept: image/avif,image/webp,*/*;q=0.8\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n\
         sec-fetch-dest: image\r\nreferer: https://evil.example/\r\n\r\n"
    );
    let answer = exchange(address, image.as_bytes(), LASTS).await?;
    let status = status(&answer);
    let open = scene.api.get("topics/dev/groups/g").await?.ok()?["open"].clone();
    Ok(Seen::kept_if(status == Some(403) && open == 0, || {
        format!("an image gets status {status:?} and {open} of 100 messages")
    }))
}
