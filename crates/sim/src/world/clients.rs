//! The clients and their state.

use std::collections::{BTreeMap, VecDeque};

use driftq_checker::history::{Commit as CommandContext, Effect, Lease, Name, Right};
use driftq_core::command::{BeginOf, Commit, FinishStatus, GroupName};
use driftq_core::{
    ConsumerId, EffectToken, LeaseToken, OnDoubt, Rejection, Reply, RetryRequest, ShardId, Text,
    Ticket, Timestamp,
};

use super::shards::Damage;

/// A client.
#[derive(Debug)]
pub(crate) enum Client {
    Producer(Producer),
    Worker(Box<Worker>),
    Admin(Admin),
    Executor(Box<Executor>),
}

/// All clients.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) list: Vec<Client>,
    /// The client of each call.
    pub(crate) calls: BTreeMap<Ticket, usize>,
    pub(crate) next_ticket: u64,
    pub(crate) next_consumer: u64,
    pub(crate) next_body: u64,
    pub(crate) next_nonce: u64,
    pub(crate) next_result: u64,
    /// The kind of each call in flight.
    pub(crate) kinds: BTreeMap<Ticket, &'static str>,
    /// The group of each peek.
    pub(crate) peeks: BTreeMap<Ticket, driftq_checker::history::Name>,
    /// The shard of each call that tells it that a worker leaves.
    pub(crate) leaves: BTreeMap<Ticket, ShardId>,
    /// The client of each connection.
    pub(crate) connections: BTreeMap<ConsumerId, usize>,
    pub(crate) is_healed: bool,
}

impl Clients {
    /// How long a consumer's poll waits; `None` for a stream.
    pub(crate) fn polls(&self, consumer: ConsumerId) -> Option<u64> {
        let client = *self.connections.get(&consumer)?;
        match &self.list[client] {
            Client::Worker(worker) => worker.poll_ms,
            Client::Producer(_) | Client::Admin(_) | Client::Executor(_) => None,
        }
    }
}

/// A sent message, kept to send it again.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) body: u64,
    pub(crate) key: Name,
    pub(crate) tenant: Option<Name>,
    pub(crate) idem: Option<Name>,
    /// The nonce of its request.
    pub(crate) nonce: Option<Name>,
    pub(crate) padding: usize,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) retry: Option<RetryRequest>,
    /// The topic that the message names, if any.
    pub(crate) target: Option<Name>,
    /// The router decides anew each time the message is sent.
    pub(crate) asks_router: bool,
    /// How often it was sent.
    pub(crate) times: u32,
    /// The number of crashes when it was first sent.
    pub(crate) deaths: u64,
}

/// A producer.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) topic: Name,
    pub(crate) in_flight: BTreeMap<Ticket, Sent>,
    pub(crate) used_keys: Vec<Sent>,
    /// Requests with a nonce that were accepted.
    pub(crate) used_nonces: Vec<Sent>,
    /// Messages whose last reply was a rejection.
    pub(crate) rejected: Vec<Sent>,
    /// Messages to be sent at a planned time.
    pub(crate) planned: BTreeMap<u64, Sent>,
    pub(crate) next_plan: u64,
}

/// A delivery as its worker knows it.
#[derive(Debug, Clone)]
pub(crate) struct WorkerDelivery {
    pub(crate) lease: Lease,
    pub(crate) token: LeaseToken,
    pub(crate) body: u64,
    pub(crate) lease_ms: u64,
    pub(crate) extended: bool,
    /// The tenant of the message, used for produced messages that name none.
    pub(crate) tenant: Name,
    /// Effects begun under it that are finished by the commit.
    pub(crate) ends: Vec<(Held, ReportedOutcome)>,
}

/// A worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) name: GroupName,
    pub(crate) owner: Text,
    pub(crate) credit: u32,
    pub(crate) lease_ms: Option<u64>,
    pub(crate) poll_ms: Option<u64>,
    pub(crate) connection: Option<ConsumerId>,
    pub(crate) joining: Option<Ticket>,
    pub(crate) work: BTreeMap<u64, WorkerDelivery>,
    pub(crate) next_work: u64,
    pub(crate) old: VecDeque<WorkerDelivery>,
    /// Acks in flight.
    pub(crate) acking: BTreeMap<Ticket, WorkerDelivery>,
    pub(crate) committing: BTreeMap<Ticket, Committing>,
    /// Commits to be sent again.
    pub(crate) again: BTreeMap<u64, Committing>,
    pub(crate) book: Book,
    /// Reads dead letters and records them.
    pub(crate) reads_dead_letters: bool,
    /// When it disconnects permanently.
    pub(crate) stays_until: Option<u64>,
    /// The number of its process, if it names itself.
    pub(crate) process: Option<u32>,
    /// Set after its process has left: when the next one starts. Until then, joins of the old one
    /// may still arrive.
    pub(crate) restarts_at: Option<u64>,
}

/// A commit, kept to send it again.
#[derive(Debug, Clone)]
pub(crate) struct Committing {
    pub(crate) taken: WorkerDelivery,
    pub(crate) asked: CommandContext,
    pub(crate) command: Commit,
    pub(crate) times: u32,
}

/// An executor.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    pub(crate) book: Book,
}

/// A begin, kept to send it again.
#[derive(Debug, Clone)]
pub(crate) struct Intent {
    pub(crate) of: BeginOf,
    pub(crate) effect: Effect,
    /// The delivery it is begun under, and the worker's number for it.
    pub(crate) under: Option<(Lease, u64)>,
    pub(crate) request: Option<Name>,
    pub(crate) on_doubt: OnDoubt,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) window_ms: Option<u64>,
    pub(crate) nonce: Option<Text>,
    pub(crate) times: u32,
}

impl Intent {
    pub(crate) fn is_again(&self) -> bool {
        matches!(self.of, BeginOf::Scope { again: true, .. })
    }
}

/// A right to an effect, as its holder knows it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) right: Right,
    pub(crate) token: EffectToken,
}

/// The reported outcome of an execution.
#[derive(Debug, Clone)]
pub(crate) struct ReportedOutcome {
    pub(crate) status: FinishStatus,
    pub(crate) result: driftq_core::effect::Outcome,
}

/// A planned action on an effect.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Begin(Intent),
    Finish(Held, ReportedOutcome),
    Extend(Held, Option<u64>),
}

/// The effects of a client.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) begins: BTreeMap<Ticket, Intent>,
    pub(crate) acts: BTreeMap<u64, Act>,
    pub(crate) next_act: u64,
    pub(crate) old: VecDeque<Held>,
}

/// A pending action of an operator.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    MakeTopic(usize),
    /// A short-lived topic.
    CreateShortLived(Name),
    DeleteBrief(Name),
    /// Pause, then seek, then resume.
    PauseToSeek(GroupName),
    Seek(GroupName),
    Resume(GroupName),
    /// Retried until it succeeds.
    Go(GroupName),
    DeleteGroup,
    Redrive,
    /// Find effects in doubt, to resolve them.
    FindDoubt,
    Resolve,
    Look,
    /// The following actions belong to `operator`.
    Patch(&'static str),
    Purge {
        dry_run: bool,
    },
    /// Delete the listed dead letters.
    PurgeListed(Name),
    Explain,
    Peek,
    Settings,
    Invite(GroupName),
    Dismiss(GroupName),
    PauseToSeekAll(GroupName),
    SeekAll(GroupName),
    PauseForAWhile,
    ReadPointer,
    Chain(ShardId),
    Audit {
        from: u64,
        to: u64,
        restore: u32,
    },
    Repair(Damage),
}

/// An operator.
#[derive(Debug, Default)]
pub(crate) struct Admin {
    /// Number of topics of the plan that exist.
    pub(crate) made: usize,
    pub(crate) tasks: BTreeMap<Ticket, Task>,
    pub(crate) briefs: u32,
    pub(crate) brief: Option<Name>,
    pub(crate) paused: Vec<GroupName>,
    pub(crate) has_undertakers: bool,
    pub(crate) has_looked: bool,
    /// Groups that were created for a limited time.
    pub(crate) guests: Vec<GroupName>,
    pub(crate) invited: u32,
}

/// The outcome of a call for its client.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Reply),
    Refused(Rejection),
    /// No node was available.
    NotSent,
    Unknown,
}
