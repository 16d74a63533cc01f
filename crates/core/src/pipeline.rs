//! The pipeline of a shard: reads, batches, commits, and the release of replies and deliveries.
//!
//! A state machine like the shard itself: it takes inputs and returns outputs. Server tasks and the
//! simulator only carry out the outputs.
//!
//! # Guarantees
//!
//! 1. Replies, deliveries and rejections are released only after the commit of the batch in which
//!    they were decided.
//! 2. Batches are committed in the order they were decided, each naming its predecessor.
//! 3. A command is decided on rows that include everything decided before it (`read_view`).
//! 4. A failed commit or read ends the pipeline. The shell drops it, claims the shard again and
//!    recovers. The outcome of commands without a reply is unknown.
//! 5. No lease expires while its own commit is in flight. If more than half of a lease has passed
//!    when its commit returns, the delivery is given back, uncounted, instead of being sent.
//!
//! It does not interpret commands, store rows or read a clock.

mod open_batch;
mod reading;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::activity::Activity;
use crate::change::{Action, Change, Decision, VolatileChange};
use crate::command::{Command, LeaseId, Rejection, Reply};
use crate::format::Format;
use crate::id::{BatchNo, Epoch};
use crate::pack::{self, Damaged};
use crate::packer::Packer;
use crate::read_view::{Overlay, ReadView};
use crate::recovery::Recovered;
use crate::refusal::Refusal;
use crate::row::{Read, Row, Write};
use crate::shard::{Shard, Work};
use crate::time::Timestamp;

use open_batch::OpenBatch;
use reading::{Answers, ReadQueue, Reading, Requester};

/// Identifies a command to its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Identifies a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(pub u64);

/// An event for the pipeline.
#[derive(Debug)]
pub enum Input {
    /// A command was received.
    Arrived(Ticket, Command),
    /// A read returned: the rows of each [`Read`], in order.
    ReadDone(ReadId, Vec<Vec<Row>>),
    /// A batch is durable.
    CommitDone(BatchNo),
}

/// An instruction for the shell.
#[derive(Debug)]
pub enum Output {
    /// Read rows from the engine.
    StartRead(ReadId, Vec<Read>),
    /// Commit a batch.
    StartCommit(Arc<Batch>, Vec<Write>),
    /// Send the replies and deliveries of a durable batch.
    Release(Release),
    /// Log a damaged row. The lane or command that needs it has stopped.
    Damaged(Damaged),
}

/// A batch as decided: a complete record of what happened in it.
#[derive(Debug)]
pub struct Batch {
    /// Its number.
    pub no: BatchNo,
    /// Its time.
    pub now: Timestamp,
    /// All changes, in order.
    pub changes: Vec<Change>,
    /// The results for callers.
    pub replies: Vec<(Ticket, CommandResult)>,
    /// The actions for the shell.
    pub actions: Vec<Action>,
    /// What happened, for metrics.
    pub activity: Vec<Activity>,
}

/// The result that a caller receives.
pub type CommandResult = Result<Reply, Rejection>;

/// A durable batch, whose replies and deliveries may be sent.
#[derive(Debug)]
pub struct Release {
    /// The batch.
    pub batch: Arc<Batch>,
    /// Deliveries of the batch that are too late. They are given back and not sent.
    pub withheld: BTreeSet<LeaseId>,
}

/// Limits on concurrent work.
#[derive(Debug, Clone, Copy)]
pub struct PipelineConfig {
    /// Batches decided but not yet durable.
    pub commits_max: usize,
    /// Reads in flight.
    pub reads_max: usize,
    /// Commands per batch.
    pub commands_max: usize,
}

impl Default for PipelineConfig {
    fn default() -> PipelineConfig {
        PipelineConfig { commits_max: 2, reads_max: 4, commands_max: 4_096 }
    }
}

/// Work that is not decided yet.
#[derive(Debug)]
struct Item {
    id: u64,
    /// None: work of the shard itself.
    ticket: Option<Ticket>,
    work: Work,
    /// Whether it waits for rows.
    waits: bool,
}

/// The pipeline of a shard.
#[derive(Debug)]
pub struct Pipeline {
    shard: Shard,
    packer: Packer,
    overlay: Overlay,
    epoch: Epoch,
    config: PipelineConfig,
    settles: VecDeque<Item>,
    /// Everything else, in the order received.
    others: VecDeque<Item>,
    /// Commands other than produces that wait for rows, outside the queues.
    aside: BTreeMap<u64, Item>,
    answers: BTreeMap<u64, Answers>,
    /// Rows read for commands that need more rows.
    partial: BTreeMap<u64, Answers>,
    asking: ReadQueue,
    reading: BTreeMap<ReadId, Reading>,
    committing: VecDeque<Arc<Batch>>,
    /// Leases whose expiry waits for rows.
    expiring: BTreeSet<LeaseId>,
    /// Leases that cannot expire because a row is damaged. A repair or a restart retries them.
    stuck: BTreeSet<LeaseId>,
    last: BatchNo,
    durable: BatchNo,
    now: Timestamp,
    next_item: u64,
    next_read: u64,
    /// Damage that is not yet reported.
    damaged: Vec<Damaged>,
    /// How often deciding panicked.
    defects: u64,
    /// Number of changes of the previous batch.
    changes_last: usize,
    /// Whether the pipeline is draining.
    is_closing: bool,
}

impl Pipeline {
    /// Creates the pipeline of a recovered shard under a new ownership.
    pub fn new(
        recovered: Recovered,
        epoch: Epoch,
        now: Timestamp,
        config: PipelineConfig,
    ) -> Pipeline {
        let Recovered { mut shard, packer, last, now: stored } = recovered;
        let now = now.max(stored);
        shard.resume_after_recovery(stored, now);
        Pipeline {
            shard,
            packer,
            overlay: Overlay::default(),
            epoch,
            config,
            settles: VecDeque::new(),
            others: VecDeque::new(),
            aside: BTreeMap::new(),
            answers: BTreeMap::new(),
            partial: BTreeMap::new(),
            asking: ReadQueue::default(),
            reading: BTreeMap::new(),
            committing: VecDeque::new(),
            expiring: BTreeSet::new(),
            stuck: BTreeSet::new(),
            last,
            durable: last,
            now,
            next_item: 0,
            next_read: 0,
            damaged: Vec::new(),
            defects: 0,
            changes_last: 0,
            is_closing: false,
        }
    }

    /// Sets the newest format that all nodes read, before the commands that follow are decided. After
    /// a recovery it is [`Format::NEWEST`].
    pub fn set_format(&mut self, format: Format) {
        self.shard.set_format(format);
    }

    /// Starts draining: received commands finish; no dispatch, expiry or maintenance.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// Records an event at `now`. [`Pipeline::turn`] then decides on it.
    pub fn on(&mut self, now: Timestamp, input: Input, outputs: &mut Vec<Output>) {
        self.now = self.now.max(now);
        match input {
            Input::Arrived(ticket, command) => self.arrive(Some(ticket), Work::Command(command)),
            Input::ReadDone(id, rows) => self.read_done(id, rows),
            Input::CommitDone(no) => {
                let batch = self.committing.pop_front().expect("a commit was in flight");
                assert_eq!(batch.no, no, "commits return in order");
                self.durable = no;
                outputs.push(Output::Release(self.release(batch)));
            }
        }
    }

    /// Starts the reads of received commands. A shell whose engine reads synchronously performs
    /// them before the next turn, so that one batch decides all commands received together.
    pub fn ask(&mut self, outputs: &mut Vec<Output>) {
        self.start_reads(outputs);
    }

    /// Decides all work that is ready at `now`, and starts reads and commits.
    pub fn turn(&mut self, now: Timestamp, outputs: &mut Vec<Output>) {
        self.now = self.now.max(now);
        loop {
            self.start_reads(outputs);
            if self.committing.len() >= self.config.commits_max || !self.has_work() {
                break;
            }
            let Some((batch, writes)) = self.decide_batch() else {
                break;
            };
            outputs.push(Output::StartCommit(batch, writes));
        }
        outputs.extend(self.damaged.drain(..).map(Output::Damaged));
        self.start_reads(outputs);
        self.forget_overlay();
    }

    /// Returns when to call [`Pipeline::turn`] if there is no event before.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if self.committing.len() >= self.config.commits_max {
            // A full pipeline waits for a commit, not for the time.
            return None;
        }
        if self.shard.is_due(self.now) || self.expired_leases().next().is_some() {
            return Some(self.now);
        }
        self.shard.next_deadline(self.now)
    }

    /// Returns the shard, for inspection.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Returns the number of commands that are not decided yet.
    pub fn waiting(&self) -> usize {
        self.settles.len() + self.others.len() + self.aside.len()
    }

    /// Returns how often deciding panicked. Each panic is a bug in DriftQ; the command is rejected.
    pub fn defects(&self) -> u64 {
        self.defects
    }

    /// Returns the number of batches decided and not known to be durable.
    pub fn commits_in_flight(&self) -> usize {
        self.committing.len()
    }

    fn arrive(&mut self, ticket: Option<Ticket>, work: Work) {
        self.next_item += 1;
        let reads = self.shard.reads(&work);
        let item = Item { id: self.next_item, ticket, work, waits: !reads.is_empty() };
        if item.waits {
            self.asking.push(Requester::Command(item.id, reads));
        }
        self.enqueue(item);
    }

    fn enqueue(&mut self, item: Item) {
        if item.work.is_settle() {
            if item.waits {
                self.aside.insert(item.id, item);
            } else {
                self.settles.push_back(item);
            }
        } else if item.waits && !item.work.is_produce() {
            self.aside.insert(item.id, item);
        } else {
            self.others.push_back(item);
        }
    }

    fn horizon(&self) -> Timestamp {
        self.committing.front().map_or(self.now, |oldest| oldest.now)
    }

    fn has_work(&self) -> bool {
        let can_decide = |item: &Item| !item.waits || self.answers.contains_key(&item.id);
        !self.settles.is_empty()
            || self.others.front().is_some_and(can_decide)
            || !self.is_closing
                && (self.shard.is_due(self.now) || self.expired_leases().next().is_some())
    }

    fn expired_leases(&self) -> impl Iterator<Item = LeaseId> + '_ {
        self.shard
            .expired_leases(self.horizon())
            .filter(|hold| !self.expiring.contains(hold) && !self.stuck.contains(hold))
    }

    /// Decides a batch. Returns None if it has no changes, replies or actions.
    fn decide_batch(&mut self) -> Option<(Arc<Batch>, Vec<Write>)> {
        let mut open = OpenBatch::new(self.last.next(), self.now, self.changes_last);
        self.shard.begin_batch(open.batch.no);
        if !self.is_closing {
            let soon = self.shard.wake(self.now);
            soon.into_iter().for_each(|want| self.asking.push(Requester::Dispatch(want)));
        }
        self.decide_settles(&mut open);
        self.decide_others(&mut open);
        if !self.is_closing {
            self.decide_background(&mut open);
        }
        let Batch { changes, replies, actions, .. } = &open.batch;
        if changes.is_empty() && replies.is_empty() && actions.is_empty() {
            return None;
        }
        let mut batch = open.batch;
        batch.activity = self.shard.take_activity();
        let writes = self.packer.pack(&self.shard, batch.no, self.epoch, batch.now, &batch.changes);
        self.overlay.close(batch.no, &writes);
        self.last = batch.no;
        self.changes_last = batch.changes.len();
        let batch = Arc::new(batch);
        self.committing.push_back(batch.clone());
        Some((batch, writes))
    }

    /// Decides deliveries, lease expiries and chores.
    fn decide_background(&mut self, open: &mut OpenBatch) {
        self.decide_dispatch(open);
        self.shard.answer_polls();
        self.decide_lease_expiries(open);
        self.decide_chores(open);
        self.decide_upkeep(open);
    }

    /// Decides chores that may need reads. If the reads are known, the chore waits for them;
    /// otherwise it is decided at once.
    fn decide_chores(&mut self, open: &mut OpenBatch) {
        for chore in self.shard.chores_with_reads(self.now) {
            let work = Work::Chore(chore);
            if self.shard.reads(&work).is_empty() {
                self.decide_internal(open, work)
            } else {
                self.arrive(None, work)
            }
        }
    }

    /// Decides maintenance one step at a time, each on the state that the previous one left.
    fn decide_upkeep(&mut self, open: &mut OpenBatch) {
        if !self.shard.has_chores(self.now) {
            return;
        }
        for upkeep in self.shard.upkeep(self.now) {
            let mut decision = self.shard.maintain(self.now, upkeep);
            self.shard.apply(self.now, &mut decision);
            self.record(open, None, decision);
        }
    }

    fn decide_settles(&mut self, open: &mut OpenBatch) {
        while !open.is_full(&self.config)
            && let Some(item) = self.settles.pop_front()
        {
            self.decide_item(open, item);
        }
    }

    fn decide_others(&mut self, open: &mut OpenBatch) {
        while !open.is_full(&self.config)
            && let Some(item) = self.others.pop_front()
        {
            if item.waits && !self.answers.contains_key(&item.id) {
                self.others.push_front(item);
                return;
            }
            self.decide_item(open, item);
        }
    }

    fn decide_item(&mut self, open: &mut OpenBatch, item: Item) {
        let answers = if self.answers.is_empty() { None } else { self.answers.remove(&item.id) };
        let rows = answers.as_ref().map_or(&[][..], |answers| &answers.rows);
        let found = ReadView::new(rows, &self.overlay);
        open.commands += 1;
        open.is_awaited |=
            item.ticket.is_some() && !matches!(item.work, Work::Command(Command::Join(_)));
        let (shard, now) = (&self.shard, self.now);
        let damaged = rows.iter().find_map(|answer| answer.damaged.clone());
        let decided = match damaged.filter(|_| !item.work.is_repair()) {
            // A damaged row is never treated as absent, and nothing is decided on it.
            Some(damaged) => Err(damaged.into()),
            None => catch_unwind(AssertUnwindSafe(|| shard.decide(now, &item.work, &found)))
                .unwrap_or_else(|_| {
                    // Deciding changes nothing, so a panic affects only this command.
                    self.defects += 1;
                    Err(Rejection::Poisonous.into())
                }),
        };
        match decided {
            Ok(mut decision) => {
                self.done_expiring(&item);
                if item.work.is_repair() {
                    self.stuck.clear();
                }
                self.shard.apply(self.now, &mut decision);
                self.record(open, item.ticket, decision);
            }
            Err(Refusal::Rejected(rejection)) => {
                self.done_expiring(&item);
                open.batch.replies.extend(item.ticket.map(|ticket| (ticket, Err(rejection))));
            }
            Err(Refusal::Needs(reads)) => {
                if let Some(answers) = answers {
                    self.partial.insert(item.id, answers);
                }
                self.wait_for(item, reads);
            }
            Err(Refusal::Damaged(damaged)) => {
                let row = damaged.to_string().into();
                let rejection = Rejection::Damaged { row };
                open.batch.replies.extend(item.ticket.map(|ticket| (ticket, Err(rejection))));
                self.done_expiring(&item);
                if let Work::ExpireLease(hold) = item.work {
                    self.stuck.insert(hold);
                }
                self.report_damage(damaged);
            }
        }
    }

    fn done_expiring(&mut self, item: &Item) {
        if let Work::ExpireLease(hold) = item.work {
            self.expiring.remove(&hold);
        }
    }

    fn decide_dispatch(&mut self, open: &mut OpenBatch) {
        let mut delivered = 0;
        while delivered < open.dispatch_max()
            && !open.is_full(&self.config)
            && let Some(mut decision) = self.dispatch()
        {
            self.shard.apply(self.now, &mut decision);
            delivered += decision.actions.len();
            for note in &decision.volatile {
                if let VolatileChange::Loading(want) = note {
                    self.asking.push(Requester::Dispatch(*want));
                }
            }
            self.record(open, None, decision);
        }
    }

    /// Decides one run of the shard's dispatch. If it panics, the group is skipped.
    fn dispatch(&mut self) -> Option<Decision> {
        let (shard, now) = (&self.shard, self.now);
        let run = catch_unwind(AssertUnwindSafe(|| shard.dispatch(now)));
        run.unwrap_or_else(|_| {
            self.defects += 1;
            shard.pass_over()
        })
    }

    fn decide_lease_expiries(&mut self, open: &mut OpenBatch) {
        let due: Vec<LeaseId> = self.expired_leases().take(open.dispatch_max()).collect();
        for hold in due {
            if open.is_full(&self.config) {
                return;
            }
            self.decide_internal(open, Work::ExpireLease(hold));
        }
    }

    /// Decides work of the shard itself.
    fn decide_internal(&mut self, open: &mut OpenBatch, work: Work) {
        self.next_item += 1;
        let item = Item { id: self.next_item, ticket: None, work, waits: false };
        self.decide_item(open, item);
    }

    fn record(&mut self, open: &mut OpenBatch, ticket: Option<Ticket>, decision: Decision) {
        let Decision { reply, changes, actions, .. } = decision;
        for change in &changes {
            open.weigh(change);
            if let Some((key, row)) = pack::record_row(change) {
                self.overlay.put(open.batch.no, key, row);
            }
        }
        open.batch.changes.extend(changes);
        open.batch.actions.extend(actions);
        open.batch.replies.extend(ticket.map(|ticket| (ticket, Ok(reply))));
    }

    /// Releases a durable batch. If more than half of a delivery's lease has passed, the delivery
    /// is given back.
    fn release(&mut self, batch: Arc<Batch>) -> Release {
        let mut withheld = BTreeSet::new();
        for effect in &batch.actions {
            if let Action::Deliver(consumer, delivery) = effect
                && self.now.since(batch.now) > u64::from(delivery.lease_ms) / 2
            {
                withheld.insert(delivery.hold);
                self.shard.requeue(*consumer);
                self.arrive(None, Work::Command(Command::GiveBack(delivery.hold)));
            }
        }
        Release { batch, withheld }
    }
}
