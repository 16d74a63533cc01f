//! What a shard's task knows of the cluster.

use std::sync::Arc;
use std::time::Duration;

use driftq_core::NodeId;
use driftq_core::ownership::Event;
use driftq_storage::postgres::Postgres;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::routes::Routes;

/// How the task of a shard takes part in the cluster.
#[derive(Clone)]
pub(crate) struct MembershipHandle {
    pub(crate) postgres: Arc<Postgres>,
    pub(crate) node: NodeId,
    /// What happens to its shard.
    pub(crate) events: mpsc::UnboundedSender<Event>,
    /// When the lease of the node was last renewed.
    renewed: watch::Receiver<Instant>,
    lease_ms: u64,
}

/// A database that has not answered for so long is down, as far as clients are concerned. Longer than a renewal that
/// fails and the next one.
const SILENCE_MAX: Duration = Duration::from_secs(5);

impl MembershipHandle {
    pub(crate) fn new(
        postgres: Arc<Postgres>,
        node: NodeId,
        events: mpsc::UnboundedSender<Event>,
        renewed: watch::Receiver<Instant>,
        lease_ms: u64,
    ) -> MembershipHandle {
        MembershipHandle { postgres, node, events, renewed, lease_ms }
    }

    /// For how long the database has not renewed the lease of this node, if that is too long. A shard does not show it
    /// until the commit that it waits for has failed.
    pub(crate) fn silence(&self) -> Option<Duration> {
        let silent = self.renewed.borrow().elapsed();
        let most = SILENCE_MAX.min(Duration::from_millis(self.lease_ms));
        (silent > most).then_some(silent)
    }
}

/// What a node of a cluster starts with: its membership, and where shards are served.
pub(crate) struct ClusterHandle {
    pub(crate) membership: MembershipHandle,
    pub(crate) routes: watch::Receiver<Routes>,
}
