//! A node: the shards that it serves, and the routes to all others.
//!
//! One task per shard performs the actions of the core's pipeline while the node serves that shard.
//! Callers reach the task through a mailbox. If a call is not answered, its outcome is *unknown*,
//! because the shard was lost between receiving the call and committing it.

mod client;
mod effect_waiters;
mod frames;
mod mailbox;
mod membership_handle;
mod peers;
mod precheck;
mod produce_with_nonce;
mod retry;
mod routes;
mod sampler;
mod shard_control;
mod shard_end;
mod shard_task;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use driftq_core::command::{CommandTarget, merge_replies};
use driftq_core::command::{GroupName, Join};
use driftq_core::view::AllViews;
use driftq_core::{
    Command, CommandResult, ConsumerId, Epoch, ShardConfig, ShardId, Token, TokenKeys, TokenVersion,
};
use driftq_storage::Engine;
use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use effect_waiters::{EffectWaiters, Waiting};

pub(crate) use client::{CODEC, EPOCH, RemoteShard, SECRET, SHARD};
pub use driftq_core::CallError;
pub(crate) use frames::{frame, frames, pack_lost};
pub(crate) use mailbox::{ConsumerEvent, Deliveries, DeliveryBatch};
pub(crate) use membership_handle::{ClusterHandle, MembershipHandle};
pub(crate) use routes::Routes;
pub(crate) use sampler::sample_regularly;
pub use status::Status;

use crate::budget::Budget;
use crate::clock::NodeClock;
use crate::series::{CountedSeries, SeriesRequest, SeriesStore, Totals};
use crate::shard_stats::{ShardCounts, ShardStats};
use crate::telemetry::Telemetry;
use client::Client;
use mailbox::{CALLS_MAX, Call, Inbox, Mailbox};
use peers::{Others, Peers};
use retry::Retry;
use routes::Route;
use shard_control::ShardControl;

pub(crate) use shard_control::{Commander, Order};

/// How long a start waits until every shard is served by some node.
const ALL_SERVED_TIMEOUT: Duration = Duration::from_secs(15);

/// A handle to all shards, local and remote.
#[derive(Clone)]
pub struct Node {
    peers: Peers,
    statuses: Arc<[watch::Receiver<Status>]>,
    numbers: Arc<[Arc<ShardStats>]>,
    consumers: Arc<AtomicU64>,
    keys: Arc<TokenKeys>,
    peer_secret: Arc<str>,
    awaited: EffectWaiters,
    series: Arc<SeriesStore>,
}

/// The tasks that serve the shards.
pub struct ShardTasks {
    orders: Vec<Commander>,
    tasks: Vec<JoinHandle<()>>,
}

impl ShardTasks {
    /// Commits and releases what was decided, then ends the tasks.
    pub async fn stop(self) {
        for orders in &self.orders {
            // A task that has ended needs no order.
            let _ended = orders.send(Order::Stop);
        }
        for task in self.tasks {
            // The task does not panic. If it did, there would be nothing left to wait for.
            let _ended = task.await;
        }
    }

    /// The control channel of each shard's task.
    pub(crate) fn orders(&self) -> Vec<Commander> {
        self.orders.clone()
    }
}

impl Node {
    /// Starts the tasks that serve the shards of an engine: all shards, or in a cluster those that
    /// are claimed by order. `config` applies to every shard, apart from the shard's number.
    pub(crate) fn start(
        engine: Arc<dyn Engine>,
        config: &ShardConfig,
        keys: TokenKeys,
        telemetry: &Telemetry,
        time: &NodeClock,
        budget: &Budget,
        cluster: Option<ClusterHandle>,
    ) -> (Node, ShardTasks) {
        let awaited = EffectWaiters::default();
        let series = Arc::new(SeriesStore::default());
        let (membership, (routes, trusted)) = match cluster {
            Some(ClusterHandle { membership, routes, trusted }) => {
                (Some(membership), (Some(routes), trusted))
            }
            None => (None, (None, Vec::new())),
        };
        let (order, status) = match membership {
            Some(_) => (Order::Drop, Status::Elsewhere),
            None => (Order::Always, Status::Starting),
        };
        let numbers = (0..config.shards.max(1)).map(ShardId);
        let (mailboxes, inboxes): (Vec<Mailbox>, Vec<Inbox>) = numbers
            .clone()
            .map(|_| mpsc::channel(CALLS_MAX))
            .map(|(send, receive)| (Mailbox::new(send, budget.calls.clone()), receive))
            .unzip();
        let peer_secret: Arc<str> = keys.peer_secret().into();
        let others = routes
            .map(|routes| Others { routes, client: Client::new(peer_secret.clone(), &trusted) });
        let peers = Peers::new(mailboxes.clone(), others);
        let (mut statuses, mut commanders, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
        let mut counts = Vec::new();
        for ((number, inbox), mailbox) in numbers.zip(inboxes).zip(mailboxes) {
            let (status, seen) = watch::channel(status.clone());
            let (commander, orders) = ShardControl::new(order);
            let counted = Arc::new(ShardStats::default());
            let task = shard_task::ShardTask {
                engine: engine.clone(),
                config: ShardConfig { shard: number, ..config.clone() },
                mailbox,
                peers: peers.clone(),
                inbox,
                status,
                orders,
                telemetry: telemetry.clone(),
                numbers: counted.clone(),
                series: series.clone(),
                awaited: awaited.clone(),
                time: time.clone(),
                membership: membership.clone(),
                claimed: None,
                last_failure: None,
            };
            statuses.push(seen);
            counts.push(counted);
            commanders.push(commander);
            tasks.push(tokio::spawn(task.run()));
        }
        let consumers = Arc::new(AtomicU64::new(0));
        let (statuses, numbers, keys) = (statuses.into(), counts.into(), Arc::new(keys));
        let node = Node { peers, statuses, numbers, consumers, keys, peer_secret, awaited, series };
        (node, ShardTasks { orders: commanders, tasks })
    }

    /// The number of shards.
    pub fn shards(&self) -> u32 {
        self.peers.count()
    }

    /// The shard that decides a command.
    fn place(&self, command: &Command) -> ShardId {
        if self.shards() == 1 {
            return ShardId(0);
        }
        match command.place(self.shards()) {
            CommandTarget::Shard(shard) => shard,
            CommandTarget::Every | CommandTarget::Known => ShardId(0),
        }
    }

    /// Retries `ask` while its shard is moving (`NotServing`), up to `MAX_MOVE_WAIT_MS`.
    async fn with_retries<T, F>(&self, mut ask: impl FnMut() -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let Some(mut retry) = Retry::new(&self.peers) else { return ask().await };
        loop {
            let answered = ask().await;
            match &answered {
                Err(lost) if retry.is_worth_another(*lost) => retry.wait().await,
                _ => return answered,
            }
        }
    }

    async fn decide_at(
        &self,
        shard: ShardId,
        command: Command,
    ) -> Result<CommandResult, CallError> {
        if !self.is_clustered() {
            return self.peers.call(shard, command)?.answered().await;
        }
        let ask = || async { self.peers.call(shard, command.clone())?.answered().await };
        self.with_retries(ask).await
    }

    async fn decide(&self, command: Command) -> Result<CommandResult, CallError> {
        self.decide_at(self.place(&command), command).await
    }

    /// Sends a command to its shard, and waits until its result is committed.
    pub async fn call(&self, mut command: Command) -> Result<CommandResult, CallError> {
        if self.shards() == 1 {
            return self.decide(command).await;
        }
        if command.place(self.shards()) != CommandTarget::Every {
            self.check_remote_topics(std::slice::from_mut(&mut command)).await;
            return self.follow_redirect(self.decide(command).await?).await;
        }
        let every = (0..self.shards()).map(|shard| self.decide_at(ShardId(shard), command.clone()));
        let mut replies = Vec::with_capacity(self.shards() as usize);
        for answered in join_all(every).await {
            match answered? {
                Ok(reply) => replies.push(reply),
                Err(rejection) => return Ok(Err(rejection)),
            }
        }
        Ok(Ok(merge_replies(replies)))
    }

    /// Sends commands one after the other, so that one batch can decide them together. Waits for
    /// all results.
    pub async fn call_all(
        &self,
        mut commands: Vec<Command>,
    ) -> Vec<Result<CommandResult, CallError>> {
        if self.shards() == 1 {
            return self.decide_all(commands).await;
        }
        self.check_remote_topics(&mut commands).await;
        let answers = self.decide_all(commands).await;
        self.follow_redirects(answers).await
    }

    /// Sends commands to their shards, in order per shard. Rejected commands are retried together,
    /// so that many commands wait no longer than one.
    async fn decide_all(&self, commands: Vec<Command>) -> Vec<Result<CommandResult, CallError>> {
        let Some(mut retry) = Retry::new(&self.peers) else {
            let send = |command| self.peers.call(self.place(&command), command);
            return all_answered(commands.into_iter().map(send).collect()).await;
        };
        let mut answers = all_answered(self.send_by_shard(commands.clone())).await;
        loop {
            let is_left = |answered: &Result<CommandResult, CallError>| matches!(answered, Err(lost) if retry.is_worth_another(*lost));
            let left: Vec<usize> = (0..answers.len()).filter(|at| is_left(&answers[*at])).collect();
            if left.is_empty() {
                return answers;
            }
            retry.wait().await;
            let again = left.iter().map(|at| commands[*at].clone()).collect();
            let replies = all_answered(self.send_by_shard(again)).await;
            for (at, answered) in left.into_iter().zip(replies) {
                answers[at] = answered;
            }
        }
    }

    /// Sends the commands for each shard as one request, so that they stay in order on the way to
    /// another node.
    fn send_by_shard(&self, commands: Vec<Command>) -> Vec<Result<Call, CallError>> {
        let mut by_shard: BTreeMap<ShardId, (Vec<usize>, Vec<Command>)> = BTreeMap::new();
        for (at, command) in commands.into_iter().enumerate() {
            let (places, of) = by_shard.entry(self.place(&command)).or_default();
            places.push(at);
            of.push(command);
        }
        let mut sent = BTreeMap::new();
        for (shard, (places, commands)) in by_shard {
            sent.extend(places.into_iter().zip(self.peers.call_all(shard, commands)));
        }
        sent.into_values().collect()
    }

    /// Returns a number that no other consumer of this process has had.
    pub fn next_consumer(&self) -> ConsumerId {
        ConsumerId(self.consumers.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The shard that serves a group.
    pub fn shard_of(&self, name: &GroupName) -> ShardId {
        name.topic.shard(self.shards())
    }

    /// Joins a consumer. Also returns the channel of its deliveries, which ends when the consumer
    /// has left or is dismissed, or when the shard is lost. The third value names the remote shard;
    /// it is `None` if the shard is local.
    pub(crate) async fn join(
        &self,
        join: Join,
    ) -> Result<(CommandResult, Deliveries, Option<RemoteShard>), CallError> {
        let shard = self.shard_of(&join.name);
        let ask = || async {
            let (call, deliveries, there) = self.peers.join(shard, join.clone())?;
            Ok((call.answered().await?, deliveries, there))
        };
        self.with_retries(ask).await
    }

    /// Removes a consumer from the shard that it joined, by its number there. Its channel ends
    /// after the deliveries that are still under way.
    pub(crate) async fn leave(
        &self,
        shard: ShardId,
        there: Option<&RemoteShard>,
        number: ConsumerId,
    ) -> Result<CommandResult, CallError> {
        self.peers.leave(shard, there, number)?.answered().await
    }

    /// Whether this process serves the shard under this epoch.
    pub(crate) fn serves(&self, shard: ShardId, epoch: Epoch) -> bool {
        self.peers.serves(shard, epoch)
    }

    /// Whether shards may move to other nodes.
    pub(crate) fn is_clustered(&self) -> bool {
        self.peers.is_clustered()
    }

    /// The secret that only nodes of this storage know.
    pub(crate) fn peer_secret(&self) -> &str {
        &self.peer_secret
    }

    /// Sends a command to a shard of this process.
    pub(crate) async fn call_here(
        &self,
        shard: ShardId,
        command: Command,
    ) -> Result<CommandResult, CallError> {
        self.peers.call_here(shard, command)?.answered().await
    }

    /// Sends several commands to a shard of this process, one after the other.
    pub(crate) async fn call_all_here(
        &self,
        shard: ShardId,
        commands: Vec<Command>,
    ) -> Vec<Result<CommandResult, CallError>> {
        let sent = self.peers.call_all_here(shard, commands);
        let answered = |call: Result<Call, CallError>| async { call?.answered().await };
        join_all(sent.into_iter().map(answered)).await
    }

    /// Joins a consumer to a shard of this process.
    pub(crate) async fn join_here(
        &self,
        shard: ShardId,
        join: Join,
    ) -> Result<(CommandResult, Deliveries), CallError> {
        let (call, deliveries) = self.peers.here(shard).join(join)?;
        Ok((call.answered().await?, deliveries))
    }

    /// Sends a command without waiting for an answer. If the shard is lost, the command has no
    /// purpose any more.
    pub fn send(&self, shard: ShardId, command: Command) {
        self.peers.send(shard, command);
    }

    /// Sends a command to every shard that is served here.
    pub fn send_to_all(&self, command: &Command) {
        self.peers.send_to_local(command);
    }

    /// The status of the shards that are served here: the most urgent one.
    pub fn status(&self) -> Status {
        let routes = self.peers.routes().map(|routes| routes.borrow().clone());
        if routes.as_ref().is_some_and(Routes::has_duplicate_address) {
            return Status::DuplicateAddress;
        }
        // A shard that was lost here may be served by another node by now.
        let is_there = |shard: u32| {
            let route = routes.as_ref().and_then(|routes| routes.to(ShardId(shard)));
            matches!(route, Some(Route::Remote { .. }))
        };
        let all = (0..).zip(&*self.statuses).filter(|(shard, _)| !is_there(*shard));
        let all = all.map(|(_, status)| status.borrow().clone());
        let worst = all.reduce(Status::worse).unwrap_or(Status::Elsewhere);
        let has_not_seen_them = routes.as_ref().is_some_and(|routes| !routes.is_known());
        if worst == Status::Elsewhere && has_not_seen_them { Status::Starting } else { worst }
    }

    /// Adds what happened in the shards that are served here to the series.
    pub(crate) async fn sample(&self) {
        self.peers.sample().await;
    }

    /// Lets every shard that is served here act on the time, after the clock was advanced.
    pub(crate) async fn wake(&self) {
        // A shard acts on the time before and after each request in its mailbox.
        self.peers.sample().await;
    }

    /// Returns the counts since the process started, by topic and by group.
    pub(crate) fn totals(&self, views: Option<&AllViews>) -> (Totals, Totals) {
        self.series.totals(views)
    }

    /// Returns what this process counted.
    pub(crate) fn series_here(&self, request: &SeriesRequest) -> CountedSeries {
        self.series.read(request)
    }

    /// Returns what the nodes that serve shards counted. A node that does not answer is left out.
    pub(crate) async fn series(&self, request: &SeriesRequest) -> Vec<CountedSeries> {
        let mut counted = self.peers.series_elsewhere(request).await;
        counted.push(self.series_here(request));
        counted
    }

    /// The counters of the shards that are served here now.
    pub(crate) fn counted(&self) -> Vec<ShardCounts> {
        let all = (0..).zip(&*self.statuses).zip(&*self.numbers);
        let served = all.filter(|((_, status), _)| *status.borrow() == Status::Serving);
        served.map(|((shard, _), numbers)| numbers.of(shard)).collect()
    }

    /// Waits until every shard is served, or one has failed. In a cluster, a shard may be served by
    /// any node, and the wait is short because other nodes may be failing.
    pub async fn until_decided(&self) -> Status {
        if let Some(mut routes) = self.peers.routes() {
            let whole = routes.wait_for(Routes::is_complete);
            let _whole = tokio::time::timeout(ALL_SERVED_TIMEOUT, whole).await;
        }
        for status in &*self.statuses {
            let mut status = status.clone();
            if status.wait_for(|status| !matches!(status, Status::Starting)).await.is_err() {
                return Status::Stopped;
            }
        }
        self.status()
    }

    /// Registers a waiter for changes of an effect.
    pub(crate) fn await_effect(&self, tenant: &str, scope: &str, key: &str) -> Waiting {
        self.awaited.wait(tenant, scope, key)
    }

    /// The keys that verify tokens.
    pub fn keys(&self) -> &TokenKeys {
        &self.keys
    }

    /// Mints tokens of the version that all nodes accept.
    pub(crate) fn minter(&self) -> Minter<'_> {
        Minter { keys: &self.keys, version: self.peers.token_version() }
    }
}

/// Mints tokens of one version.
#[derive(Clone, Copy)]
pub(crate) struct Minter<'a> {
    keys: &'a TokenKeys,
    version: TokenVersion,
}

impl Minter<'_> {
    pub(crate) fn mint<T: Token>(&self, token: &T) -> String {
        self.keys.mint(self.version, token)
    }
}

async fn all_answered(sent: Vec<Result<Call, CallError>>) -> Vec<Result<CommandResult, CallError>> {
    let mut answers = Vec::with_capacity(sent.len());
    for call in sent {
        answers.push(match call {
            Ok(call) => call.answered().await,
            Err(lost) => Err(lost),
        });
    }
    answers
}
