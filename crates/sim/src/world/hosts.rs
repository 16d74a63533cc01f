//! Nodes of a cluster, and what they know of each other.

use std::collections::{BTreeMap, VecDeque};

use driftq_core::ownership::Shown;
use driftq_core::{Command, Epoch, NodeId, ShardId, Ticket, Timestamp};
use driftq_storage::Ownership;

use super::clocks::ProcessClock;
use super::shards::Commit;
use crate::cluster::ClusterConfig;
use crate::cluster::database::Database;
use crate::cluster::process::{Monotonic, Process};

/// A process among others.
pub(crate) struct Host {
    pub(crate) process: Process,
    pub(crate) clock: ProcessClock,
    /// When the machine hears again after the process was stopped: its shards may be quicker.
    pub(crate) hears_at: u64,
    /// Until then the database is out of its reach …
    pub(crate) cut_until: u64,
    /// … or only for renewals.
    pub(crate) is_cut_in_part: bool,
}

/// All of them, and the database they see each other in.
#[derive(Default)]
pub(crate) struct Hosts {
    /// None: one node serves everything.
    pub(crate) database: Option<Database>,
    pub(crate) lease_ms: u64,
    pub(crate) wanted: u32,
    pub(crate) list: BTreeMap<NodeId, Host>,
    pub(crate) next_number: u64,
    /// What the connection of each life has sent and the database has not done.
    pub(crate) sessions: BTreeMap<u64, VecDeque<Box<Commit>>>,
    /// Calls on their way through the node that took them.
    pub(crate) passing: BTreeMap<Ticket, Passing>,
}

/// What a node asks of the database.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request {
    Renew { draining: bool, number: u64 },
    Claim { shard: ShardId, epoch: Epoch },
    GiveUp { shard: ShardId, epoch: Epoch },
    Leave,
}

/// What happens to a node.
#[derive(Debug)]
pub(crate) enum HostEvent {
    /// It looks at its clock.
    Wake,
    /// What it asked reaches the database.
    Ask(Request),
    /// A renewal was done, or not.
    Renewed(u64, Option<Box<Shown>>),
    /// A claim was done, or not.
    ClaimOver { shard: ShardId, claimed: Option<(Ownership, Timestamp)> },
    /// A shard was given up, or it was tried.
    GivenUp(ShardId),
}

impl Hosts {
    /// `wanted` nodes that share `shards`. One needs no others.
    pub(crate) fn new(wanted: u32, shards: u32, rng: &mut fastrand::Rng) -> Hosts {
        if wanted < 2 {
            return Hosts::default();
        }
        let lease_ms = rng.u64(2_500..4_000);
        let terms = ClusterConfig { shards, lease_ms, claim_ms: 0, cores: 1, connections: 1 };
        Hosts { database: Some(Database::new(&terms)), lease_ms, wanted, ..Hosts::default() }
    }

    pub(crate) fn are_many(&self) -> bool {
        self.database.is_some()
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Host> {
        self.list.get(&id)
    }

    pub(crate) fn clocks(&self) -> impl Iterator<Item = &ProcessClock> {
        self.list.values().map(|host| &host.clock)
    }

    pub(crate) fn clock_of(&mut self, id: NodeId) -> Option<(&mut ProcessClock, Monotonic)> {
        self.list.get_mut(&id).map(|host| (&mut host.clock, host.process.clock))
    }

    pub(crate) fn database(&mut self) -> &mut Database {
        self.database.as_mut().expect("only one of many asks it")
    }

    /// Who holds a shard, as the database has it.
    pub(crate) fn holder(&mut self, shard: ShardId) -> Option<NodeId> {
        self.database().held(shard).node
    }

    /// Until when a process is stopped, if it is.
    pub(crate) fn stopped_until(&self, id: NodeId, now: u64) -> Option<u64> {
        let until = self.list.get(&id)?.process.stopped_until;
        (until > now).then_some(until)
    }

    /// The same for its machine.
    pub(crate) fn deaf_until(&self, id: NodeId, now: u64) -> Option<u64> {
        let until = self.list.get(&id)?.hears_at;
        (until > now).then_some(until)
    }

    /// The node that `from` sends calls for a shard to. None if `from` knows of no node that serves it.
    pub(crate) fn route(&self, from: NodeId, shard: ShardId) -> Option<(NodeId, Epoch)> {
        let machine = &self.list.get(&from)?.process.machine;
        let (node, epoch) = machine.holder(shard)?;
        if node == from {
            return Some((from, machine.serves(shard)?));
        }
        machine.address(node).map(|_| (node, epoch))
    }

    /// Whether a node serves a shard under this epoch.
    pub(crate) fn serves(&self, at: NodeId, shard: ShardId, epoch: Epoch) -> bool {
        self.list.get(&at).is_some_and(|host| host.process.machine.serves(shard) == Some(epoch))
    }

    /// Whether the database is out of a node's reach.
    pub(crate) fn is_cut(&self, id: NodeId, now: u64) -> bool {
        self.list.get(&id).is_some_and(|host| host.cut_until > now && !host.is_cut_in_part)
    }

    pub(crate) fn heal(&mut self) {
        for host in self.list.values_mut() {
            host.cut_until = 0;
        }
    }
}

/// A call at the node that took it.
#[derive(Debug)]
pub(crate) struct Passing {
    pub(crate) entry: NodeId,
    pub(crate) since: u64,
    pub(crate) command: Command,
}
