//! The HTTP client for servers of a test.

use std::net::SocketAddr;
use std::time::Duration;

pub use driftq_client::{Client as Api, Reply};

/// Longer than the longest wait that a request may specify.
const ANSWER_WITHIN: Duration = Duration::from_secs(70);

/// Creates a client of the server at this address.
pub fn api(address: SocketAddr) -> anyhow::Result<Api> {
    let http = reqwest::Client::builder().timeout(ANSWER_WITHIN).no_proxy().build()?;
    Ok(Api::new(http, &format!("http://{address}")))
}
