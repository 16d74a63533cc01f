//! The simulated world: time, randomness and the event queue.

mod clients;
mod clocks;
mod faults;
mod hosts;
mod shards;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use driftq_checker::history::{Event, What};
use driftq_core::change::Delivery;
use driftq_core::command::{Arrive, Arrived};
use driftq_core::row::Row;
use driftq_core::{
    CallError, Command, CommandResult, ConsumerId, Damaged, Epoch, NodeId, Offset, ReadId, ShardId,
    Ticket, Timestamp,
};
use driftq_storage::Memory;

use crate::facts::Facts;
use crate::plan::{Shape, TopicPlan};
use crate::stats::Stats;

pub(crate) use clients::{
    Act, Admin, Book, Client, Clients, Committing, Held, Intent, Outcome, Producer,
    ReportedOutcome, Sent, Task, Worker, WorkerDelivery,
};
pub(crate) use clocks::{Clocks, EPOCH_MS, ProcessClock};
pub(crate) use faults::Faults;
pub(crate) use hosts::{AcceptedCall, Host, HostEvent, Hosts, Request};
pub(crate) use shards::{Backup, CallReply, Commit, Connection, Damage, InFlight, Node};

/// A scheduled event.
#[derive(Debug)]
pub(crate) enum SimEvent {
    /// A node processes what is due.
    Turn { life: u64 },
    /// A commit reaches the engine.
    CommitSent { life: u64, commit: Option<Box<Commit>> },
    /// A commit takes effect, or not.
    CommitApplied { life: u64, commit: Box<Commit> },
    /// A commit of one of several nodes reaches the database.
    CommitReaches { life: u64, commit: Box<Commit> },
    /// The database starts the next commit of a life, once it is not locked.
    CommitBegins { life: u64 },
    /// The database finishes a commit.
    CommitEnds { life: u64 },
    /// The node learns that its ownership has ended, or times out without a reply.
    CommitTimedOut { life: u64, fenced: bool },
    /// The reply to a commit reaches the node.
    CommitAnswered { life: u64, batch: u64 },
    /// The engine reads rows.
    ReadTaken { life: u64, read: ReadId, reads: Vec<driftq_core::row::Read>, answer_at: u64 },
    /// The rows reach the node.
    ReadAnswered { life: u64, read: ReadId, rows: Vec<Vec<Row>> },
    /// A client's request reaches the node.
    Request { ticket: Ticket, command: Box<Command> },
    /// A reply reaches the client.
    Answer { ticket: Ticket, reply: crate::world::CallReply },
    /// A delivery reaches a consumer.
    Line { consumer: ConsumerId, delivery: Box<Delivery> },
    /// A consumer's connection ended.
    Hangup { consumer: ConsumerId },
    /// A consumer disconnects permanently.
    Goes { consumer: ConsumerId },
    /// A client continues.
    Wake { client: usize },
    /// A producer sends a planned message.
    Planned { client: usize, plan: u64 },
    /// A consumer has processed a message.
    Worked { client: usize, work: u64 },
    /// A client performs a planned action on an effect.
    Act { client: usize, act: u64 },
    /// A fault is due.
    Fault,
    /// Messages reach another shard. With several nodes, `between` names the sender and the target
    /// node.
    Carried { target: ShardId, arrive: Box<Arrive>, between: Option<Between> },
    /// The result reaches the source shard, at the node that sent the messages.
    Told { source: ShardId, arrived: Arrived, at: Option<NodeId> },
    /// A node starts.
    HostStarts,
    /// An event of a node.
    Host(NodeId, HostEvent),
    /// The node that accepted a call processes or forwards it.
    Pass { ticket: Ticket },
    /// A call reaches the node that is believed to serve its shard.
    Forwarded { ticket: Ticket, to: NodeId, epoch: Epoch, command: Box<Command> },
    /// A reply reaches the node that accepted the call.
    Back { ticket: Ticket, answered: Result<CommandResult, CallError> },
    /// A shard is started again.
    Restart { shard: ShardId },
    /// A backup is created.
    BackUp,
    /// The storage is restored from the backup.
    Restore,
    /// A stored page is damaged.
    Corrupt,
    /// An operator repairs a partition, from an offset on.
    Repair { damage: Damage, from: Offset },
    /// A long clock jump is confirmed, or the clock is corrected.
    JumpEnds { number: u64, is_right: bool },
    /// The faults end.
    Heal,
}

/// A message from one node to another that is believed to serve under this epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Between {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) epoch: Epoch,
}

#[derive(Debug)]
struct Queued {
    at: u64,
    order: u64,
    happening: SimEvent,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Queued {}
impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// The simulated world.
pub(crate) struct World {
    pub(crate) rng: fastrand::Rng,
    /// Milliseconds since the start of the run; also the monotonic clock of a single node.
    pub(crate) now: u64,
    queue: BinaryHeap<Reverse<Queued>>,
    order: u64,
    pub(crate) history: Vec<Event>,
    pub(crate) stats: Stats,
    pub(crate) engine: Memory,
    authority: Arc<AtomicU64>,
    pub(crate) clocks: Clocks,
    /// The nodes that serve each shard, or believe to. Only the last one may commit.
    pub(crate) nodes: Vec<Vec<Node>>,
    pub(crate) hosts: Hosts,
    pub(crate) life: u64,
    pub(crate) facts: Facts,
    pub(crate) faults: Faults,
    pub(crate) clients: Clients,
    pub(crate) backup: Option<Box<Backup>>,
    /// Partitions with a damaged page.
    pub(crate) damages: Vec<Damage>,
    /// How often the storage was restored.
    pub(crate) restore: u32,
    pub(crate) plan: Vec<TopicPlan>,
    pub(crate) shape: Shape,
    /// The maximum number of open messages of a shard.
    pub(crate) open_max: u64,
    /// Checks the state of the shard regularly: slower, and detects errors without the checker.
    pub(crate) is_strict: bool,
    /// Reads of an audit chain that missed records.
    pub(crate) gaps: u64,
    /// How often deciding panicked.
    pub(crate) defects: u64,
}

impl World {
    pub(crate) fn new(seed: u64, is_strict: bool) -> World {
        let mut rng = fastrand::Rng::with_seed(seed);
        let authority = Arc::new(AtomicU64::new(EPOCH_MS));
        let read_authority = authority.clone();
        let engine = Memory::new(move || Timestamp(read_authority.load(Ordering::Relaxed)));
        let shape = crate::plan::shape(&mut rng);
        let open_max = crate::plan::open_max(&mut rng, shape);
        let plan = crate::plan::topics(&mut rng, shape);
        let nodes: Vec<Vec<Node>> =
            (0..crate::plan::shards(&mut rng)).map(|_| Vec::new()).collect();
        let hosts = Hosts::new(crate::plan::nodes(seed), nodes.len() as u32, &mut rng);
        let mut stats = Stats::default();
        stats.expect(crate::sometimes::SOMETIMES);
        World {
            rng,
            now: 0,
            queue: BinaryHeap::new(),
            order: 0,
            history: Vec::new(),
            stats,
            engine,
            authority,
            clocks: Clocks::new(),
            nodes,
            hosts,
            life: 0,
            facts: Facts::default(),
            faults: Faults::default(),
            clients: Clients::default(),
            backup: None,
            damages: Vec::new(),
            restore: 0,
            plan,
            shape,
            open_max,
            is_strict,
            gaps: 0,
            defects: 0,
        }
    }

    pub(crate) fn later(&mut self, delay_ms: u64, happening: SimEvent) {
        self.order += 1;
        let (at, order) = (self.now + delay_ms, self.order);
        self.queue.push(Reverse(Queued { at, order, happening }));
    }

    /// Changes or removes queued events, keeping their order.
    pub(crate) fn change_queue(&mut self, change: impl Fn(SimEvent) -> Option<SimEvent>) {
        let queue = std::mem::take(&mut self.queue).into_iter();
        let changed = queue.filter_map(|Reverse(Queued { at, order, happening })| {
            Some(Reverse(Queued { at, order, happening: change(happening)? }))
        });
        self.queue = changed.collect();
    }

    /// Returns the next event, if it is before `end`.
    pub(crate) fn next(&mut self, end: u64) -> Option<SimEvent> {
        let next = loop {
            if self.queue.peek().is_none_or(|Reverse(next)| next.at >= end) {
                return None;
            }
            let Reverse(next) = self.queue.pop().expect("the queue was just peeked");
            self.now = next.at;
            match self.held_until(&next.happening) {
                Some(at) => self.queue.push(Reverse(Queued { at, ..next })),
                None => break next,
            }
        };
        self.set_authority();
        Some(next.happening)
    }

    /// Until when the process of an event is stopped. Its events are delayed until it resumes, in
    /// the same order.
    fn held_until(&self, happening: &SimEvent) -> Option<u64> {
        if !self.hosts.are_many() {
            return None;
        }
        let of_life = |life: &u64| {
            let mut nodes = self.nodes.iter().flatten();
            nodes.find(|node| node.life == *life).and_then(|node| node.host)
        };
        let entry = |ticket| self.hosts.passing.get(ticket).map(|passing| passing.entry);
        let host = match happening {
            SimEvent::Turn { life }
            | SimEvent::CommitSent { life, .. }
            | SimEvent::CommitAnswered { life, .. }
            | SimEvent::CommitTimedOut { life, .. }
            | SimEvent::ReadAnswered { life, .. } => of_life(life),
            SimEvent::Host(_, HostEvent::Ask(_)) => None,
            SimEvent::Host(host, _) => return self.hosts.deaf_until(*host, self.now),
            SimEvent::Pass { ticket } | SimEvent::Back { ticket, .. } => entry(ticket),
            SimEvent::Forwarded { to, .. } => Some(*to),
            SimEvent::Carried { between, .. } => between.map(|between| between.to),
            SimEvent::Told { at, .. } => *at,
            SimEvent::CommitApplied { .. }
            | SimEvent::CommitReaches { .. }
            | SimEvent::CommitBegins { .. }
            | SimEvent::CommitEnds { .. }
            | SimEvent::ReadTaken { .. }
            | SimEvent::Request { .. }
            | SimEvent::Answer { .. }
            | SimEvent::Line { .. }
            | SimEvent::Hangup { .. }
            | SimEvent::Goes { .. }
            | SimEvent::Wake { .. }
            | SimEvent::Planned { .. }
            | SimEvent::Worked { .. }
            | SimEvent::Act { .. }
            | SimEvent::Fault
            | SimEvent::HostStarts
            | SimEvent::Restart { .. }
            | SimEvent::BackUp
            | SimEvent::Restore
            | SimEvent::Corrupt
            | SimEvent::Repair { .. }
            | SimEvent::JumpEnds { .. }
            | SimEvent::Heal => None,
        };
        self.hosts.stopped_until(host?, self.now)
    }

    /// Sets the time that the engine reads from the authority clock.
    pub(crate) fn set_authority(&self) {
        self.authority.store(self.authority_now().0, Ordering::Relaxed);
    }

    /// Records a damaged row. The node does not serve the shard any more, which the checker
    /// notices.
    pub(crate) fn found_damage(&mut self, shard: ShardId, damaged: &Damaged) {
        self.record(0, What::Damaged { shard: shard.0, why: damaged.to_string().into() });
    }

    pub(crate) fn record(&mut self, process: u32, what: What) {
        let seq = self.history.len() as u64;
        self.history.push(Event { seq, at: self.now, process, what });
    }

    /// A delay around `usual_ms`, sometimes much longer.
    pub(crate) fn delay(&mut self, usual_ms: u64) -> u64 {
        match self.rng.u32(0..100) {
            0 => self.rng.u64(0..=usual_ms * 50),
            1..10 => self.rng.u64(0..=usual_ms * 5),
            _ => self.rng.u64(0..=usual_ms * 2),
        }
    }
}
