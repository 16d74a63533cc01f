//! Calls that nobody took, because their shards move, are tried again for a while.

use std::time::Duration;

use driftq_core::CallError;
use tokio::sync::watch;
use tokio::time::Instant;

use super::peers::Peers;
use super::routes::Routes;

/// How often it is tried, if nothing is heard.
const LOOK: Duration = Duration::from_millis(100);

/// The retries of one call.
pub(super) struct Retry {
    routes: watch::Receiver<Routes>,
    began: Instant,
}

impl Retry {
    /// None: shards do not move.
    pub(super) fn new(peers: &Peers) -> Option<Retry> {
        let mut routes = peers.routes()?;
        routes.mark_unchanged();
        Some(Retry { routes, began: Instant::now() })
    }

    pub(super) fn is_worth_another(&self, lost: CallError) -> bool {
        let after_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        lost.should_retry(after_ms)
    }

    /// Until a shard has moved, or a little while.
    pub(super) async fn wait(&mut self) {
        // Nothing is heard any more where this process stops.
        if let Ok(Err(_)) = tokio::time::timeout(LOOK, self.routes.changed()).await {
            tokio::time::sleep(LOOK).await;
        }
        self.routes.mark_unchanged();
    }
}
