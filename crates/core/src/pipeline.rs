//! The pipeline of a shard: reads, batches, commits, and what is shown when.
//!
//! A machine like the shard itself: it is told what happened and says what to do. Server tasks and the
//! simulator only perform.
//!
//! # Guarantees
//!
//! 1. Replies, deliveries and rejections are released only after the commit of the batch in which they
//!    were decided.
//! 2. Batches are committed in the order they were decided, each naming its predecessor.
//! 3. A command is decided on rows as new as everything decided before it ([`found`]).
//! 4. A commit or a read that fails ends the pipeline. There is no repair: the shell drops it, claims
//!    the shard again and recovers; what was not answered is unknown.
//! 5. No lease runs out while its own commit waits; one that is half over when its commit returns is
//!    given back, uncounted, instead of being delivered.
//!
//! It does not know: what commands mean, how rows are stored, what time it is.

mod open_batch;
mod reading;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::change::{Action, Change, Decision, VolatileChange};
use crate::command::{Command, LeaseId, Rejection, Reply};
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
use reading::{Answers, Asker, Asking, Reading};

/// Names a command to whoever sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Names a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(pub u64);

/// Something happened.
#[derive(Debug)]
pub enum Input {
    /// A command came.
    Arrived(Ticket, Command),
    /// A read was answered: rows for each question, in order.
    ReadDone(ReadId, Vec<Vec<Row>>),
    /// A batch is durable.
    CommitDone(BatchNo),
}

/// Something is to be done.
#[derive(Debug)]
pub enum Output {
    /// Ask the engine.
    StartRead(ReadId, Vec<Read>),
    /// Make a batch durable.
    StartCommit(Arc<Batch>, Vec<Write>),
    /// Show what became durable.
    Release(Release),
    /// A row is damaged. What needs it has stopped: log it.
    Damaged(Damaged),
}

/// A batch as decided: a complete record of what happened in it.
#[derive(Debug)]
pub struct Batch {
    /// Its number.
    pub no: BatchNo,
    /// Its time.
    pub now: Timestamp,
    /// Everything that changed, in order.
    pub changes: Vec<Change>,
    /// What callers will be told.
    pub replies: Vec<(Ticket, CommandResult)>,
    /// What will be done for consumers.
    pub actions: Vec<Action>,
}

/// What a caller is told.
pub type CommandResult = Result<Reply, Rejection>;

/// What became durable and may be shown.
#[derive(Debug)]
pub struct Release {
    /// The batch it was decided in.
    pub batch: Arc<Batch>,
    /// Deliveries of the batch that came too late: they go back and are not shown.
    pub withheld: BTreeSet<LeaseId>,
}

/// How much may be under way at once.
#[derive(Debug, Clone, Copy)]
pub struct PipelineConfig {
    /// Batches decided and not durable.
    pub commits_max: usize,
    /// Reads under way.
    pub reads_max: usize,
    /// Commands of a batch.
    pub commands_max: usize,
}

impl Default for PipelineConfig {
    fn default() -> PipelineConfig {
        PipelineConfig { commits_max: 2, reads_max: 4, commands_max: 4_096 }
    }
}

/// Work on its way.
#[derive(Debug)]
struct Item {
    id: u64,
    /// None: the shard itself asks.
    ticket: Option<Ticket>,
    work: Work,
    /// It waits for rows.
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
    /// Everything else, in the order it came.
    others: VecDeque<Item>,
    /// Commands other than produces that wait for rows, out of line.
    aside: BTreeMap<u64, Item>,
    answers: BTreeMap<u64, Answers>,
    /// Rows that came for commands that asked for more.
    partial: BTreeMap<u64, Answers>,
    asking: Asking,
    reading: BTreeMap<ReadId, Reading>,
    committing: VecDeque<Arc<Batch>>,
    /// Leases that run out as soon as their rows are here.
    expiring: BTreeSet<LeaseId>,
    /// Leases that cannot be ended because a row is damaged. A repair or a restart looks at them again.
    stuck: BTreeSet<LeaseId>,
    last: BatchNo,
    durable: BatchNo,
    now: Timestamp,
    next_item: u64,
    next_read: u64,
    /// Damage that was found and not yet reported.
    damaged: Vec<Damaged>,
    /// How often deciding panicked.
    defects: u64,
    /// Changes of the batch before.
    changes_last: usize,
    /// Nothing is begun any more.
    is_closing: bool,
}

impl Pipeline {
    /// Goes on with a recovered shard under a new ownership.
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
            asking: Asking::default(),
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

    /// The shard is about to be given up: what has arrived is decided, and nothing that nobody asked for.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// Takes note of what happened at `now`. [`Pipeline::turn`] says what follows.
    pub fn on(&mut self, now: Timestamp, input: Input, outputs: &mut Vec<Output>) {
        self.now = self.now.max(now);
        match input {
            Input::Arrived(ticket, command) => self.arrive(Some(ticket), Work::Command(command)),
            Input::ReadDone(id, rows) => self.read_done(id, rows),
            Input::CommitDone(no) => {
                let batch = self.committing.pop_front().expect("a commit was under way");
                assert_eq!(batch.no, no, "commits return in order");
                self.durable = no;
                outputs.push(Output::Release(self.release(batch)));
            }
        }
    }

    /// Starts reads for what arrived. A shell whose engine reads at once performs them before the next
    /// turn, so that one batch decides everything that came together.
    pub fn ask(&mut self, outputs: &mut Vec<Output>) {
        self.start_reads(outputs);
    }

    /// Decides what can be decided at `now` and starts what can be started.
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

    /// When to call [`Pipeline::turn`] if nothing happens before.
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

    /// The shard, to look at.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Commands that are not decided yet.
    pub fn waiting(&self) -> usize {
        self.settles.len() + self.others.len() + self.aside.len()
    }

    /// How often deciding panicked: each is a defect of ours, refused to its caller.
    pub fn defects(&self) -> u64 {
        self.defects
    }

    /// Batches decided and not known to be durable.
    pub fn commits_under_way(&self) -> usize {
        self.committing.len()
    }

    fn arrive(&mut self, ticket: Option<Ticket>, work: Work) {
        self.next_item += 1;
        let reads = self.shard.reads(&work);
        let item = Item { id: self.next_item, ticket, work, waits: !reads.is_empty() };
        if item.waits {
            self.asking.push(Asker::Command(item.id, reads));
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

    /// Decides a batch. None if nothing came of it that anybody waits for.
    fn decide_batch(&mut self) -> Option<(Arc<Batch>, Vec<Write>)> {
        let mut open = OpenBatch::new(self.last.next(), self.now, self.changes_last);
        if !self.is_closing {
            let soon = self.shard.wake(self.now);
            soon.into_iter().for_each(|want| self.asking.push(Asker::Dispatch(want)));
        }
        self.decide_settles(&mut open);
        self.decide_others(&mut open);
        if !self.is_closing {
            self.decide_unasked(&mut open);
        }
        let Batch { changes, replies, actions, .. } = &open.batch;
        if changes.is_empty() && replies.is_empty() && actions.is_empty() {
            return None;
        }
        let batch = open.batch;
        let writes = self.packer.pack(&self.shard, batch.no, self.epoch, batch.now, &batch.changes);
        self.overlay.close(batch.no, &writes);
        self.last = batch.no;
        self.changes_last = batch.changes.len();
        let batch = Arc::new(batch);
        self.committing.push_back(batch.clone());
        Some((batch, writes))
    }

    /// Deliveries, leases that ran out, and chores.
    fn decide_unasked(&mut self, open: &mut OpenBatch) {
        self.decide_dispatch(open);
        self.shard.answer_polls();
        self.decide_lease_expiries(open);
        self.decide_chores(open);
        self.decide_upkeep(open);
    }

    /// Chores that may take reads: those whose reads are known wait for them, the others are decided at once.
    fn decide_chores(&mut self, open: &mut OpenBatch) {
        for chore in self.shard.chores_with_reads(self.now) {
            let work = Work::Chore(chore);
            if self.shard.reads(&work).is_empty() {
                self.decide_own(open, work)
            } else {
                self.arrive(None, work)
            }
        }
    }

    /// One step at a time, each on what the one before it changed.
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
        let decided = match damaged.filter(|_| !item.work.reads_damaged()) {
            // Never taken for absent: nothing is decided on it.
            Some(damaged) => Err(damaged.into()),
            None => catch_unwind(AssertUnwindSafe(|| shard.decide(now, &item.work, &found)))
                .unwrap_or_else(|_| {
                    // Deciding changes nothing, so a defect in it stops this command and nothing else.
                    self.defects += 1;
                    Err(Rejection::Poisonous.into())
                }),
        };
        match decided {
            Ok(mut decision) => {
                self.done_expiring(&item);
                if let Work::Command(Command::Repair(_)) = item.work {
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
                self.found_damage(damaged);
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
                    self.asking.push(Asker::Dispatch(*want));
                }
            }
            self.record(open, None, decision);
        }
    }

    /// One run of the shard's dispatch; where it has a defect, the group is passed over.
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
            self.decide_own(open, Work::ExpireLease(hold));
        }
    }

    /// Decides what the shard does by itself.
    fn decide_own(&mut self, open: &mut OpenBatch, work: Work) {
        self.next_item += 1;
        let item = Item { id: self.next_item, ticket: None, work, waits: false };
        self.decide_item(open, item);
    }

    fn record(&mut self, open: &mut OpenBatch, ticket: Option<Ticket>, decision: Decision) {
        let Decision { reply, changes, actions, .. } = decision;
        for change in &changes {
            open.weigh(change);
            if let Some((key, row)) = pack::looked_up(change) {
                self.overlay.put(open.batch.no, key, row);
            }
        }
        open.batch.changes.extend(changes);
        open.batch.actions.extend(actions);
        open.batch.replies.extend(ticket.map(|ticket| (ticket, Ok(reply))));
    }

    /// Deliveries that are half over before they could be shown go back.
    fn release(&mut self, batch: Arc<Batch>) -> Release {
        let mut withheld = BTreeSet::new();
        for effect in &batch.actions {
            if let Action::Deliver(consumer, delivery) = effect
                && self.now.since(batch.now) > u64::from(delivery.lease_ms) / 2
            {
                withheld.insert(delivery.hold);
                self.shard.ask_again(*consumer);
                self.arrive(None, Work::Command(Command::GiveBack(delivery.hold)));
            }
        }
        Release { batch, withheld }
    }
}
