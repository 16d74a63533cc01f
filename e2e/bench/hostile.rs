//! Clients that are idle, slow, wrong or hoard memory, and web pages.

use crate::verdict::Verdict;
use crate::{bad, browser, hoard, idle_consumers, slow_headers};

pub(crate) async fn run(driftq: &str, seed: u64) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new("hostile");
    browser::run(driftq, &mut verdict).await?;
    bad::run(driftq, seed, &mut verdict).await?;
    hoard::run(driftq, &mut verdict).await?;
    slow_headers::run(driftq, &mut verdict).await?;
    idle_consumers::run(driftq, &mut verdict).await?;
    Ok(verdict)
}
