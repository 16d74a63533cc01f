//! Checks of administrative requests: drain, undrain and move.

use super::{ClusterView, NodeRole};
use crate::id::{NodeId, ShardId};

/// Why an administrative request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The node is not alive, or never existed.
    #[error("the node does not exist; list live nodes with: driftq node list")]
    NoNode,
    /// The shard number is too high.
    #[error("the shard does not exist; list shards with: driftq shard list")]
    NoShard,
    /// No node would be left to serve the shards.
    #[error("no other node accepts shards; start another node first")]
    LastNode,
    /// The node would give the shard up at once.
    #[error("the node does not accept shards; undrain it or choose another node")]
    TakesNone,
}

impl ClusterView {
    /// Rejects draining a node if no other node accepts shards. A drained node gives up its shards
    /// and accepts none until it is undrained or stopped.
    pub fn may_drain(&self, node: NodeId) -> Result<(), AdminError> {
        if !self.nodes.contains_key(&node) {
            return Err(AdminError::NoNode);
        }
        let mut others = self.nodes.iter().filter(|(id, _)| **id != node);
        if others.any(|(_, view)| view.takes()) { Ok(()) } else { Err(AdminError::LastNode) }
    }

    /// Rejects undraining a node that is not alive.
    pub fn may_undrain(&self, node: NodeId) -> Result<(), AdminError> {
        self.nodes.contains_key(&node).then_some(()).ok_or(AdminError::NoNode)
    }

    /// Rejects pinning a shard to a node that does not accept shards. Without a node, the shard is
    /// assigned like the others.
    pub fn may_put(&self, shard: ShardId, node: Option<NodeId>) -> Result<(), AdminError> {
        if shard.0 as usize >= self.shards.len() {
            return Err(AdminError::NoShard);
        }
        let Some(node) = node else { return Ok(()) };
        match self.nodes.get(&node).ok_or(AdminError::NoNode)?.part {
            NodeRole::Takes => Ok(()),
            NodeRole::Stops | NodeRole::Drained | NodeRole::DuplicateAddress(_) => {
                Err(AdminError::TakesNone)
            }
        }
    }
}
