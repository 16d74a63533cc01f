//! What a person may ask of a cluster.

use super::{ClusterView, Part};
use crate::id::{NodeId, ShardId};

/// It cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// It is not alive, or never was.
    #[error("there is no such node: `driftq node list` shows those that are alive")]
    NoNode,
    /// The number is too high.
    #[error("there is no such shard: `driftq shard list` shows them")]
    NoShard,
    /// Nobody would serve anything.
    #[error("no other node takes shards: start one first")]
    LastNode,
    /// It would give the shard up at once.
    #[error("the node takes no shards now: undrain it, or name another")]
    TakesNone,
}

impl ClusterView {
    /// Whether a node may be told to give its shards up and take none, until it is told otherwise or ends.
    pub fn may_drain(&self, node: NodeId) -> Result<(), AdminError> {
        if !self.nodes.contains_key(&node) {
            return Err(AdminError::NoNode);
        }
        let mut others = self.nodes.iter().filter(|(id, _)| **id != node);
        if others.any(|(_, view)| view.takes()) { Ok(()) } else { Err(AdminError::LastNode) }
    }

    /// Whether a node may be told to take shards again.
    pub fn may_undrain(&self, node: NodeId) -> Result<(), AdminError> {
        self.nodes.contains_key(&node).then_some(()).ok_or(AdminError::NoNode)
    }

    /// Whether a shard may be put on a node, or, on none, be spread like the others.
    pub fn may_put(&self, shard: ShardId, node: Option<NodeId>) -> Result<(), AdminError> {
        if shard.0 as usize >= self.shards.len() {
            return Err(AdminError::NoShard);
        }
        let Some(node) = node else { return Ok(()) };
        match self.nodes.get(&node).ok_or(AdminError::NoNode)?.part {
            Part::Takes => Ok(()),
            Part::Stops | Part::Drained | Part::DuplicateAddress(_) => Err(AdminError::TakesNone),
        }
    }
}
