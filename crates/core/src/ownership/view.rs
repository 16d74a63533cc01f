//! The rows of the cluster in the database, and the view that every node derives from them.

use std::collections::BTreeMap;

use super::NODE_LEASE_MS_MAX;
use crate::format::Format;
use crate::id::{Epoch, NodeId, Text};
use crate::time::Timestamp;
use crate::token::TokenVersion;

/// The version of the cluster rules that this release supports, stored in its node row. A version
/// includes all lower ones.
pub const RULES: u64 = 4;
/// The first version with pinned shards and with the renewal time of a node. While a node with a
/// lower version is alive, pins are ignored.
const RULES_PUT: u64 = 2;
/// The first version that reads tokens of version 2.
const RULES_TOKEN_V2: u64 = 3;
/// The first version that reads [`Format::V2`].
const RULES_FORMAT_V2: u64 = 4;

/// All rows of the cluster, and the time at which the database read them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterRows {
    /// The database's clock.
    pub at: Timestamp,
    /// All nodes, also dead ones. The row of the node that renewed is the renewed one.
    pub nodes: BTreeMap<NodeId, NodeRow>,
    /// All shards, in order from 0.
    pub shards: Vec<ShardOwner>,
}

/// What a node has stored about itself, and what a person has set for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Where other nodes reach it.
    pub address: Text,
    /// The version of its program.
    pub version: Text,
    /// The rules it supports: [`RULES`] of its release.
    pub rules: u64,
    /// When it first renewed.
    pub joined_at: Timestamp,
    /// When it last renewed.
    pub renewed_at: Timestamp,
    /// When its lease ends. If this equals `renewed_at`, the node has lost its lease.
    pub until: Timestamp,
    /// Whether it has reported that it accepts no shards.
    pub draining: bool,
    /// Whether a person has drained it.
    pub drained: bool,
}

/// The nodes that are alive, and the shards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterView {
    /// The nodes.
    pub nodes: BTreeMap<NodeId, NodeView>,
    /// All shards, in order from 0.
    pub shards: Vec<ShardOwner>,
    /// The newest version of tokens that all these nodes read.
    pub token_version: TokenVersion,
    /// The newest format that all nodes read whose rows are left. A node without a lease may be
    /// alive: it may be cut off from the database, or the database may have been unavailable. Its row is
    /// left for an hour after its lease, unless the node has left or was replaced.
    pub format: Format,
}

/// A node that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Where other nodes reach it.
    pub address: Text,
    /// Whether it accepts shards.
    pub part: NodeRole,
}

/// The part of a node in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeRole {
    /// It accepts shards.
    Takes,
    /// It is stopping: it gives up its shards and accepts none.
    Stops,
    /// A person has drained it: it gives up its shards and accepts none.
    Drained,
    /// An older node at this address is still alive: this one gives up its shards and accepts none.
    DuplicateAddress(NodeId),
}

/// The holder of a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardOwner {
    /// The number of the last claim.
    pub epoch: Epoch,
    /// The node that made the claim. `None` if it has given the shard up since.
    pub node: Option<NodeId>,
    /// The node that a person has pinned it to.
    pub pinned_to: Option<NodeId>,
}

impl NodeView {
    /// Whether it accepts shards.
    pub fn takes(&self) -> bool {
        self.part == NodeRole::Takes
    }
}

impl NodeRow {
    /// Whether the row was written before the clock was set back. Its node may be dead. Older
    /// releases do not store when they renewed.
    fn is_ahead(&self, at: Timestamp) -> bool {
        self.rules >= RULES_PUT && at < self.renewed_at
    }

    fn has_lease(&self) -> bool {
        self.renewed_at < self.until
    }

    /// Whether the lease is valid. The row of an older release is ahead if it is valid for longer
    /// than any lease.
    fn is_alive(&self, at: Timestamp) -> bool {
        !self.is_ahead(at) && at < self.until && self.until.since(at) <= NODE_LEASE_MS_MAX
    }
}

impl ClusterRows {
    /// Returns the view. Every node derives the same view from the same rows.
    ///
    /// If two rows have the same address, the younger one counts, because a process that dies is
    /// replaced at its address. If the older node has renewed since the younger one joined, the
    /// younger one is not a replacement. It is then a duplicate and accepts no shards.
    pub fn view(&self) -> ClusterView {
        let alive = self.nodes.iter().filter(|(_, row)| row.is_alive(self.at));
        let rows: BTreeMap<NodeId, &NodeRow> = alive
            .filter(|(id, row)| !self.is_replaced(**id, row))
            .map(|(id, row)| (*id, row))
            .collect();
        let view = |(id, row): (&NodeId, &&NodeRow)| {
            let mut others = rows.iter().filter(|(_, other)| other.address == row.address);
            let elder = others.find(|(other, by)| is_elder((**other, by), (*id, row)));
            let part = match elder {
                Some((elder, _)) => NodeRole::DuplicateAddress(*elder),
                None if row.drained => NodeRole::Drained,
                None if row.draining => NodeRole::Stops,
                None => NodeRole::Takes,
            };
            (*id, NodeView { address: row.address.clone(), part })
        };
        let nodes = rows.iter().map(view).collect();
        let mut shards = self.shards.clone();
        let all_understand = |rules| rows.values().all(|row| row.rules >= rules);
        if !all_understand(RULES_PUT) {
            shards.iter_mut().for_each(|held| held.pinned_to = None);
        }
        let token_version =
            if all_understand(RULES_TOKEN_V2) { TokenVersion::V2 } else { TokenVersion::V1 };
        let mut left = self.nodes.iter().filter(|(id, row)| !self.is_replaced(**id, row));
        let all_read_v2 = left.all(|(_, row)| row.rules >= RULES_FORMAT_V2);
        let format = if all_read_v2 { Format::V2 } else { Format::V1 };
        ClusterView { nodes, shards, token_version, format }
    }

    /// Returns the rows that are ahead of the clock, with their renewal times. Their leases must be
    /// ended. Otherwise the nodes would look alive again when the clock reaches that time.
    pub fn ahead(&self) -> impl Iterator<Item = (NodeId, Timestamp)> {
        let ahead = self.nodes.iter().filter(|(_, row)| row.is_ahead(self.at) && row.has_lease());
        ahead.map(|(id, row)| (*id, row.renewed_at))
    }

    /// Whether a younger live node has the address of a node that has not renewed since.
    fn is_replaced(&self, id: NodeId, row: &NodeRow) -> bool {
        self.same_address(id)
            .any(|(other, by)| is_elder((id, row), (other, by)) && row.renewed_at < by.joined_at)
    }

    /// Returns the other nodes at the address of a node that look alive.
    fn same_address(&self, of: NodeId) -> impl Iterator<Item = (NodeId, &NodeRow)> {
        let address = self.nodes.get(&of).map(|row| &row.address);
        let others = self.nodes.iter().filter(move |(id, row)| {
            **id != of && Some(&row.address) == address && row.is_alive(self.at)
        });
        others.map(|(id, row)| (*id, row))
    }
}

fn is_elder(one: (NodeId, &NodeRow), other: (NodeId, &NodeRow)) -> bool {
    (one.1.joined_at, one.0) < (other.1.joined_at, other.0)
}
