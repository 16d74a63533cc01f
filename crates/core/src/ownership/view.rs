//! What a node is shown of the cluster.

use std::collections::BTreeMap;

use crate::id::{Epoch, NodeId, Text};

/// What the database showed at a renewal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterView {
    /// The nodes that are alive by the database's clock, the one that renewed among them.
    pub nodes: BTreeMap<NodeId, NodeView>,
    /// All shards, in order from 0.
    pub shards: Vec<Held>,
}

/// A node that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Where other nodes reach it.
    pub address: Text,
    /// It stops: it gives its shards up and takes none.
    pub draining: bool,
}

/// Who holds a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// The number of the last claim.
    pub epoch: Epoch,
    /// Who made it; none if it has given the shard up since.
    pub node: Option<NodeId>,
}
