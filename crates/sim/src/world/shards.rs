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
use crate::facts::{Asked, Facts};
use crate::stats::Point;

/// A batch under way.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub(crate) batch: u64,
    pub(crate) point: Point,
}

/// A node, as far as it serves one shard.
pub(crate) struct Node {
    /// No two have the same, whatever they serve.
    pub(crate) life: u64,
    pub(crate) shard: ShardId,
    /// Which of many it is.
    pub(crate) host: Option<NodeId>,
    pub(crate) ownership: Ownership,
    pub(crate) pipeline: Pipeline,
    pub(crate) clock: Clock,
    pub(crate) monotonic: Monotonic,
    /// It is to end when what was decided is durable, and decides nothing more.
    pub(crate) is_ending: bool,
    /// Calls to be answered.
    pub(crate) pending: BTreeSet<Ticket>,
    pub(crate) asked: BTreeMap<Ticket, Asked>,
    /// Windows of other shards, to be answered there.
    pub(crate) carried: BTreeMap<Ticket, (ShardId, Option<NodeId>)>,
    pub(crate) connections: BTreeMap<ConsumerId, Connection>,
    pub(crate) under_way: Vec<UnderWay>,
    /// When the last commit was sent.
    pub(crate) sent_until: u64,
    /// When the engine is done with what it was sent, or, where there are many nodes, when that arrives.
    pub(crate) disk_busy_until: u64,
    pub(crate) answers_busy_until: u64,
    pub(crate) next_nobody: u64,
    pub(crate) turn_at: u64,
    pub(crate) turns: u64,
}

/// A connection of a consumer.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) session: Session,
    /// The node that its client is connected to, where there are many.
    pub(crate) entry: Option<NodeId>,
    /// Until when its client reads nothing.
    pub(crate) stalled_until: u64,
    /// When the last line arrives: lines do not overtake each other.
    pub(crate) last_line_at: u64,
}

/// What a caller hears.
#[derive(Debug)]
pub(crate) enum Heard {
    /// An answer.
    Answer(Box<CommandResult>),
    /// The shard is not served there: nothing happened.
    NobodyListens,
    /// Nothing: it may or may not have happened.
    Nothing,
}

/// The storage at some point, and what was committed until then.
pub(crate) struct Backup {
    pub(crate) engine: Memory,
    pub(crate) facts: Facts,
    /// The last event before it.
    pub(crate) seq: u64,
}

/// A partition that has to be repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) topic: Name,
    pub(crate) partition: u32,
}

/// A commit on its way.
#[derive(Debug)]
pub(crate) struct Commit {
    /// The node that sent it, if there are many.
    pub(crate) host: Option<NodeId>,
    pub(crate) ownership: driftq_storage::Ownership,
    pub(crate) batch: Arc<Batch>,
    pub(crate) writes: Vec<Write>,
    pub(crate) answer_at: u64,
    /// Who asked for what, for the facts.
    pub(crate) keyed: BTreeMap<Ticket, crate::facts::Asked>,
    /// The node's counters after this batch, in some.
    pub(crate) counted: Vec<driftq_checker::history::Counters>,
}
