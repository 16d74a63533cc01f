//! Clients that do nothing, clients that are slow, clients that are wrong, clients that hoard memory, and web pages.

use crate::verdict::Verdict;
use crate::{bad, browser, crowd, drip, hoard};

pub(crate) async fn run(driftq: &str, seed: u64) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new("hostile");
    browser::run(driftq, &mut verdict).await?;
    bad::run(driftq, seed, &mut verdict).await?;
    hoard::run(driftq, &mut verdict).await?;
    drip::run(driftq, &mut verdict).await?;
    crowd::run(driftq, &mut verdict).await?;
    Ok(verdict)
}
