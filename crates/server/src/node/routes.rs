//! Where each shard is served, according to this node's cluster view.

use std::collections::BTreeSet;

use driftq_core::ownership::{ClusterView, NodeRole, Ownerships, ShardOwner};
use driftq_core::{Epoch, Format, NodeId, ShardId, Text, Timestamp, TokenVersion};

/// Where each shard is served.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Routes {
    shards: Vec<Option<Route>>,
    /// Whether another node uses the address of this one.
    has_duplicate_address: bool,
    /// The version of tokens that this node mints.
    pub(crate) token_version: TokenVersion,
    /// The newest format that all nodes read. `None` if it is unknown.
    pub(crate) format: Option<Format>,
}

/// Where a shard is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// By this process, under this epoch.
    Local(Epoch),
    /// By another node.
    Remote {
        /// The address of that node.
        address: Text,
        /// The epoch under which that node serves the shard. If its epoch has changed, it rejects
        /// requests.
        epoch: Epoch,
    },
}

impl Routes {
    pub(crate) fn of(machine: &Ownerships, me: NodeId, shards: usize, now: Timestamp) -> Routes {
        let route = |shard: ShardId| {
            let (node, epoch) = machine.holder(shard)?;
            if node == me {
                return machine.serves(shard).map(Route::Local);
            }
            Some(Route::Remote { address: machine.address(node)?.clone(), epoch })
        };
        let has_duplicate_address = matches!(machine.part(), Some(NodeRole::DuplicateAddress(_)));
        let shards = (0..shards as u32).map(|shard| route(ShardId(shard))).collect();
        let (token_version, format) = (machine.token_version(now), machine.format(now));
        Routes { shards, has_duplicate_address, token_version, format }
    }

    /// The routes as seen by a node that serves no shard.
    pub(crate) fn seen(view: &ClusterView) -> Routes {
        let route = |held: &ShardOwner| {
            let address = view.nodes.get(&held.node?)?.address.clone();
            Some(Route::Remote { address, epoch: held.epoch })
        };
        let shards = view.shards.iter().map(route).collect();
        Routes { shards, format: Some(view.format), ..Routes::default() }
    }

    /// Returns `None` if no node serves the shard now.
    pub(crate) fn to(&self, shard: ShardId) -> Option<&Route> {
        self.shards.get(shard.0 as usize)?.as_ref()
    }

    /// The addresses of the other nodes that serve shards.
    pub(crate) fn addresses(&self) -> BTreeSet<Text> {
        let address = |route: &Route| match route {
            Route::Local(_) => None,
            Route::Remote { address, .. } => Some(address.clone()),
        };
        self.shards.iter().flatten().filter_map(address).collect()
    }

    /// Whether another node uses the address of this one. If so, this node claims no shards.
    pub(crate) fn has_duplicate_address(&self) -> bool {
        self.has_duplicate_address
    }

    /// Whether the routes to all shards are known.
    pub(crate) fn is_complete(&self) -> bool {
        !self.shards.is_empty() && self.shards.iter().all(Option::is_some)
    }

    /// Whether this node has seen the cluster view.
    pub(crate) fn is_known(&self) -> bool {
        self.shards.iter().any(Option::is_some)
    }
}
