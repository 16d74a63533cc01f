//! Shards that are served, and the connections of their consumers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use driftq_checker::history::Name;
use driftq_core::row::Write;
use driftq_core::{
    Batch, Clock, CommandResult, ConsumerId, NodeId, Pipeline, Session, ShardId, Ticket,
};
use driftq_storage::{Memory, Ownership};

use crate::cluster::process::Monotonic;
use crate::facts::{CommandContext, Facts};
use crate::stats::Point;

/// A batch in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) batch: u64,
    pub(crate) point: Point,
}

/// A node serving one shard.
pub(crate) struct Node {
    /// Unique among all nodes and shards.
    pub(crate) life: u64,
    pub(crate) shard: ShardId,
    /// The node in a cluster; `None` for a single node.
    pub(crate) host: Option<NodeId>,
    pub(crate) ownership: Ownership,
    pub(crate) pipeline: Pipeline,
    pub(crate) clock: Clock,
    pub(crate) monotonic: Monotonic,
    /// The shard is being given up: it decides nothing more and ends when its batches are durable.
    pub(crate) is_ending: bool,
    /// Calls without a reply.
    pub(crate) pending: BTreeSet<Ticket>,
    pub(crate) asked: BTreeMap<Ticket, CommandContext>,
    /// Windows from other shards, with the shard and node to reply to.
    pub(crate) carried: BTreeMap<Ticket, (ShardId, Option<NodeId>)>,
    pub(crate) connections: BTreeMap<ConsumerId, Connection>,
    pub(crate) under_way: Vec<InFlight>,
    /// When the last commit was sent.
    pub(crate) sent_until: u64,
    /// When the engine finishes its last commit or, with several nodes, when that commit arrives.
    pub(crate) disk_busy_until: u64,
    pub(crate) answers_busy_until: u64,
    pub(crate) next_internal_ticket: u64,
    pub(crate) turn_at: u64,
    pub(crate) turns: u64,
}

/// A connection of a consumer.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) session: Session,
    /// The node that its client is connected to, with several nodes.
    pub(crate) entry: Option<NodeId>,
    /// Until when its client reads nothing.
    pub(crate) stalled_until: u64,
    /// When the last line arrives. Lines do not overtake each other.
    pub(crate) last_line_at: u64,
}

/// The reply that a caller receives.
#[derive(Debug)]
pub(crate) enum CallReply {
    /// A reply.
    Answer(Box<CommandResult>),
    /// The shard is not served: nothing happened.
    NotServing,
    /// No reply: the outcome is unknown.
    Nothing,
}

/// A snapshot of the storage and the facts committed until then.
pub(crate) struct Backup {
    pub(crate) engine: Memory,
    pub(crate) facts: Facts,
    /// The last event before the backup.
    pub(crate) seq: u64,
}

/// A partition that has to be repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) topic: Name,
    pub(crate) partition: u32,
}

/// A commit in flight.
#[derive(Debug)]
pub(crate) struct Commit {
    /// The node that sent it, with several nodes.
    pub(crate) host: Option<NodeId>,
    pub(crate) ownership: driftq_storage::Ownership,
    pub(crate) batch: Arc<Batch>,
    pub(crate) writes: Vec<Write>,
    pub(crate) answer_at: u64,
    /// The commands of the batch, for the facts.
    pub(crate) keyed: BTreeMap<Ticket, crate::facts::CommandContext>,
    /// The counters of the node after this batch, for some batches.
    pub(crate) counted: Vec<driftq_checker::history::Counters>,
}
