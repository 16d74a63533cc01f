//! Clients, and what each of them remembers.

use std::collections::{BTreeMap, VecDeque};

use driftq_checker::history::{Commit as Asked, Effect, Lease, Name, Right};
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

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) list: Vec<Client>,
    /// Who made a call.
    pub(crate) calls: BTreeMap<Ticket, usize>,
    pub(crate) next_ticket: u64,
    pub(crate) next_consumer: u64,
    pub(crate) next_body: u64,
    pub(crate) next_nonce: u64,
    pub(crate) next_result: u64,
    /// What each call that is under way is.
    pub(crate) kinds: BTreeMap<Ticket, &'static str>,
    /// Which group each peek is about.
    pub(crate) peeks: BTreeMap<Ticket, driftq_checker::history::Name>,
    /// Whose connection it is.
    pub(crate) connections: BTreeMap<ConsumerId, usize>,
    pub(crate) is_healed: bool,
}

impl Clients {
    /// How long a consumer's poll waits; None: it is a stream.
    pub(crate) fn polls(&self, consumer: ConsumerId) -> Option<u64> {
        let client = *self.connections.get(&consumer)?;
        match &self.list[client] {
            Client::Worker(worker) => worker.poll_ms,
            Client::Producer(_) | Client::Admin(_) | Client::Executor(_) => None,
        }
    }
}

/// A message as it was sent, to be sent again.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) body: u64,
    pub(crate) key: Name,
    pub(crate) tenant: Option<Name>,
    pub(crate) idem: Option<Name>,
    pub(crate) padding: usize,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) retry: Option<RetryRequest>,
    /// Another topic, as its sender says.
    pub(crate) target: Option<Name>,
    /// The router is asked each time it is sent.
    pub(crate) asks_router: bool,
    /// How often it was sent.
    pub(crate) times: u32,
    /// Deaths of the node when it was first sent.
    pub(crate) deaths: u64,
}

/// A producer.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) topic: Name,
    pub(crate) in_flight: BTreeMap<Ticket, Sent>,
    pub(crate) used_keys: Vec<Sent>,
    /// Messages whose last word was a rejection.
    pub(crate) rejected: Vec<Sent>,
    /// Messages that are to be sent at a moment of their own.
    pub(crate) planned: BTreeMap<u64, Sent>,
    pub(crate) next_plan: u64,
}

/// A delivery as its worker remembers it.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) lease: Lease,
    pub(crate) token: LeaseToken,
    pub(crate) body: u64,
    pub(crate) lease_ms: u64,
    pub(crate) extended: bool,
    /// Whose it is, unless what follows says otherwise.
    pub(crate) tenant: Name,
    /// Effects begun under it whose end waits for the commit.
    pub(crate) ends: Vec<(Held, Said)>,
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
    pub(crate) work: BTreeMap<u64, Taken>,
    pub(crate) next_work: u64,
    pub(crate) old: VecDeque<Taken>,
    /// Acks under way.
    pub(crate) acking: BTreeMap<Ticket, Taken>,
    pub(crate) committing: BTreeMap<Ticket, Committing>,
    /// Commits that are to be sent again.
    pub(crate) again: BTreeMap<u64, Committing>,
    pub(crate) book: Book,
    /// Reads dead letters and writes them down.
    pub(crate) is_undertaker: bool,
    /// When it goes for good, without a word.
    pub(crate) stays_until: Option<u64>,
}

/// A commit, to be sent and perhaps sent again.
#[derive(Debug, Clone)]
pub(crate) struct Committing {
    pub(crate) taken: Taken,
    pub(crate) asked: Asked,
    pub(crate) command: Commit,
    pub(crate) times: u32,
}

/// An executor.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    pub(crate) book: Book,
}

/// A begin, to be sent and perhaps sent again.
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

/// A right to an effect, as its holder remembers it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) right: Right,
    pub(crate) token: EffectToken,
}

/// How an execution is said to have ended.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) status: FinishStatus,
    pub(crate) result: driftq_core::effect::Outcome,
}

/// Something a client will do to an effect.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Begin(Intent),
    Finish(Held, Said),
    Extend(Held, Option<u64>),
}

/// What a client remembers of its effects.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) begins: BTreeMap<Ticket, Intent>,
    pub(crate) acts: BTreeMap<u64, Act>,
    pub(crate) next_act: u64,
    pub(crate) old: VecDeque<Held>,
}

/// What an operator is in the middle of.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    MakeTopic(usize),
    /// A topic that will be deleted again.
    MakeBrief(Name),
    DeleteBrief(Name),
    /// Pause, then seek, then resume.
    PauseToSeek(GroupName),
    Seek(GroupName),
    Resume(GroupName),
    /// Until it is done.
    Go(GroupName),
    DeleteGroup,
    Redrive,
    /// Whatever is in doubt, to be resolved.
    FindDoubt,
    Resolve,
    Look,
    /// What `operator` begins.
    Patch(&'static str),
    Purge {
        dry_run: bool,
    },
    /// Delete what is listed.
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
    /// Topics of the plan that exist.
    pub(crate) made: usize,
    pub(crate) tasks: BTreeMap<Ticket, Task>,
    pub(crate) briefs: u32,
    pub(crate) brief: Option<Name>,
    pub(crate) paused: Vec<GroupName>,
    pub(crate) has_undertakers: bool,
    pub(crate) has_looked: bool,
    /// Groups that were created for a while.
    pub(crate) guests: Vec<GroupName>,
    pub(crate) invited: u32,
}

/// How a call ended, for the client that made it.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Reply),
    Refused(Rejection),
    /// The node was not there.
    NotSent,
    Unknown,
}
