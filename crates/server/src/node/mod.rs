//! A node: the shards it serves, and the way to all of them.
//!
//! One task per shard performs what the core's pipeline says, while it is told to serve. Callers reach it
//! through a mailbox; a call that is not answered is *unknown*: the shard was lost between taking it and its
//! commit.

mod client;
mod effect_waiters;
mod frames;
mod mailbox;
mod membership_handle;
mod peers;
mod precheck;
mod retry;
mod routes;
mod shard_control;
mod shard_task;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use driftq_core::command::{GroupName, Join};
use driftq_core::command::{Place, together};
use driftq_core::{
    Command, CommandResult, ConsumerId, Epoch, ShardConfig, ShardId, Token, TokenKeys, TokenVersion,
};
use driftq_storage::Engine;
use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use effect_waiters::{EffectWaiters, Waiting};

pub(crate) use client::{EPOCH, RemoteShard, SECRET, SHARD};
pub use driftq_core::CallError;
pub(crate) use frames::{frame, frames, pack_lost};
pub(crate) use mailbox::{ConsumerEvent, Deliveries, DeliveryBatch};
pub(crate) use membership_handle::{ClusterHandle, MembershipHandle};
pub(crate) use routes::Routes;
pub use status::Status;

use crate::budget::Budget;
use crate::clock::NodeClock;
use crate::metrics::Metrics;
use crate::shard_stats::{ShardCounts, ShardStats};
use client::Client;
use mailbox::{CALLS_MAX, Call, Inbox, Mailbox};
use peers::{Others, Peers};
use retry::Retry;
use routes::Route;
use shard_control::ShardControl;

pub(crate) use shard_control::{Commander, Order};

/// How long a start waits for all shards to be served somewhere.
const WHOLE_WITHIN: Duration = Duration::from_secs(15);

/// The shards, and the way to them.
#[derive(Clone)]
pub struct Node {
    peers: Peers,
    statuses: Arc<[watch::Receiver<Status>]>,
    numbers: Arc<[Arc<ShardStats>]>,
    consumers: Arc<AtomicU64>,
    keys: Arc<TokenKeys>,
    peer_secret: Arc<str>,
    awaited: EffectWaiters,
}

/// The tasks that serve the shards.
pub struct ShardTasks {
    orders: Vec<Commander>,
    tasks: Vec<JoinHandle<()>>,
}

impl ShardTasks {
    /// Lets what is decided be committed and released, then ends.
    pub async fn stop(self) {
        for orders in &self.orders {
            // One that has ended needs no order.
            let _ended = orders.send(Order::Stop);
        }
        for task in self.tasks {
            // It does not panic; if it did, there is nothing left to wait for.
            let _ended = task.await;
        }
    }

    /// What each shard's task is told.
    pub(crate) fn orders(&self) -> Vec<Commander> {
        self.orders.clone()
    }
}

impl Node {
    /// Serves the shards of an engine: all of them, or those it is told to. `config` is that of each but for
    /// its number.
    pub(crate) fn start(
        engine: Arc<dyn Engine>,
        config: &ShardConfig,
        keys: TokenKeys,
        metrics: &Arc<Metrics>,
        time: &NodeClock,
        budget: &Budget,
        cluster: Option<ClusterHandle>,
    ) -> (Node, ShardTasks) {
        let awaited = EffectWaiters::default();
        let (membership, routes) =
            cluster.map(|ClusterHandle { membership, routes }| (membership, routes)).unzip();
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
        let others =
            routes.map(|routes| Others { routes, client: Client::new(peer_secret.clone()) });
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
                metrics: metrics.clone(),
                numbers: counted.clone(),
                awaited: awaited.clone(),
                time: time.clone(),
                membership: membership.clone(),
                claimed: None,
            };
            statuses.push(seen);
            counts.push(counted);
            commanders.push(commander);
            tasks.push(tokio::spawn(task.run()));
        }
        let consumers = Arc::new(AtomicU64::new(0));
        let (statuses, numbers, keys) = (statuses.into(), counts.into(), Arc::new(keys));
        let node = Node { peers, statuses, numbers, consumers, keys, peer_secret, awaited };
        (node, ShardTasks { orders: commanders, tasks })
    }

    /// How many shards there are.
    pub fn shards(&self) -> u32 {
        self.peers.count()
    }

    /// The shard that decides a command.
    fn place(&self, command: &Command) -> ShardId {
        if self.shards() == 1 {
            return ShardId(0);
        }
        match command.place(self.shards()) {
            Place::Shard(shard) => shard,
            Place::Every | Place::Known => ShardId(0),
        }
    }

    /// Does `ask` until it is heard: what nobody took, because its shard moves, is tried again for a while.
    async fn until_heard<T, F>(&self, mut ask: impl FnMut() -> F) -> Result<T, CallError>
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
        if !self.is_among_others() {
            return self.peers.call(shard, command)?.answered().await;
        }
        let ask = || async { self.peers.call(shard, command.clone())?.answered().await };
        self.until_heard(ask).await
    }

    async fn decide(&self, command: Command) -> Result<CommandResult, CallError> {
        self.decide_at(self.place(&command), command).await
    }

    /// Has a command decided, and waits until the answer may be shown.
    pub async fn call(&self, mut command: Command) -> Result<CommandResult, CallError> {
        if self.shards() == 1 {
            return self.decide(command).await;
        }
        if command.place(self.shards()) != Place::Every {
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
        Ok(Ok(together(replies)))
    }

    /// Sends commands one after the other, so that a batch can decide them together, then waits for all.
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

    /// Has commands decided by their shards, each shard's in their order. Those that nobody takes are sent again
    /// together: all of them wait no longer than one would.
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
            let heard = all_answered(self.send_by_shard(again)).await;
            for (at, answered) in left.into_iter().zip(heard) {
                answers[at] = answered;
            }
        }
    }

    /// Sends to each shard what is for it as one, so that it keeps its order on the way to another node.
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

    /// A number no consumer of this process has had.
    pub fn next_consumer(&self) -> ConsumerId {
        ConsumerId(self.consumers.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Where a group is served.
    pub fn shard_of(&self, name: &GroupName) -> ShardId {
        name.topic.shard(self.shards())
    }

    /// Lets a consumer take part. What it is given comes through the second; it ends when the consumer has left or is
    /// dismissed, or the shard is lost. The third is where that is, unless it is here.
    pub(crate) async fn join(
        &self,
        join: Join,
    ) -> Result<(CommandResult, Deliveries, Option<RemoteShard>), CallError> {
        let shard = self.shard_of(&join.name);
        let ask = || async {
            let (call, deliveries, there) = self.peers.join(shard, join.clone())?;
            Ok((call.answered().await?, deliveries, there))
        };
        self.until_heard(ask).await
    }

    /// Lets a consumer go from where it joined, by its number there. Its deliveries end with the last that was on
    /// the way.
    pub(crate) async fn leave(
        &self,
        shard: ShardId,
        there: Option<&RemoteShard>,
        number: ConsumerId,
    ) -> Result<CommandResult, CallError> {
        self.peers.leave(shard, there, number)?.answered().await
    }

    /// Whether this process serves a shard under this epoch.
    pub(crate) fn serves(&self, shard: ShardId, epoch: Epoch) -> bool {
        self.peers.serves(shard, epoch)
    }

    /// Whether shards may be served by others tomorrow.
    pub(crate) fn is_among_others(&self) -> bool {
        self.peers.is_among_others()
    }

    /// What only nodes of this storage know.
    pub(crate) fn peer_secret(&self) -> &str {
        &self.peer_secret
    }

    /// Has a command decided by a shard of this process.
    pub(crate) async fn call_here(
        &self,
        shard: ShardId,
        command: Command,
    ) -> Result<CommandResult, CallError> {
        self.peers.here(shard).call(command)?.answered().await
    }

    /// The same for several, one after the other.
    pub(crate) async fn call_all_here(
        &self,
        shard: ShardId,
        commands: Vec<Command>,
    ) -> Vec<Result<CommandResult, CallError>> {
        let mailbox = self.peers.here(shard);
        let sent: Vec<_> = commands.into_iter().map(|command| mailbox.call(command)).collect();
        let answered = |call: Result<Call, CallError>| async { call?.answered().await };
        join_all(sent.into_iter().map(answered)).await
    }

    /// Lets a consumer take part in a shard of this process.
    pub(crate) async fn join_here(
        &self,
        shard: ShardId,
        join: Join,
    ) -> Result<(CommandResult, Deliveries), CallError> {
        let (call, deliveries) = self.peers.here(shard).join(join)?;
        Ok((call.answered().await?, deliveries))
    }

    /// Tells a shard something nobody waits for. If the shard is gone, so is what this was about.
    pub fn send(&self, shard: ShardId, command: Command) {
        self.peers.send(shard, command);
    }

    /// Tells every shard that is served here.
    pub fn send_to_all(&self, command: &Command) {
        self.peers.send_to_local(command);
    }

    /// How the shards are that are served here: as the first that does not serve, if there is one.
    pub fn status(&self) -> Status {
        let routes = self.peers.routes().map(|routes| routes.borrow().clone());
        if routes.as_ref().is_some_and(Routes::has_duplicate_address) {
            return Status::DuplicateAddress;
        }
        // What was lost here may be served there by now.
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

    /// What the shards have done that are served here now.
    pub(crate) fn counted(&self) -> Vec<ShardCounts> {
        let all = (0..).zip(&*self.statuses).zip(&*self.numbers);
        let served = all.filter(|((_, status), _)| *status.borrow() == Status::Serving);
        served.map(|((shard, _), numbers)| numbers.of(shard)).collect()
    }

    /// Waits until every shard serves, or one will not. ClusterHandle others it may be somewhere else, and is not
    /// waited for long: they may be in trouble.
    pub async fn until_decided(&self) -> Status {
        if let Some(mut routes) = self.peers.routes() {
            let whole = routes.wait_for(Routes::is_whole);
            let _whole = tokio::time::timeout(WHOLE_WITHIN, whole).await;
        }
        for status in &*self.statuses {
            let mut status = status.clone();
            if status.wait_for(|status| !matches!(status, Status::Starting)).await.is_err() {
                return Status::Stopped;
            }
        }
        self.status()
    }

    /// Waits for something to happen to an effect.
    pub(crate) fn await_effect(&self, tenant: &str, scope: &str, key: &str) -> Waiting {
        self.awaited.wait(tenant, scope, key)
    }

    /// The keys that verify tokens.
    pub fn keys(&self) -> &TokenKeys {
        &self.keys
    }

    /// What mints tokens.
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
