//! The rows of nodes and shards in the database, and the requests it serves.

use std::collections::BTreeMap;

use driftq_core::ownership::{ClusterRows, NodeRow, RULES, ShardOwner};
use driftq_core::{Epoch, NodeId, ShardId, Timestamp};

use super::ClusterConfig;

/// The rows of nodes and shards.
#[derive(Debug)]
pub(crate) struct Database {
    nodes: BTreeMap<NodeId, NodeRow>,
    shards: Vec<ShardOwner>,
    lease_ms: u64,
    /// How far its clock is ahead of the true time.
    pub(crate) ahead_ms: u64,
    claim_ms: u64,
    /// When each core is free again.
    cores: Vec<u64>,
}

impl Database {
    pub(crate) fn new(terms: &ClusterConfig) -> Database {
        Database {
            nodes: BTreeMap::new(),
            shards: vec![ShardOwner::default(); terms.shards as usize],
            lease_ms: terms.lease_ms,
            ahead_ms: 0,
            claim_ms: terms.claim_ms,
            cores: vec![0; terms.cores],
        }
    }

    /// Renews a node. Every node has its own address.
    pub(crate) fn renew(&mut self, now: u64, node: NodeId, draining: bool) -> ClusterRows {
        let at = Timestamp(now + self.ahead_ms);
        let new = || NodeRow {
            address: node.to_string().into(),
            version: "".into(),
            rules: RULES,
            joined_at: at,
            renewed_at: at,
            until: at,
            draining,
            drained: false,
        };
        let row = self.nodes.entry(node).or_insert_with(new);
        (row.draining, row.renewed_at, row.until) = (draining, at, at.after(self.lease_ms));
        let shown = ClusterRows { at, nodes: self.nodes.clone(), shards: self.shards.clone() };
        for (node, renewed_at) in shown.ahead() {
            self.nodes.entry(node).and_modify(|row| row.until = renewed_at);
        }
        shown
    }

    /// An operator marks a node as drained or not.
    pub(crate) fn drain(&mut self, node: NodeId, drained: bool) {
        if let Some(row) = self.nodes.get_mut(&node) {
            row.drained = drained;
        }
    }

    /// An operator pins a shard to a node.
    pub(crate) fn put(&mut self, shard: ShardId, node: Option<NodeId>) {
        self.shards[shard.0 as usize].pinned_to = node;
    }

    /// Returns the new epoch, or `None` if the epoch of the shard has changed.
    pub(crate) fn claim(&mut self, node: NodeId, shard: ShardId, epoch: Epoch) -> Option<Epoch> {
        let held = &mut self.shards[shard.0 as usize];
        if held.epoch != epoch {
            return None;
        }
        *held = ShardOwner { epoch: Epoch(epoch.0 + 1), node: Some(node), ..*held };
        Some(held.epoch)
    }

    /// Records a claim that the engine has already performed.
    pub(crate) fn hold(&mut self, node: NodeId, shard: ShardId, epoch: Epoch) {
        let held = &mut self.shards[shard.0 as usize];
        *held = ShardOwner { epoch, node: Some(node), ..*held };
    }

    /// Returns when a claim and the recovery after it will be finished.
    pub(crate) fn work(&mut self, now: u64) -> u64 {
        let core = self.cores.iter_mut().min().expect("there is at least one core");
        *core = now.max(*core) + self.claim_ms;
        *core
    }

    pub(crate) fn give_up(&mut self, shard: ShardId, epoch: Epoch) {
        let held = &mut self.shards[shard.0 as usize];
        if held.epoch == epoch {
            held.node = None;
        }
    }

    pub(crate) fn leave(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    pub(crate) fn held(&self, shard: ShardId) -> ShardOwner {
        self.shards[shard.0 as usize]
    }

    /// Whether a node is alive. A row that is valid for longer than a lease was written before the
    /// clock was set back: its node may have died long ago.
    pub(crate) fn is_alive(&self, now: u64, node: NodeId) -> bool {
        let now = now + self.ahead_ms;
        let good = now + 1..=now + self.lease_ms;
        self.nodes.get(&node).is_some_and(|row| good.contains(&row.until.0))
    }
}
