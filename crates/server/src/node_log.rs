//! Nodes of the cluster in the log: which joined, left, or lost their lease.

use std::collections::BTreeMap;

use driftq_core::ownership::ClusterRows;
use driftq_core::{NodeId, Text};

/// The nodes that this node knows.
pub(crate) struct NodeLog {
    me: NodeId,
    /// The live nodes of the last view. `None` before the first.
    alive: Option<BTreeMap<NodeId, Text>>,
    /// The addresses of the nodes of the last view, dead ones included.
    addresses: BTreeMap<NodeId, Text>,
}

impl NodeLog {
    pub(crate) fn new(me: NodeId) -> NodeLog {
        NodeLog { me, alive: None, addresses: BTreeMap::new() }
    }

    /// The address of another node, for log lines. `None` for this node.
    pub(crate) fn name_of(&self, node: NodeId) -> Option<String> {
        if node == self.me {
            return None;
        }
        let address = self.addresses.get(&node).map(ToString::to_string);
        Some(address.unwrap_or_else(|| node_name(node)))
    }

    /// Logs how the nodes differ from those of the last view.
    pub(crate) fn seen(&mut self, rows: &ClusterRows) {
        let view = rows.view();
        // Without this node, the view does not show who is alive: the clock of the database may
        // have jumped.
        if !view.nodes.contains_key(&self.me) {
            return;
        }
        let address =
            |(node, row): (&NodeId, &driftq_core::ownership::NodeRow)| (*node, row.address.clone());
        self.addresses = rows.nodes.iter().map(address).collect();
        let others = view.nodes.into_iter().filter(|(node, _)| *node != self.me);
        let alive: BTreeMap<NodeId, Text> =
            others.map(|(node, seen)| (node, seen.address)).collect();
        let Some(before) = self.alive.replace(alive) else {
            let nodes = self.alive.as_ref().map_or(0, BTreeMap::len);
            tracing::info!(node = %node_name(self.me), "joined the cluster; other nodes: {nodes}");
            return;
        };
        let alive = self.alive.iter().flatten();
        for (node, address) in alive.filter(|(node, _)| !before.contains_key(node)) {
            tracing::info!(node = %node_name(*node), %address, "a node joined the cluster");
        }
        let alive = self.alive.iter().flatten().map(|(node, _)| *node).collect::<Vec<_>>();
        for (node, address) in before.iter().filter(|(node, _)| !alive.contains(node)) {
            let node_id = node_name(*node);
            // A node that stops deletes its row.
            if rows.nodes.contains_key(node) {
                tracing::warn!(node = %node_id, %address, "a node is lost: its lease has ended; the other nodes take over its shards");
            } else {
                tracing::info!(node = %node_id, %address, "a node left the cluster");
            }
        }
    }
}

/// The id of a node as the API shows it.
fn node_name(node: NodeId) -> String {
    format!("n_{:016x}", node.0)
}
