//! A list with too many items is rejected while it is parsed, so it costs no more memory than its
//! body.

use std::time::Duration;

use crate::raw::{exchange, status};
use crate::scene::{Fixture, Seen};

const BODY_BYTES: usize = 8 * 1024 * 1024 - 64;
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
/// A few copies of the body.
const GROWTH_MAX: f64 = 60.0;

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let scene = Fixture::start(driftq).await?;
    let mut worst = (0.0, "");
    for (path, before, item) in [
        ("/v1/settle", r#"{"items":["#, "{}"),
        ("/v1/produce/batch", r#"{"messages":["#, r#"{"topic":""}"#),
        ("/v1/commit", r#"{"token":"lt_a","produce":["#, r#"{"topic":""}"#),
    ] {
        let (_, least) = scene.memory()?;
        let count = (BODY_BYTES - before.len() - 2) / (item.len() + 1);
        let body = format!("{before}{}]}}", vec![item; count].join(","));
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let answer =
            exchange(scene.server.address, (head + &body).as_bytes(), ANSWERED_WITHIN).await?;
        let status = status(&answer);
        anyhow::ensure!(status == Some(400), "{path} answers {status:?}");
        let (_, peak) = scene.memory()?;
        if peak - least > worst.0 {
            worst = (peak - least, path);
        }
    }
    let (growth, path) = worst;
    Ok(Seen::kept_if(growth < GROWTH_MAX, || {
        format!("a body of 8 MiB to {path} uses {growth:.0} MB more")
    }))
}
