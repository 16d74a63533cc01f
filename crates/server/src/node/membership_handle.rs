//! The cluster membership as seen by the task of a shard.

use std::sync::Arc;
use std::time::Duration;

use driftq_core::NodeId;
use driftq_core::ownership::OwnershipEvent;
use driftq_storage::postgres::Postgres;
use rustls::pki_types::CertificateDer;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::routes::Routes;

/// How the task of a shard takes part in the cluster.
#[derive(Clone)]
pub(crate) struct MembershipHandle {
    pub(crate) postgres: Arc<Postgres>,
    pub(crate) node: NodeId,
    /// Receives the events of the task's shard.
    pub(crate) events: mpsc::UnboundedSender<OwnershipEvent>,
    /// When the lease of the node was last renewed.
    renewed: watch::Receiver<Instant>,
    lease_ms: u64,
}

/// After this long without an answer, the database is reported as down to clients. Longer than a
/// failed renewal and the next one.
const SILENCE_MAX: Duration = Duration::from_secs(5);

impl MembershipHandle {
    pub(crate) fn new(
        postgres: Arc<Postgres>,
        node: NodeId,
        events: mpsc::UnboundedSender<OwnershipEvent>,
        renewed: watch::Receiver<Instant>,
        lease_ms: u64,
    ) -> MembershipHandle {
        MembershipHandle { postgres, node, events, renewed, lease_ms }
    }

    /// For how long the database has not renewed the lease of this node, if that is too long. A
    /// shard detects the failure only when its commit fails.
    pub(crate) fn silence(&self) -> Option<Duration> {
        let silent = self.renewed.borrow().elapsed();
        let most = SILENCE_MAX.min(Duration::from_millis(self.lease_ms));
        (silent > most).then_some(silent)
    }

    /// Whether the node has renewed its lease recently. If not, it serves nothing any more.
    pub(crate) fn is_renewed(&self) -> bool {
        self.renewed.borrow().elapsed() < Duration::from_millis(self.lease_ms / 2)
    }
}

/// The handle with which a node of a cluster starts: its membership, and the routes to all shards.
pub(crate) struct ClusterHandle {
    pub(crate) membership: MembershipHandle,
    pub(crate) routes: watch::Receiver<Routes>,
    /// Certificates of other nodes that are trusted.
    pub(crate) trusted: Vec<CertificateDer<'static>>,
}
