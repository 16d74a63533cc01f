//! The assignment of shards to nodes.
//!
//! 1. Every node computes the same assignment from the same view.
//! 2. A shard that is pinned to an active node is assigned to it, and counts towards the node's
//!    share like any other.
//! 3. No node gets more than an even share, except for shards pinned to it. Without pins, nodes
//!    differ by at most one shard.
//! 4. A holder that is below its share keeps its shard, so that as few shards move as balance
//!    allows. Each remaining shard is assigned to the node below its share that ranks it highest
//!    (rendezvous hashing).
//! 5. The assignment does not change while it is carried out. Shards may be given up and claimed
//!    one by one in any order, and every view in between results in the same assignment. Each
//!    choice depends only on choices that come before it in the order of shards, and those are
//!    unchanged.

use std::collections::BTreeMap;

use super::ClusterView;
use crate::id::{NodeId, ShardId};

/// Returns the target node of each shard, in the order of shards. `None` if no node is active.
pub fn assign(view: &ClusterView) -> Vec<Option<NodeId>> {
    let Some(mut room) = Room::new(view) else { return vec![None; view.shards.len()] };
    let put = view.shards.iter().map(|held| held.pinned_to.filter(|node| room.put(*node)));
    let mut targets: Vec<Option<NodeId>> = put.collect();
    for (wish, held) in targets.iter_mut().zip(&view.shards) {
        *wish = wish.or_else(|| held.node.filter(|node| room.take(*node)));
    }
    for (number, wish) in targets.iter_mut().enumerate().filter(|(_, wish)| wish.is_none()) {
        let shard = ShardId(number as u32);
        *wish = room.nodes().max_by_key(|node| (score(shard, *node), *node));
        wish.map(|node| room.take(node));
    }
    targets
}

/// How many more shards each node may get.
struct Room {
    given: BTreeMap<NodeId, usize>,
    /// The number of shards that every node gets.
    share: usize,
    /// How many nodes may still get one shard more.
    more: usize,
}

impl Room {
    /// Returns `None` if no node is active.
    fn new(view: &ClusterView) -> Option<Room> {
        let taking = view.nodes.iter().filter(|(_, node)| node.takes());
        let given: BTreeMap<NodeId, usize> = taking.map(|(id, _)| (*id, 0)).collect();
        let share = view.shards.len().checked_div(given.len())?;
        let more = view.shards.len() % given.len();
        Some(Room { given, share, more })
    }

    fn has(&self, given: usize) -> bool {
        given < self.share || (given == self.share && self.more > 0)
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.given.iter().filter(|(_, given)| self.has(**given)).map(|(node, _)| *node)
    }

    /// Assigns one more shard to a node, even above its share. False if the node is not active.
    fn put(&mut self, node: NodeId) -> bool {
        let Some(given) = self.given.get_mut(&node) else { return false };
        self.more -= usize::from(*given == self.share && self.more > 0);
        *given += 1;
        true
    }

    /// Assigns one more shard to a node if it is below its share. Returns whether it did.
    fn take(&mut self, node: NodeId) -> bool {
        let Some(given) = self.given.get(&node).copied().filter(|given| self.has(*given)) else {
            return false;
        };
        self.more -= usize::from(given == self.share);
        self.given.insert(node, given + 1);
        true
    }
}

/// Returns how a node ranks a shard. Nodes of different releases must agree, so this never changes.
fn score(shard: ShardId, node: NodeId) -> u64 {
    let mut bytes = *b"driftq spread v1............";
    bytes[16..20].copy_from_slice(&shard.0.to_be_bytes());
    bytes[20..].copy_from_slice(&node.0.to_be_bytes());
    let hash = blake3::hash(&bytes);
    u64::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}
