//! A history in the order of `seq`, with every name replaced by a number.
//!
//! 1. `moments` holds the events that checks must see in order: calls, replies, deliveries and
//!    commits.
//! 2. A call has its outcome from the start, so a check can look ahead.
//! 3. Nothing is checked here. Invalid events, such as a reply without a call, are ignored.

mod build;
mod facts;
mod places;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::history::{
    self, Begin, Content, Counters, DeadLetter, Decision, Delivery, Event, Finish, Granted, How,
    MessageStatus, Name, Record, Right, Settings, Start, Status, Stored, Verb,
};
use crate::ids::{
    CallId, Column, CommitId, CursorId, EffectId, EntryId, IdentityId, LabelId, LaneId, LifeId,
    NameId, PositionId, ReaderId,
};
use crate::report::Counts;

pub(crate) use places::Places;

/// A history, ready to be checked.
pub(crate) struct Timeline<'a> {
    /// Calls, answers, deliveries and commits in order.
    pub(crate) moments: Vec<Moment<'a>>,
    /// Every call, in order of invocation.
    pub(crate) calls: Column<CallId, Call<'a>>,
    /// Every call to commit, in order of invocation.
    pub(crate) commits: Column<CommitId, Commit<'a>>,
    /// Every committed batch, in order.
    pub(crate) batches: Vec<Batch>,
    /// The facts of all batches, in order.
    pub(crate) steps: Vec<Step<'a>>,
    /// Counters that nodes reported, in order.
    pub(crate) counted: Vec<Counted<'a>>,
    /// Dead letters that existed at the end.
    pub(crate) dead_letters: Vec<Letter<'a>>,
    /// The maximum number of open messages of a shard, if the harness reports it.
    pub(crate) open_max: Option<u64>,
    /// Offsets of lanes whose messages the harness damaged, and since which event.
    pub(crate) corrupted: Vec<(u64, LaneId, Range<u64>)>,
    /// The epochs of shards in which a node of an older release was alive.
    pub(crate) older_nodes: BTreeSet<(u32, u64)>,
    /// The event at which the faults ended.
    pub(crate) healed: Option<u64>,
    /// The event at which the run ended.
    pub(crate) ended: Option<u64>,
    /// The names behind the numbers.
    pub(crate) places: Places<'a>,
    /// The size of the history.
    pub(crate) counts: Counts,
}

impl<'a> Timeline<'a> {
    /// Builds a timeline.
    pub(crate) fn of(events: &'a [Event]) -> Self {
        build::build(events)
    }

    /// Whether the history has commits.
    pub(crate) fn has_facts(&self) -> bool {
        !self.batches.is_empty()
    }

    /// The settlement of a call, on its own or in a commit. `None` if the reply reports that the
    /// commit was done before.
    pub(crate) fn settled_by(&self, call: CallId) -> Option<Settle<'a>> {
        let is_repeat =
            matches!(self.calls[call].outcome, Outcome::Committed { repeated: true, .. });
        if let Ask::Settle(settle) = self.calls[call].ask {
            return Some(settle);
        }
        if let Ask::Commit(commit) = self.calls[call].ask
            && !is_repeat
        {
            return Some(self.commits[commit].settle);
        }
        None
    }

    /// The facts of `batch`.
    pub(crate) fn steps_of(&self, batch: &Batch) -> &[Step<'a>] {
        &self.steps[batch.steps.clone()]
    }
}

/// An event in order.
pub(crate) struct Moment<'a> {
    /// Its `seq`.
    pub(crate) seq: u64,
    /// The process that observed it.
    pub(crate) process: u32,
    /// The event.
    pub(crate) seen: Seen<'a>,
}

/// An event that checks must see in order.
pub(crate) enum Seen<'a> {
    /// A call was sent.
    Invoked(CallId),
    /// The call ended.
    Answered(CallId),
    /// A delivery was read.
    Delivered { entry: EntryId, id: LabelId, delivery: &'a Delivery },
    /// A batch was committed: its index in `batches`.
    Committed(usize),
    /// A delivery was written to its consumer.
    Written { entry: EntryId, attempt: u32 },
    /// A consumer's connection ended.
    Left { consumer: u64, at: u64 },
}

/// A call and its outcome.
pub(crate) struct Call<'a> {
    /// When it was sent.
    pub(crate) invoked: u64,
    /// When it ended; `u64::MAX` if it did not.
    pub(crate) answered: u64,
    /// The request.
    pub(crate) ask: Ask<'a>,
    /// The outcome.
    pub(crate) outcome: Outcome<'a>,
}

/// A request of a client.
#[derive(Clone, Copy)]
pub(crate) enum Ask<'a> {
    /// Store a message.
    Produce(Send<'a>),
    /// Settle or renew a delivery.
    Settle(Settle<'a>),
    /// Create a group with this start.
    CreateGroup(ReaderId, Start),
    /// Delete a group.
    DeleteGroup(ReaderId),
    /// Delete a topic.
    DeleteTopic(NameId),
    /// Move a cursor.
    Seek(CursorId),
    /// Move all cursors of a group.
    SeekAll(ReaderId, Start),
    /// Delete dead letters, or only count them.
    Purge { ids: &'a [Name], dry_run: bool },
    /// Read the state of the messages of a partition.
    Inspect(LaneId),
    /// Ask why a group is delivered nothing.
    ExplainGroup,
    /// Read a pointer.
    ReadPointer { topic: NameId, name: &'a str },
    /// Read the settings of a topic, or change them.
    Settings(NameId),
    /// Use something that was issued before a restore.
    Outdated,
    /// Redrive this dead letter.
    Redrive(LabelId),
    /// Begin an effect.
    Begin { effect: EffectId, begin: &'a Begin },
    /// Report its outcome.
    Finish { effect: EffectId, right: &'a Right, status: Status, outcome: &'a str },
    /// Extend its right.
    ExtendEffect { effect: EffectId, right: &'a Right },
    /// Resolve it as an operator.
    Resolve { effect: EffectId, fence: u64, status: Status, outcome: &'a str },
    /// Settle, finish and produce at once.
    Commit(CommitId),
    /// A request that is not checked.
    Other,
}

/// A commit.
pub(crate) struct Commit<'a> {
    /// The delivery and its end.
    pub(crate) settle: Settle<'a>,
    /// The outcomes of effects.
    pub(crate) finishes: Vec<(EffectId, &'a Finish)>,
    /// The messages to produce.
    pub(crate) produce: Vec<Send<'a>>,
    /// The whole request, to compare repeats.
    pub(crate) asked: &'a history::Commit,
    /// Its lease was issued before a restore.
    pub(crate) is_outdated: bool,
}

/// A produce.
#[derive(Clone, Copy)]
pub(crate) struct Send<'a> {
    /// The topic.
    pub(crate) topic: NameId,
    /// The content.
    pub(crate) content: &'a Content,
    /// The tenant.
    pub(crate) tenant: NameId,
    /// Its key, with topic and tenant.
    pub(crate) identity: Option<IdentityId>,
    /// The key alone.
    pub(crate) key: Option<NameId>,
    /// The nonce of its request.
    pub(crate) nonce: Option<NameId>,
    /// The topic that the message names, if any.
    pub(crate) target: Option<NameId>,
    /// The size in bytes.
    pub(crate) size: u64,
}

/// A settlement.
#[derive(Clone, Copy)]
pub(crate) struct Settle<'a> {
    /// The entry.
    pub(crate) entry: EntryId,
    /// The attempt.
    pub(crate) attempt: u32,
    /// The verb.
    pub(crate) verb: &'a Verb,
    /// By owner name, which is not fenced.
    pub(crate) by_owner: bool,
}

/// The outcome of a call.
#[derive(Clone, Copy)]
pub(crate) enum Outcome<'a> {
    /// The outcome is unknown.
    Unknown,
    /// Rejected: nothing happened.
    Refused { code: &'a str, state: Option<&'a str> },
    /// The message is stored at this position.
    Produced { id: LabelId, at: PositionId, deduplicated: bool },
    /// This number of dead letters was deleted, or would be in a dry run.
    Purged { count: u64 },
    /// The states of messages.
    Inspected(&'a [MessageStatus]),
    /// The counters of a group.
    Group(&'a [Counters]),
    /// The location of a pointer.
    Pointer(&'a str),
    /// The settings of a topic.
    Settings(&'a str),
    /// The dead letter was redriven.
    Redriven { new: LabelId, already: bool },
    /// The decision about an effect.
    Began { decision: Decision, effect: EffectId, right: &'a Right, outcome: &'a str },
    /// The commit is done. `produced` has the ids that are known.
    Committed { produced: &'a [Option<Name>], repeated: bool },
    /// It succeeded.
    Done,
}

impl Outcome<'_> {
    /// Whether it certainly did not happen.
    pub(crate) fn is_refused(self) -> bool {
        matches!(self, Outcome::Refused { .. })
    }

    /// Whether the ledger rejected it, as opposed to no node being available.
    pub(crate) fn is_refused_by_the_ledger(self) -> bool {
        matches!(self, Outcome::Refused { code, .. } if code != "UNAVAILABLE")
    }

    /// Whether the outcome is unknown.
    pub(crate) fn is_unknown(self) -> bool {
        matches!(self, Outcome::Unknown)
    }

    /// Whether it certainly happened.
    pub(crate) fn is_done(self) -> bool {
        !self.is_refused() && !self.is_unknown()
    }
}

/// A committed batch.
#[derive(Clone)]
pub(crate) struct Batch {
    /// Its `seq`.
    pub(crate) seq: u64,
    /// When it was observed, by the harness's clock.
    pub(crate) at: u64,
    /// The shard.
    pub(crate) shard: u32,
    /// The epoch.
    pub(crate) epoch: u64,
    /// Its number in the shard.
    pub(crate) number: u64,
    /// The authority clock.
    pub(crate) now: u64,
    /// Its facts.
    steps: Range<usize>,
}

/// A consumer that joined a group.
#[derive(Clone, Copy)]
pub(crate) struct Joined<'a> {
    pub(crate) consumer: u64,
    pub(crate) reader: ReaderId,
    pub(crate) poll: bool,
    /// The number of unsettled deliveries that it may have; 0 if unknown.
    pub(crate) credit: u32,
    pub(crate) worker: Option<&'a str>,
}

/// A fact with its names replaced by numbers: a lease becomes its entry and attempt, a created
/// group one step per cursor, and decided calls one step each.
pub(crate) enum Step<'a> {
    Stored(Put<'a>),
    Deduplicated { identity: IdentityId, id: LabelId },
    Pinned { identity: IdentityId, until: u64 },
    Opened { life: LifeId, offset: u64 },
    Set { topic: NameId, settings: &'a Settings },
    Paused { reader: ReaderId, until: Option<u64> },
    Resumed { reader: ReaderId },
    Joined(Joined<'a>),
    WorkerLeft { worker: &'a str, until: u64 },
    Dropped { id: LabelId },
    Lost { lane: LaneId, offset: u64 },
    Pointed { topic: NameId, name: &'a str, location: &'a str },
    GroupGone { reader: ReaderId },
    TopicGone { topic: NameId },
    Granted { entry: EntryId, granted: &'a Granted },
    Passed { entry: EntryId },
    Extended { entry: EntryId, attempt: u32, until: u64 },
    Ended { entry: EntryId, attempt: u32, how: How },
    WaitEnded { entry: EntryId, attempt: u32, due: u64 },
    Died { entry: EntryId, attempt: u32, reason: &'a str, id: LabelId },
    Redriven { id: LabelId, new: LabelId, group: NameId },
    Trimmed { lane: LaneId, first: u64 },
    Recorded { effect: EffectId, under: Option<EntryId>, record: &'a Record },
    Decided { call: CallId },
    Acted { call: CallId },
    Committed { call: CallId, until: u64 },
    Sent { to: u32, number: u64, content: &'a Content },
    Arrived { from: u32, through: u64 },
    TurnedAway { from: u32, number: u64 },
    Left { to: u32, number: u64 },
    CameBack { id: LabelId },
}

/// A stored message.
#[derive(Clone, Copy)]
pub(crate) struct Put<'a> {
    /// Its position.
    pub(crate) at: PositionId,
    /// Its id.
    pub(crate) id: LabelId,
    /// Its tenant.
    pub(crate) tenant: NameId,
    /// Its key with topic and tenant, and the end of the dedupe window. `None` for dead letters and
    /// redriven messages, which carry a key but do not hold it.
    pub(crate) identity: Option<(IdentityId, u64)>,
    /// The key alone.
    pub(crate) key: Option<NameId>,
    /// Only for this group.
    pub(crate) for_group: Option<NameId>,
    /// The remaining fields.
    pub(crate) stored: &'a Stored,
}

/// Counters that a node reported.
pub(crate) struct Counted<'a> {
    /// The `seq` of the report.
    pub(crate) seq: u64,
    /// The cursor.
    pub(crate) cursor: CursorId,
    /// The batch that they reflect.
    pub(crate) batch: Option<u64>,
    /// The counters.
    pub(crate) counters: &'a Counters,
}

/// A dead letter that existed at the end.
pub(crate) struct Letter<'a> {
    /// The `seq` of the event.
    pub(crate) seq: u64,
    /// Its own id.
    pub(crate) id: LabelId,
    /// The position of the message that failed.
    pub(crate) at: PositionId,
    /// The cursor of the group in which it failed.
    pub(crate) cursor: CursorId,
    /// The id of the message that failed.
    pub(crate) origin: LabelId,
    /// Its idempotency key.
    pub(crate) key: Option<NameId>,
    /// The message it was redriven as.
    pub(crate) redriven: Option<LabelId>,
    /// The remaining fields.
    pub(crate) letter: &'a DeadLetter,
}

impl Letter<'_> {
    /// Whether it is a message that a commit of this topic sent to another shard, which rejected
    /// it.
    pub(crate) fn is_undeliverable(&self) -> bool {
        &*self.letter.reason == "undeliverable"
    }
}
