//! Which node each shard is wished for.
//!
//! 1. Every node computes the same from the same view.
//! 2. What a person has put on a node that takes part is there, and takes up room like any other shard.
//! 3. No node is given more than an even share, but for what was put on it: without that, nodes differ by one
//!    shard at most.
//! 4. Whoever holds a shard and has room keeps it, so that as few move as balance allows. What is left
//!    goes, shard by shard, to the node with room that ranks it highest (rendezvous hashing).
//! 5. It does not change while it is carried out: given up and claimed one by one in any order, shards are
//!    wished for the same nodes at every moment between. Each choice looks only at choices that come before
//!    it in the order of shards, and those are still the same.

use std::collections::BTreeMap;

use super::ClusterView;
use crate::id::{NodeId, ShardId};

/// The node each shard is wished for, in the order of shards: none if no node takes part.
pub fn assign(view: &ClusterView) -> Vec<Option<NodeId>> {
    let Some(mut room) = Room::new(view) else { return vec![None; view.shards.len()] };
    let put = view.shards.iter().map(|held| held.pinned_to.filter(|node| room.put(*node)));
    let mut wishes: Vec<Option<NodeId>> = put.collect();
    for (wish, held) in wishes.iter_mut().zip(&view.shards) {
        *wish = wish.or_else(|| held.node.filter(|node| room.take(*node)));
    }
    for (number, wish) in wishes.iter_mut().enumerate().filter(|(_, wish)| wish.is_none()) {
        let shard = ShardId(number as u32);
        *wish = room.nodes().max_by_key(|node| (score(shard, *node), *node));
        wish.map(|node| room.take(node));
    }
    wishes
}

/// How many shards each node may still be given.
struct Room {
    given: BTreeMap<NodeId, usize>,
    /// What every node is given.
    share: usize,
    /// How many nodes may still be given one more.
    more: usize,
}

impl Room {
    /// None if there is no node that takes part.
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

    /// Gives a node one more, whether there is room or not. False if it takes no part.
    fn put(&mut self, node: NodeId) -> bool {
        let Some(given) = self.given.get_mut(&node) else { return false };
        self.more -= usize::from(*given == self.share && self.more > 0);
        *given += 1;
        true
    }

    /// Gives a node one more, if there is room.
    fn take(&mut self, node: NodeId) -> bool {
        let Some(given) = self.given.get(&node).copied().filter(|given| self.has(*given)) else {
            return false;
        };
        self.more -= usize::from(given == self.share);
        self.given.insert(node, given + 1);
        true
    }
}

/// How a node ranks a shard. Nodes of different releases have to agree: this never changes.
fn score(shard: ShardId, node: NodeId) -> u64 {
    let mut bytes = *b"driftq spread v1............";
    bytes[16..20].copy_from_slice(&shard.0.to_be_bytes());
    bytes[20..].copy_from_slice(&node.0.to_be_bytes());
    let hash = blake3::hash(&bytes);
    u64::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}
