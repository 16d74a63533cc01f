//! The nodes of a cluster and their view of each other.

use std::collections::{BTreeMap, VecDeque};

use driftq_core::ownership::ClusterRows;
use driftq_core::{Command, Epoch, NodeId, ShardId, Ticket, Timestamp};
use driftq_storage::Ownership;

use super::clocks::ProcessClock;
use super::shards::Commit;
use crate::cluster::ClusterConfig;
use crate::cluster::database::Database;
use crate::cluster::process::{Monotonic, Process};

/// A process of a cluster.
pub(crate) struct Host {
    pub(crate) process: Process,
    pub(crate) clock: ProcessClock,
    /// When its state machine resumes after a pause. Its shards may resume earlier.
    pub(crate) hears_at: u64,
    /// The database is unreachable until this time …
    pub(crate) cut_until: u64,
    /// … or only for renewals.
    pub(crate) is_cut_in_part: bool,
}

/// All processes, and the database that they share.
#[derive(Default)]
pub(crate) struct Hosts {
    /// `None` if one node serves everything.
    pub(crate) database: Option<Database>,
    pub(crate) lease_ms: u64,
    pub(crate) wanted: u32,
    pub(crate) list: BTreeMap<NodeId, Host>,
    pub(crate) next_number: u64,
    /// Commits that each life has sent and the database has not executed.
    pub(crate) sessions: BTreeMap<u64, VecDeque<Box<Commit>>>,
    /// Calls that a node has accepted and not answered.
    pub(crate) passing: BTreeMap<Ticket, AcceptedCall>,
}

/// A request of a node to the database.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request {
    Renew { draining: bool, number: u64 },
    Claim { shard: ShardId, epoch: Epoch },
    GiveUp { shard: ShardId, epoch: Epoch },
    Leave,
}

/// An event of a node.
#[derive(Debug)]
pub(crate) enum HostEvent {
    /// Its deadline is due.
    Wake,
    /// Its request reaches the database.
    Ask(Request),
    /// A renewal succeeded or failed.
    Renewed(u64, Option<Box<ClusterRows>>),
    /// A claim succeeded or failed.
    ClaimOver { shard: ShardId, claimed: Option<(Ownership, Timestamp)> },
    /// A shard was given up, or the attempt failed.
    GivenUp(ShardId),
}

impl Hosts {
    /// Creates the state for `wanted` nodes that share `shards`. A single node needs no database.
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
        self.database.as_mut().expect("called only with several nodes")
    }

    /// The holder of a shard, according to the database.
    pub(crate) fn holder(&mut self, shard: ShardId) -> Option<NodeId> {
        self.database().held(shard).node
    }

    /// Until when a process is stopped, if it is.
    pub(crate) fn stopped_until(&self, id: NodeId, now: u64) -> Option<u64> {
        let until = self.list.get(&id)?.process.stopped_until;
        (until > now).then_some(until)
    }

    /// Until when its state machine is stopped.
    pub(crate) fn deaf_until(&self, id: NodeId, now: u64) -> Option<u64> {
        let until = self.list.get(&id)?.hears_at;
        (until > now).then_some(until)
    }

    /// The node to which `from` sends calls for a shard. `None` if `from` knows no node that serves
    /// it.
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

    /// Whether a node cannot reach the database.
    pub(crate) fn is_cut(&self, id: NodeId, now: u64) -> bool {
        self.list.get(&id).is_some_and(|host| host.cut_until > now && !host.is_cut_in_part)
    }

    pub(crate) fn heal(&mut self) {
        for host in self.list.values_mut() {
            host.cut_until = 0;
        }
    }
}

/// A call at the node that accepted it.
#[derive(Debug)]
pub(crate) struct AcceptedCall {
    pub(crate) entry: NodeId,
    pub(crate) since: u64,
    pub(crate) command: Command,
}
