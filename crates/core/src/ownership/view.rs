//! What the database shows of the cluster, and what every node makes of it.

use std::collections::BTreeMap;

use super::NODE_LEASE_MS_MAX;
use crate::id::{Epoch, NodeId, Text};
use crate::time::Timestamp;
use crate::token::TokenVersion;

/// What this release understands of the cluster, as a number in its node row. A newer number includes all older ones.
pub const RULES: u64 = 3;
/// The first that knows shards which are put on a node, and that says when a node renewed. While a node with an
/// older number is alive, no shard counts as put anywhere.
const RULES_PUT: u64 = 2;
/// The first that reads tokens of version 2.
const RULES_TOKEN_V2: u64 = 3;

/// What the database shows: every row there is, by its own clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// Its clock.
    pub at: Timestamp,
    /// Nodes, of which some may be long gone. The one that renewed is among them, as it is now.
    pub nodes: BTreeMap<NodeId, NodeRow>,
    /// All shards, in order from 0.
    pub shards: Vec<ShardOwner>,
}

/// What a node has said of itself, and what was said to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Where other nodes reach it.
    pub address: Text,
    /// The version of its program.
    pub version: Text,
    /// What it understands: [`RULES`] of its release.
    pub rules: u64,
    /// When it first renewed.
    pub joined_at: Timestamp,
    /// When it last did.
    pub renewed_at: Timestamp,
    /// When its lease is over. It has lost it if that is when it last renewed.
    pub until: Timestamp,
    /// It says that it takes no shards.
    pub draining: bool,
    /// A person has said that it should take none.
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
}

/// A node that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Where other nodes reach it.
    pub address: Text,
    /// Whether it takes shards.
    pub part: Part,
}

/// What part a node has in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It takes shards.
    Takes,
    /// It stops: it gives its shards up and takes none.
    Stops,
    /// A person has said that it should give its shards up and take none.
    Drained,
    /// This other one was at its address before it and still is: it gives its shards up and takes none.
    DuplicateAddress(NodeId),
}

/// Who holds a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardOwner {
    /// The number of the last claim.
    pub epoch: Epoch,
    /// Who made it; none if it has given the shard up since.
    pub node: Option<NodeId>,
    /// The node that a person has put it on.
    pub pinned_to: Option<NodeId>,
}

impl NodeView {
    /// Whether it takes shards.
    pub fn takes(&self) -> bool {
        self.part == Part::Takes
    }
}

impl NodeRow {
    /// Written before the clock was set back: whoever wrote it may be long gone. Older releases do not say when they
    /// renewed.
    fn is_ahead(&self, at: Timestamp) -> bool {
        self.rules >= RULES_PUT && at < self.renewed_at
    }

    fn has_lease(&self) -> bool {
        self.renewed_at < self.until
    }

    /// Of older releases one that is good for longer than any lease is ahead.
    fn is_alive(&self, at: Timestamp) -> bool {
        !self.is_ahead(at) && at < self.until && self.until.since(at) <= NODE_LEASE_MS_MAX
    }
}

impl Shown {
    /// What is made of it. The same by every node that is shown the same.
    ///
    /// Of two rows with one address the younger is the one that counts, for a process that dies is followed by
    /// another there; unless the elder has been heard since. Then it is no follower, and stands aside.
    pub fn view(&self) -> ClusterView {
        let alive = self.nodes.iter().filter(|(_, row)| row.is_alive(self.at));
        let followed = |(id, row): &(&NodeId, &NodeRow)| {
            self.namesakes(**id).any(|(other, by)| {
                is_elder((**id, row), (other, by)) && row.renewed_at < by.joined_at
            })
        };
        let rows: BTreeMap<NodeId, &NodeRow> =
            alive.filter(|node| !followed(node)).map(|(id, row)| (*id, row)).collect();
        let view = |(id, row): (&NodeId, &&NodeRow)| {
            let mut others = rows.iter().filter(|(_, other)| other.address == row.address);
            let elder = others.find(|(other, by)| is_elder((**other, by), (*id, row)));
            let part = match elder {
                Some((elder, _)) => Part::DuplicateAddress(*elder),
                None if row.drained => Part::Drained,
                None if row.draining => Part::Stops,
                None => Part::Takes,
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
        ClusterView { nodes, shards, token_version }
    }

    /// The rows that are good for nothing until they are renewed, and when they say they were. They have to lose
    /// their leases: otherwise they look alive once more when the clock comes to where it was.
    pub fn ahead(&self) -> impl Iterator<Item = (NodeId, Timestamp)> {
        let ahead = self.nodes.iter().filter(|(_, row)| row.is_ahead(self.at) && row.has_lease());
        ahead.map(|(id, row)| (*id, row.renewed_at))
    }

    /// Others at the address of a node that look alive.
    fn namesakes(&self, of: NodeId) -> impl Iterator<Item = (NodeId, &NodeRow)> {
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
