//! What the database holds of nodes and shards, and what it does when it is asked.

use std::collections::BTreeMap;

use driftq_core::ownership::{NodeRow, RULES, ShardOwner, Shown};
use driftq_core::{Epoch, NodeId, ShardId, Timestamp};

use super::ClusterConfig;

/// The rows of nodes and shards.
#[derive(Debug)]
pub(crate) struct Database {
    nodes: BTreeMap<NodeId, NodeRow>,
    shards: Vec<ShardOwner>,
    lease_ms: u64,
    /// How much its clock is ahead of the true one.
    pub(crate) ahead_ms: u64,
    claim_ms: u64,
    /// When each core has done what it has to do.
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

    /// Every node has an address of its own.
    pub(crate) fn renew(&mut self, now: u64, node: NodeId, draining: bool) -> Shown {
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
        let shown = Shown { at, nodes: self.nodes.clone(), shards: self.shards.clone() };
        for (node, renewed_at) in shown.ahead() {
            self.nodes.entry(node).and_modify(|row| row.until = renewed_at);
        }
        shown
    }

    /// A person says whether a node should take shards.
    pub(crate) fn drain(&mut self, node: NodeId, drained: bool) {
        if let Some(row) = self.nodes.get_mut(&node) {
            row.drained = drained;
        }
    }

    /// A person puts a shard on a node.
    pub(crate) fn put(&mut self, shard: ShardId, node: Option<NodeId>) {
        self.shards[shard.0 as usize].pinned_to = node;
    }

    /// The new epoch; none if the shard is not at the old one any more.
    pub(crate) fn claim(&mut self, node: NodeId, shard: ShardId, epoch: Epoch) -> Option<Epoch> {
        let held = &mut self.shards[shard.0 as usize];
        if held.epoch != epoch {
            return None;
        }
        *held = ShardOwner { epoch: Epoch(epoch.0 + 1), node: Some(node), ..*held };
        Some(held.epoch)
    }

    /// A claim was done elsewhere.
    pub(crate) fn hold(&mut self, node: NodeId, shard: ShardId, epoch: Epoch) {
        let held = &mut self.shards[shard.0 as usize];
        *held = ShardOwner { epoch, node: Some(node), ..*held };
    }

    /// When a claim and the recovery after it will be done.
    pub(crate) fn work(&mut self, now: u64) -> u64 {
        let core = self.cores.iter_mut().min().expect("it has a core");
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

    /// A row that is good for longer than a lease was written before the clock was put back: whoever
    /// wrote it may be long gone.
    pub(crate) fn is_alive(&self, now: u64, node: NodeId) -> bool {
        let now = now + self.ahead_ms;
        let good = now + 1..=now + self.lease_ms;
        self.nodes.get(&node).is_some_and(|row| good.contains(&row.until.0))
    }
}
