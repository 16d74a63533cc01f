//! Retries calls that were rejected because their shard is moving to another node.

use std::time::Duration;

use driftq_core::CallError;
use tokio::sync::watch;
use tokio::time::Instant;

use super::peers::Peers;
use super::routes::Routes;

/// Interval between two retries while the routes do not change.
const LOOK: Duration = Duration::from_millis(100);

/// The retries of one call.
pub(super) struct Retry {
    routes: watch::Receiver<Routes>,
    began: Instant,
}

impl Retry {
    /// Returns `None` if shards do not move, because there is one node.
    pub(super) fn new(peers: &Peers) -> Option<Retry> {
        let mut routes = peers.routes()?;
        routes.mark_unchanged();
        Some(Retry { routes, began: Instant::now() })
    }

    pub(super) fn is_worth_another(&self, lost: CallError) -> bool {
        let after_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        lost.should_retry(after_ms)
    }

    /// Waits until a route changes, or for a short time.
    pub(super) async fn wait(&mut self) {
        // The sender is dropped when the process stops.
        if let Ok(Err(_)) = tokio::time::timeout(LOOK, self.routes.changed()).await {
            tokio::time::sleep(LOOK).await;
        }
        self.routes.mark_unchanged();
    }
}
