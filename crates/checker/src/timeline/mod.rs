//! A history with every name turned into a number, in the order of `seq`.
//!
//! 1. `moments` holds what judges must see in order: calls, answers, deliveries, commits.
//! 2. A call knows its outcome from the start, so that a judge can look ahead.
//! 3. Nothing is judged here. What makes no sense (an answer without a call) is left out.

mod build;
mod facts;
mod places;

use std::ops::Range;

use crate::history::{
    self, Begin, Content, Counters, DeadLetter, Decision, Delivery, Event, Finish, Granted, How,
    Name, Record, Right, Settings, Shown, Start, Status, Stored, Verb,
};
use crate::ids::{
    CallId, Column, CommitId, CursorId, EffectId, EntryId, IdentityId, LabelId, LaneId, LifeId,
    NameId, PositionId, ReaderId,
};
use crate::report::Counts;

pub(crate) use places::Places;

/// A history, ready to be judged.
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
    /// Counters that nodes showed, in order.
    pub(crate) counted: Vec<Counted<'a>>,
    /// Dead letters that were there in the end.
    pub(crate) dead_letters: Vec<Letter<'a>>,
    /// How many messages of a shard may be open, if the harness says so.
    pub(crate) open_max: Option<u64>,
    /// Offsets of lanes whose messages the harness damaged, and since which event.
    pub(crate) corrupted: Vec<(u64, LaneId, Range<u64>)>,
    /// When the faults stopped.
    pub(crate) healed: Option<u64>,
    /// When the run was over.
    pub(crate) ended: Option<u64>,
    /// What the numbers stand for.
    pub(crate) places: Places<'a>,
    /// How much there is.
    pub(crate) counts: Counts,
}

impl<'a> Timeline<'a> {
    /// Reads the events.
    pub(crate) fn of(events: &'a [Event]) -> Self {
        build::tell(events)
    }

    /// The harness saw commits.
    pub(crate) fn has_facts(&self) -> bool {
        !self.batches.is_empty()
    }

    /// What a call settles, by itself or as a commit; not if it is told that a commit was done before.
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

/// Something at its place in the order.
pub(crate) struct Moment<'a> {
    /// Where.
    pub(crate) seq: u64,
    /// Who saw it.
    pub(crate) process: u32,
    /// What.
    pub(crate) seen: Seen<'a>,
}

/// What judges must see in order.
pub(crate) enum Seen<'a> {
    /// A call was sent.
    Invoked(CallId),
    /// Its outcome came.
    Answered(CallId),
    /// A delivery was read.
    Delivered { entry: EntryId, id: LabelId, delivery: &'a Delivery },
    /// A batch, by its place in `batches`.
    Committed(usize),
    /// A delivery was written to its consumer.
    Written { entry: EntryId, attempt: u32 },
    /// A consumer's connection ended.
    Left(u64),
}

/// A call and its outcome.
pub(crate) struct Call<'a> {
    /// When it was sent.
    pub(crate) invoked: u64,
    /// When it ended; the end of time if it did not.
    pub(crate) answered: u64,
    /// What was asked.
    pub(crate) ask: Ask<'a>,
    /// What came of it.
    pub(crate) outcome: Outcome<'a>,
}

/// What a client asked for.
#[derive(Clone, Copy)]
pub(crate) enum Ask<'a> {
    /// Store a message.
    Produce(Send<'a>),
    /// Settle or renew a delivery.
    Settle(Settle<'a>),
    /// Create a group that starts there.
    CreateGroup(ReaderId, Start),
    /// Remove a group.
    DeleteGroup(ReaderId),
    /// Remove a topic.
    DeleteTopic(NameId),
    /// Move a cursor.
    Seek(CursorId),
    /// Move all cursors of a group.
    SeekAll(ReaderId, Start),
    /// Delete dead letters, or only count them.
    Purge { ids: &'a [Name], dry_run: bool },
    /// Where messages of a partition are.
    Inspect(LaneId),
    /// Where a pointer leads.
    ReadPointer { topic: NameId, name: &'a str },
    /// Read the settings of a topic, or change them.
    Settings(NameId),
    /// Something that was issued before a restore.
    Outdated,
    /// Bring back this dead letter.
    Redrive(LabelId),
    /// Begin an effect.
    Begin { effect: EffectId, begin: &'a Begin },
    /// Say how it ended.
    Finish { effect: EffectId, right: &'a Right, status: Status, outcome: &'a str },
    /// More time for it.
    ExtendEffect { effect: EffectId, right: &'a Right },
    /// A person says how it ended.
    Resolve { effect: EffectId, fence: u64, status: Status, outcome: &'a str },
    /// Settle, finish and produce at once.
    Commit(CommitId),
    /// Nothing that is judged.
    Other,
}

/// A commit.
pub(crate) struct Commit<'a> {
    /// The delivery and its end.
    pub(crate) settle: Settle<'a>,
    /// How effects ended.
    pub(crate) finishes: Vec<(EffectId, &'a Finish)>,
    /// What follows.
    pub(crate) produce: Vec<Send<'a>>,
    /// All of it, to be compared.
    pub(crate) asked: &'a history::Commit,
    /// Its lease was issued before a restore.
    pub(crate) is_outdated: bool,
}

/// A produce.
#[derive(Clone, Copy)]
pub(crate) struct Send<'a> {
    /// Where to.
    pub(crate) topic: NameId,
    /// What.
    pub(crate) content: &'a Content,
    /// Whose.
    pub(crate) tenant: NameId,
    /// Its key, with topic and tenant.
    pub(crate) identity: Option<IdentityId>,
    /// The key alone.
    pub(crate) key: Option<NameId>,
    /// The topic it names as its own.
    pub(crate) target: Option<NameId>,
    /// How large.
    pub(crate) size: u64,
}

/// A settlement.
#[derive(Clone, Copy)]
pub(crate) struct Settle<'a> {
    /// Of what.
    pub(crate) entry: EntryId,
    /// Of which attempt.
    pub(crate) attempt: u32,
    /// How.
    pub(crate) verb: &'a Verb,
    /// In the unfenced form.
    pub(crate) by_owner: bool,
}

/// What came of a call.
#[derive(Clone, Copy)]
pub(crate) enum Outcome<'a> {
    /// Nobody knows.
    Unknown,
    /// Nothing happened.
    Refused { code: &'a str, state: Option<&'a str> },
    /// It is stored there.
    Produced { id: LabelId, at: PositionId, deduplicated: bool },
    /// So many dead letters are deleted, or would be.
    Purged { count: u64 },
    /// Messages are there.
    Inspected(&'a [Shown]),
    /// A pointer leads there.
    Pointer(&'a str),
    /// A topic has these settings.
    Settings(&'a str),
    /// The dead letter is on its way again.
    Redriven { new: LabelId, already: bool },
    /// So the effect that is shown stands.
    Began { decision: Decision, effect: EffectId, right: &'a Right, outcome: &'a str },
    /// All of a commit is done; the messages as far as they have an id.
    Committed { produced: &'a [Option<Name>], repeated: bool },
    /// It happened.
    Done,
}

impl Outcome<'_> {
    /// Nothing happened, for certain.
    pub(crate) fn is_refused(self) -> bool {
        matches!(self, Outcome::Refused { .. })
    }

    /// Nothing happened, and whoever says so looked: not that nobody was there to ask.
    pub(crate) fn is_refused_by_the_ledger(self) -> bool {
        matches!(self, Outcome::Refused { code, .. } if code != "UNAVAILABLE")
    }

    /// Nobody knows.
    pub(crate) fn is_unknown(self) -> bool {
        matches!(self, Outcome::Unknown)
    }

    /// It happened, for certain.
    pub(crate) fn is_done(self) -> bool {
        !self.is_refused() && !self.is_unknown()
    }
}

/// A commit.
#[derive(Clone)]
pub(crate) struct Batch {
    /// Where in the order.
    pub(crate) seq: u64,
    /// When it was observed, by the harness's clock.
    pub(crate) at: u64,
    /// Of which shard.
    pub(crate) shard: u32,
    /// By which ownership.
    pub(crate) epoch: u64,
    /// Its number in the shard.
    pub(crate) number: u64,
    /// The authority clock.
    pub(crate) now: u64,
    /// Its facts.
    steps: Range<usize>,
}

/// A fact. What a lease names has become its entry and attempt; a group that is made has become one
/// step for each of its cursors, calls that were decided one for each.
pub(crate) enum Step<'a> {
    Stored(Put<'a>),
    Deduplicated { identity: IdentityId, id: LabelId },
    Pinned { identity: IdentityId, until: u64 },
    Opened { life: LifeId, offset: u64 },
    Set { topic: NameId, settings: &'a Settings },
    Paused { reader: ReaderId, until: Option<u64> },
    Resumed { reader: ReaderId },
    Joined { consumer: u64, reader: ReaderId },
    Dropped { id: LabelId },
    Lost { lane: LaneId, offset: u64 },
    Pointed { topic: NameId, name: &'a str, location: &'a str },
    GroupGone { reader: ReaderId },
    TopicGone { topic: NameId },
    Granted { entry: EntryId, granted: &'a Granted },
    Passed { entry: EntryId },
    Extended { entry: EntryId, attempt: u32, until: u64 },
    Ended { entry: EntryId, attempt: u32, how: How },
    Died { entry: EntryId, attempt: u32, reason: &'a str, id: LabelId },
    Redriven { id: LabelId, new: LabelId, group: NameId },
    Trimmed { lane: LaneId, first: u64 },
    Recorded { effect: EffectId, under: Option<EntryId>, record: &'a Record },
    Decided { call: CallId },
    Committed { call: CallId, until: u64 },
    Sent { to: u32, number: u64, content: &'a Content },
    Arrived { from: u32, through: u64 },
    TurnedAway { from: u32, number: u64 },
    Left { to: u32, number: u64 },
    CameBack { id: LabelId },
}

/// A message that was stored.
#[derive(Clone, Copy)]
pub(crate) struct Put<'a> {
    /// Where.
    pub(crate) at: PositionId,
    /// Its id.
    pub(crate) id: LabelId,
    /// Whose.
    pub(crate) tenant: NameId,
    /// Its key with topic and tenant, and until when it is taken. Dead letters and redriven messages
    /// carry a key but do not take it.
    pub(crate) identity: Option<(IdentityId, u64)>,
    /// The key alone.
    pub(crate) key: Option<NameId>,
    /// Only for this group.
    pub(crate) for_group: Option<NameId>,
    /// The rest.
    pub(crate) stored: &'a Stored,
}

/// Counters that a node showed.
pub(crate) struct Counted<'a> {
    /// Where in the order.
    pub(crate) seq: u64,
    /// Of what.
    pub(crate) cursor: CursorId,
    /// As of which batch.
    pub(crate) batch: Option<u64>,
    /// The numbers.
    pub(crate) counters: &'a Counters,
}

/// A dead letter that was there in the end.
pub(crate) struct Letter<'a> {
    /// Where in the order.
    pub(crate) seq: u64,
    /// Its own id.
    pub(crate) id: LabelId,
    /// Where the message lay that died.
    pub(crate) at: PositionId,
    /// In which group it died.
    pub(crate) cursor: CursorId,
    /// The id it had there.
    pub(crate) origin: LabelId,
    /// Its idempotency key.
    pub(crate) key: Option<NameId>,
    /// What it was sent again as.
    pub(crate) redriven: Option<LabelId>,
    /// The rest.
    pub(crate) letter: &'a DeadLetter,
}

impl Letter<'_> {
    /// It is no message of its topic but one that a commit there sent to another shard, in vain.
    pub(crate) fn has_come_back(&self) -> bool {
        &*self.letter.reason == "undeliverable"
    }
}
