//! The task of one shard: claims and recovers it when ordered, then performs the actions of the
//! pipeline.
//!
//! 1. Commits are sent to the engine in the order in which they were decided.
//! 2. If a commit or a read fails, this copy of the shard is dropped with all its pending calls,
//!    whose outcome is unknown. The shard is then claimed and recovered again.
//! 3. Under load, a batch contains the commands that arrived while earlier batches were being
//!    committed. When idle, a command is decided and committed immediately. There is no timer.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use driftq_core::change::Action;
use driftq_core::command::Arrive;
use driftq_core::ownership::OwnershipEvent;
use driftq_core::{
    BatchNo, Clock, Command, ConsumerId, Epoch, Input, Output, Pipeline, PipelineConfig, ReadId,
    Recovered, Release, Reply, ShardConfig, ShardId, Ticket, Timestamp,
};
use driftq_storage::{Engine, EngineError, Ownership, RecoverError, read_back};
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt as _};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::NodeClock;
use crate::outage_log::{Caller, StorageCall, cause};
use crate::series::{SeriesStore, ShardActivity};
use crate::shard_stats::ShardStats;
use crate::telemetry::Telemetry;

use super::effect_waiters::EffectWaiters;
use super::mailbox::{
    CALLS_MAX, ConsumerEvent, Deliver, DeliveryBatch, Inbox, Mailbox, ReplySender, ShardRequest,
};
use super::membership_handle::MembershipHandle;
use super::peers::Peers;
use super::shard_control::{Order, Serve, ShardControl};
use super::shard_end::EndReason;
use super::status::Status;

/// Delay before a lost shard is claimed again.
const CLAIM_AGAIN: Duration = Duration::from_millis(250);
/// Maximum number of requests taken from the mailbox at once.
const MAIL_MAX: usize = 4_096;

type PendingCommands<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type ReadDone = (ReadId, Result<Vec<Vec<driftq_core::row::Row>>, EngineError>);
type CommitDone = (BatchNo, Result<Timestamp, EngineError>);

pub(super) struct ShardTask {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) config: ShardConfig,
    pub(super) mailbox: Mailbox,
    pub(super) inbox: Inbox,
    pub(super) status: watch::Sender<Status>,
    pub(super) orders: ShardControl,
    pub(super) telemetry: Telemetry,
    pub(super) numbers: Arc<ShardStats>,
    pub(super) series: Arc<SeriesStore>,
    pub(super) awaited: EffectWaiters,
    pub(super) time: NodeClock,
    /// The routes to every shard.
    pub(super) peers: Peers,
    /// The cluster membership, if the engine is shared.
    pub(super) membership: Option<MembershipHandle>,
    /// The epoch under which a copy is served.
    pub(super) claimed: Option<Epoch>,
    /// The last failure other than an outage, which is logged once while it repeats.
    pub(super) last_failure: Option<(String, Instant)>,
}

impl ShardTask {
    /// Performs orders until `Stop`.
    pub(super) async fn run(mut self) {
        loop {
            match self.next_order().await {
                Order::Stop => break,
                Order::Drop => self.report_end(&EndReason::Dropped, 0),
                Order::GiveUp(epoch) => {
                    self.report_end(&EndReason::Ended, 0);
                    self.give_up(epoch).await;
                }
                Order::Always => self.serve_or_panic(None).await,
                Order::Claim(epoch) => self.serve_or_panic(Some(epoch)).await,
            }
        }
        self.status.send_replace(Status::Stopped);
        self.inbox.close();
        while let Some(mail) = self.inbox.recv().await {
            mail.refuse();
        }
    }

    /// A panic loses only this copy of the shard, which is then claimed and loaded again.
    async fn serve_or_panic(&mut self, epoch: Option<Epoch>) {
        let served = AssertUnwindSafe(self.serve(epoch)).catch_unwind().await;
        if served.is_err() {
            self.report_end(&EndReason::Panicked, 0);
            let (shard, claimed) = (self.config.shard, self.claimed.take());
            self.report(match claimed {
                Some(epoch) => OwnershipEvent::Lost { shard, epoch, fenced: false },
                None => OwnershipEvent::ClaimFailed(shard),
            });
        }
    }

    /// Serves a copy of the shard from its claim to its loss.
    async fn serve(&mut self, epoch: Option<Epoch>) {
        let engine = self.engine.clone();
        let began = Instant::now();
        let (ownership, now, recovered) = match self.recover(epoch).await {
            Ok(recovered) => recovered,
            Err(error) => {
                let over = match error {
                    RecoverError::Engine(error) => EndReason::Engine(StorageCall::Load, error),
                    RecoverError::Damaged(damaged) => EndReason::Damaged(damaged),
                };
                self.report_end(&over, 0);
                self.report(OwnershipEvent::ClaimFailed(self.config.shard));
                return;
            }
        };
        let (shard, epoch) = (self.config.shard, ownership.epoch);
        self.claimed = Some(epoch);
        self.report(OwnershipEvent::Claimed { shard, epoch });
        self.telemetry.outages.succeeded(Caller::Shard(shard.0));
        self.telemetry.ownership.acquired(shard, epoch, began.elapsed());
        self.time.floor(recovered.now);
        let clock = Clock::new(recovered.now, now, self.time.boot_ms());
        let start = clock.now(self.time.boot_ms());
        let pipeline = Pipeline::new(recovered, epoch, start, PipelineConfig::default());
        self.series.note(start, shard.0, "shard acquired");
        let mut serving = Serving::new(&*engine, ownership, pipeline, clock, self);
        let over = serving.run(self).await;
        serving.sample();
        self.series.note(serving.now(), shard.0, over.as_str());
        let unanswered = serving.calls.len();
        drop(serving);
        self.claimed = None;
        self.report_released(epoch, &over);
        self.report_end(&over, unanswered);
        let fenced = match over {
            EndReason::Ended | EndReason::Dropped => return,
            EndReason::Engine(_, EngineError::Fenced) => true,
            EndReason::Engine(_, EngineError::Unknown(_))
            | EndReason::Damaged(_)
            | EndReason::Panicked => false,
        };
        self.report(OwnershipEvent::Lost { shard, epoch, fenced });
    }

    async fn recover(
        &self,
        epoch: Option<Epoch>,
    ) -> Result<(Ownership, Timestamp, Recovered), RecoverError> {
        let shard = self.config.shard;
        let (ownership, now) = match (&self.membership, epoch) {
            (Some(membership), Some(epoch)) => {
                membership.postgres.claim_as(membership.node, shard, epoch).await?
            }
            (_, _) => self.engine.claim(shard).await?,
        };
        let now = self.time.sample(now);
        let recovered = read_back(&*self.engine, ownership, self.config.clone()).await?;
        Ok((ownership, now, recovered))
    }

    /// Clears the holder of the shard. If that fails, the next cluster view still shows this node
    /// as the holder, and the order is repeated.
    async fn give_up(&self, epoch: Epoch) {
        let shard = self.config.shard;
        if let Some(membership) = &self.membership {
            let caller = Caller::Shard(shard.0);
            match membership.postgres.give_up(Ownership { shard, epoch }).await {
                Ok(()) => self.telemetry.outages.succeeded(caller),
                Err(error) => {
                    let message = format_args!(
                        "cannot record that shard {shard} was given up, retrying: {}",
                        cause(&error)
                    );
                    self.telemetry.outages.failed(caller, StorageCall::GiveUp, message);
                }
            }
        }
        self.report(OwnershipEvent::GivenUp(shard));
    }

    fn report(&self, event: OwnershipEvent) {
        if let Some(membership) = &self.membership {
            // The receiver is dropped when the process ends.
            let _gone = membership.events.send(event);
        }
    }

    /// Waits for the next order. Rejects calls that arrive while the shard is not served.
    async fn next_order(&mut self) -> Order {
        let again = tokio::time::sleep(CLAIM_AGAIN);
        tokio::pin!(again);
        loop {
            tokio::select! {
                biased;
                order = self.orders.next() => return order,
                // There is no other node to serve the shard.
                () = &mut again, if self.membership.is_none() => return Order::Always,
                Some(mail) = self.inbox.recv() => mail.refuse(),
            }
        }
    }
}

/// One copy of the shard, from recovery to loss.
struct Serving<'a> {
    engine: &'a dyn Engine,
    ownership: Ownership,
    pipeline: Pipeline,
    clock: Clock,
    time: NodeClock,
    next_ticket: u64,
    /// Pending answers by ticket.
    calls: HashMap<u64, ReplySender>,
    /// Consumers whose `Leave` is pending, by ticket.
    leaving: HashMap<u64, ConsumerId>,
    consumers: BTreeMap<ConsumerId, Deliver>,
    reads: FuturesUnordered<PendingCommands<'a, ReadDone>>,
    commits: FuturesOrdered<PendingCommands<'a, CommitDone>>,
    outputs: Vec<Output>,
    /// Start times of the commits in flight.
    begun: VecDeque<Instant>,
    telemetry: Telemetry,
    numbers: Arc<ShardStats>,
    series: Arc<SeriesStore>,
    /// What happened since the last sample.
    activity: ShardActivity,
    awaited: EffectWaiters,
    peers: Peers,
}

impl<'a> Serving<'a> {
    fn new(
        engine: &'a dyn Engine,
        ownership: Ownership,
        pipeline: Pipeline,
        clock: Clock,
        task: &ShardTask,
    ) -> Serving<'a> {
        Serving {
            engine,
            ownership,
            pipeline,
            clock,
            time: task.time.clone(),
            next_ticket: 0,
            calls: HashMap::new(),
            leaving: HashMap::new(),
            consumers: BTreeMap::new(),
            reads: FuturesUnordered::new(),
            commits: FuturesOrdered::new(),
            outputs: Vec::new(),
            begun: VecDeque::new(),
            telemetry: task.telemetry.clone(),
            numbers: task.numbers.clone(),
            series: task.series.clone(),
            activity: ShardActivity::default(),
            awaited: task.awaited.clone(),
            peers: task.peers.clone(),
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now(self.time.boot_ms())
    }

    async fn run(&mut self, task: &mut ShardTask) -> EndReason {
        task.status.send_replace(Status::Serving);
        let mut mail = Vec::new();
        let mut is_stopping = false;
        loop {
            if let Err(over) = self.turn(&task.mailbox) {
                return over;
            }
            if is_stopping && self.commits.is_empty() && self.reads.is_empty() {
                return EndReason::Ended;
            }
            let deadline = self.pipeline.next_deadline();
            let until = deadline.map(|at| Duration::from_millis(at.since(self.now())));
            tokio::select! {
                biased;
                Some((no, done)) = self.commits.next() => match done {
                    Ok(authority) => {
                        self.telemetry.outages.succeeded(Caller::Shard(self.ownership.shard.0));
                        let believed = self.time.sample(authority);
                        self.clock.sample(believed, self.time.boot_ms());
                        self.pipeline.on(self.now(), Input::CommitDone(no), &mut self.outputs);
                    }
                    Err(error) => return EndReason::Engine(StorageCall::Commit, error),
                },
                Some((id, done)) = self.reads.next() => match done {
                    Ok(rows) => {
                        self.pipeline.on(self.now(), Input::ReadDone(id, rows), &mut self.outputs);
                        // The next read may be complete already. Commands must not wait until no
                        // read is.
                        if !is_stopping && self.pipeline.waiting() < CALLS_MAX {
                            let arrived = std::iter::from_fn(|| task.inbox.try_recv().ok());
                            arrived.take(MAIL_MAX).for_each(|mail| self.take(mail));
                        }
                    }
                    Err(error) => return EndReason::Engine(StorageCall::Read, error),
                },
                // Further requests wait in the mailbox, which is bounded.
                count = task.inbox.recv_many(&mut mail, MAIL_MAX),
                    if !is_stopping && self.pipeline.waiting() < CALLS_MAX =>
                {
                    if count == 0 {
                        return EndReason::Ended;
                    }
                    mail.drain(..).for_each(|mail| self.take(mail));
                }
                () = tokio::time::sleep(until.unwrap_or_default()), if until.is_some() && !is_stopping => {}
                serve = task.orders.next_while_serving() => match serve {
                    Serve::On => {}
                    Serve::End => {
                        is_stopping = true;
                        self.pipeline.close();
                    }
                    Serve::Drop => return EndReason::Dropped,
                },
            }
        }
    }

    /// Adds what happened to the series.
    fn sample(&mut self) {
        let (now, number) = (self.now(), self.ownership.shard.0);
        self.series.add(now, self.pipeline.shard(), number, &mut self.activity);
    }

    fn take(&mut self, mail: ShardRequest) {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        let command = match mail {
            ShardRequest::Call(command, answer) => {
                self.calls.insert(ticket.0, answer);
                if let Command::Leave(consumer) = command {
                    self.leaving.insert(ticket.0, consumer);
                }
                command
            }
            ShardRequest::Join(join, deliver, answer) => {
                self.calls.insert(ticket.0, answer);
                self.consumers.insert(join.consumer, deliver);
                Command::Join(join)
            }
            ShardRequest::Command(command) => {
                if let Command::Leave(consumer) = command {
                    self.consumers.remove(&consumer);
                }
                command
            }
            ShardRequest::Sample(_done) => return self.sample(),
        };
        self.pipeline.on(self.now(), Input::Arrived(ticket, command), &mut self.outputs);
    }

    /// Decides pending commands, starts reads and commits, and performs the outputs.
    fn turn(&mut self, mailbox: &Mailbox) -> Result<(), EndReason> {
        let now = self.now();
        self.perform(mailbox)?;
        // While it is unknown which nodes there are, an older one may be alive.
        self.pipeline.set_format(self.peers.format().unwrap_or_default());
        self.pipeline.turn(now, &mut self.outputs);
        self.perform(mailbox)
    }

    fn perform(&mut self, mailbox: &Mailbox) -> Result<(), EndReason> {
        for output in std::mem::take(&mut self.outputs) {
            match output {
                Output::StartRead(id, reads) => {
                    let answer = self.engine.read(self.ownership, reads);
                    self.reads.push(Box::pin(async move { (id, answer.await) }));
                }
                Output::StartCommit(batch, writes) => {
                    let no = batch.no;
                    self.begun.push_back(Instant::now());
                    let done = self.engine.commit(self.ownership, no, writes);
                    self.commits.push_back(Box::pin(async move { (no, done.await) }));
                }
                Output::Release(release) => self.release(release, mailbox),
                Output::Damaged(damaged) => {
                    let shard = self.ownership.shard.0;
                    let advice = if damaged.is_newer() {
                        "a later release has written it: serve the shard with that release"
                    } else {
                        "repair its topic with `driftq shard repair`"
                    };
                    tracing::error!(shard, "{damaged}; {advice}");
                }
            }
        }
        Ok(())
    }

    /// Sends messages to another shard. If it does not answer, the core sends them again.
    fn forward(&self, target: ShardId, arrive: Box<Arrive>, back: &Mailbox) {
        let Ok(call) = self.peers.call(target, Command::Arrive(arrive)) else { return };
        let back = back.clone();
        tokio::spawn(async move {
            if let Ok(Ok(Reply::Arrived(arrived))) = call.answered().await {
                back.send(Command::Arrived(Box::new(arrived)));
            }
        });
    }

    /// Releases the replies and deliveries of a durable batch.
    fn release(&mut self, release: Release, mailbox: &Mailbox) {
        let Release { batch, withheld } = release;
        let took = self.begun.pop_front().map(|begun| begun.elapsed()).unwrap_or_default();
        self.telemetry.metrics.released(&batch, took);
        let (shard, took_us) = (self.ownership.shard.0, took.as_micros());
        tracing::trace!(
            shard,
            batch = batch.no.0,
            replies = batch.replies.len(),
            took_us,
            "batch committed"
        );
        self.numbers.committed(batch.replies.len(), took);
        self.activity.add(batch.replies.len(), &batch.activity);
        self.awaited.send(&batch.changes);
        // The pipeline has dropped its reference by now, so nothing is copied.
        let (replies, effects) = match Arc::try_unwrap(batch) {
            Ok(batch) => (batch.replies, batch.actions),
            Err(batch) => (batch.replies.clone(), batch.actions.clone()),
        };
        for (ticket, answered) in replies {
            if let Some(answer) = self.calls.remove(&ticket.0) {
                // The caller may have disconnected.
                answer.send(Ok(answered));
            }
            if let Some(consumer) = self.leaving.remove(&ticket.0) {
                // The consumer has received all its deliveries, because batches are released in
                // order.
                self.consumers.remove(&consumer);
            }
        }
        // Sent once per batch, so that a poll that wakes up receives all of its deliveries.
        let mut given: BTreeMap<ConsumerId, DeliveryBatch> = BTreeMap::new();
        let mut dismissed = Vec::new();
        for effect in effects {
            match effect {
                Action::Deliver(_, delivery) if withheld.contains(&delivery.hold) => {}
                Action::Deliver(consumer, delivery) => {
                    given.entry(consumer).or_default().push(delivery);
                }
                Action::Dismiss(consumer) => dismissed.push(consumer),
                Action::Send(target, arrive) => self.forward(target, arrive, mailbox),
            }
        }
        for (consumer, deliveries) in given {
            let handed = ConsumerEvent::Deliveries(deliveries);
            let unseen = match self.consumers.get(&consumer) {
                Some(deliver) => deliver.send(handed).err().map(|failed| failed.0),
                None => Some(handed),
            };
            // The deliveries did not reach the consumer, so they are given back and count no
            // attempt.
            for hold in unseen.iter().flat_map(ConsumerEvent::holds) {
                mailbox.send(Command::GiveBack(hold));
            }
        }
        for consumer in dismissed {
            if let Some(deliver) = self.consumers.remove(&consumer) {
                // The consumer may have left already.
                let _gone = deliver.send(ConsumerEvent::Dismissed);
            }
        }
    }
}
