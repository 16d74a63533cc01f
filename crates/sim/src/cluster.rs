//! Simulates a cluster: many nodes, each with the ownership state machine of the core, and one
//! database through which they see each other. There are no queues: a shard is either served or
//! not.
//!
//! 1. All faults come from one seed: requests and replies are late or lost, processes are stopped
//!    and killed, their clocks drift, and the database becomes unavailable.
//! 2. When a node starts to serve a shard or renews its lease, no other node that is alive by the
//!    database clock may serve that shard. Violations are listed in [`Cluster::broken`].

mod cluster_config;
pub(crate) mod database;
pub(crate) mod process;

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::ownership::{ClusterRows, OwnershipAction, OwnershipEvent, RENEW_TIMEOUT_MS};
use driftq_core::{Epoch, NodeId, ShardId};

use database::Database;
use process::Process;

pub use cluster_config::{ClusterConfig, Counts, Faults};

#[derive(Debug, Clone, Copy)]
enum Request {
    Renew { draining: bool, number: u64 },
    Claim { shard: ShardId, epoch: Epoch, number: u64 },
    GiveUp { shard: ShardId, epoch: Epoch },
    Leave,
}

#[derive(Debug)]
enum SimEvent {
    Wake,
    Drain,
    Send(Request),
    Reach(Request),
    Renewed(u64, Option<ClusterRows>),
    ClaimOver { shard: ShardId, number: u64, epoch: Option<Epoch> },
    GivenUp(ShardId),
    Commit { shard: ShardId, epoch: Epoch },
}

/// Nodes and their database.
#[derive(Debug)]
pub struct Cluster {
    config: ClusterConfig,
    /// The faults from now on.
    pub faults: Faults,
    now: u64,
    database: Database,
    /// The database does not answer until this time.
    away_until: u64,
    processes: BTreeMap<NodeId, Process>,
    queue: BTreeMap<(u64, u64), (NodeId, SimEvent)>,
    next_number: u64,
    chance: fastrand::Rng,
    /// The nodes that serve each shard.
    served: Vec<BTreeSet<NodeId>>,
    /// Since when no node serves each shard.
    unserved_since: Vec<Option<u64>>,
    gap_ms: u64,
    claims_at_once: usize,
    is_changed: bool,
    counts: Counts,
    broken: Vec<String>,
}

impl Cluster {
    /// Creates a database without nodes.
    pub fn new(seed: u64, config: ClusterConfig) -> Cluster {
        Cluster {
            config,
            faults: Faults::default(),
            now: 0,
            database: Database::new(&config),
            away_until: 0,
            processes: BTreeMap::new(),
            queue: BTreeMap::new(),
            next_number: 0,
            chance: fastrand::Rng::with_seed(seed),
            served: vec![BTreeSet::new(); config.shards as usize],
            unserved_since: vec![None; config.shards as usize],
            gap_ms: 0,
            claims_at_once: 0,
            is_changed: false,
            counts: Counts::default(),
            broken: Vec::new(),
        }
    }

    /// Milliseconds since the start.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The counters so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The violations so far.
    pub fn broken(&self) -> &[String] {
        &self.broken
    }

    /// The nodes that run or are paused.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.processes.keys().copied().collect()
    }

    /// How many shards each node serves.
    pub fn loads(&self) -> Vec<usize> {
        self.processes.values().map(|process| process.serves.len()).collect()
    }

    /// The node that serves a shard, if exactly one does.
    pub fn server(&self, shard: ShardId) -> Option<NodeId> {
        let served = &self.served[shard.0 as usize];
        served.first().copied().filter(|_| served.len() == 1)
    }

    /// Whether every shard is served.
    pub fn is_served(&self) -> bool {
        self.served.iter().all(|nodes| !nodes.is_empty())
    }

    /// Whether every shard is served by its holder, and that holder is the target of all nodes.
    pub fn is_settled(&self) -> bool {
        (0..self.config.shards).map(ShardId).all(|shard| {
            let held = self.database.held(shard);
            let server = self.server(shard);
            let epoch = server.and_then(|node| self.processes[&node].machine.serves(shard));
            let mut processes = self.processes.values();
            server.is_some()
                && held.node == server
                && epoch == Some(held.epoch)
                && processes.all(|process| process.machine.target(shard) == server)
        })
    }

    /// The longest time for which a shard was not served, since the last call.
    pub fn take_gap_ms(&mut self) -> u64 {
        std::mem::take(&mut self.gap_ms)
    }

    /// The maximum number of claims with a connection at the same time, since the last call.
    pub fn take_claims_at_once(&mut self) -> usize {
        std::mem::take(&mut self.claims_at_once)
    }

    /// Starts a process.
    pub fn start(&mut self) -> NodeId {
        let node = NodeId(self.chance.u64(..) >> 1);
        let process = Process::new(node, self.config.lease_ms, &mut self.chance);
        self.processes.insert(node, process);
        self.handle(node, OwnershipEvent::Time);
        node
    }

    /// Ends a process without notice. Its requests in flight still arrive.
    pub fn kill(&mut self, node: NodeId) {
        let Some(process) = self.processes.remove(&node) else { return };
        for shard in process.serves.into_keys() {
            self.unserve(node, shard);
        }
    }

    /// Pauses a process for a time, as SIGSTOP does.
    pub fn pause(&mut self, node: NodeId, for_ms: u64) {
        let until = self.now + for_ms;
        if let Some(process) = self.processes.get_mut(&node) {
            process.stopped_until = until;
            process.wakes_at = Some(until);
            self.push(until, node, SimEvent::Wake);
        }
    }

    /// Asks a process to drain.
    pub fn drain(&mut self, node: NodeId) {
        self.push(self.now, node, SimEvent::Drain);
    }

    /// An operator marks a node as drained, or allows it to serve shards again.
    pub fn hold_back(&mut self, node: NodeId, is_held_back: bool) {
        self.database.drain(node, is_held_back);
    }

    /// An operator pins a shard to a node, or removes the pin.
    pub fn put(&mut self, shard: ShardId, node: Option<NodeId>) {
        self.database.put(shard, node);
    }

    /// Makes the database unavailable for a time.
    pub fn lose_database(&mut self, for_ms: u64) {
        self.away_until = self.now + for_ms;
    }

    /// Sets the clock of the database ahead of the true time.
    pub fn set_clock_ahead(&mut self, ahead_ms: u64) {
        self.database.ahead_ms = ahead_ms;
    }

    /// Runs until `until`, or until `is_so` holds.
    pub fn run(&mut self, until: u64, is_so: impl Fn(&Cluster) -> bool) {
        self.is_changed = true;
        // Most events are commits that change nothing.
        while !(std::mem::take(&mut self.is_changed) && is_so(self)) {
            let next = self.queue.first_key_value().map(|(key, _)| *key);
            let Some(key) = next.filter(|(at, _)| *at <= until) else {
                self.now = self.now.max(until);
                return;
            };
            let (node, happening) = self.queue.remove(&key).expect("its key was just read");
            self.now = key.0;
            self.happen(node, happening);
        }
    }

    fn push(&mut self, at: u64, node: NodeId, happening: SimEvent) {
        self.next_number += 1;
        self.queue.insert((at, self.next_number), (node, happening));
    }

    fn happen(&mut self, node: NodeId, happening: SimEvent) {
        if let SimEvent::Reach(request) = happening {
            if self.away_until <= self.now {
                self.reach(node, request);
            } else {
                self.miss(node, request);
            }
            return;
        }
        let Some(process) = self.processes.get_mut(&node) else { return };
        if process.stopped_until > self.now {
            let until = process.stopped_until;
            self.push(until, node, happening);
            return;
        }
        match happening {
            SimEvent::Reach(_) => unreachable!("it happens in the database"),
            SimEvent::Wake => {
                if process.wakes_at == Some(self.now) {
                    self.handle(node, OwnershipEvent::Time);
                }
            }
            SimEvent::Drain => self.handle(node, OwnershipEvent::Drain),
            SimEvent::Send(request) => self.send(node, request),
            SimEvent::Renewed(number, view) => {
                if process.renewal == Some(number) {
                    process.renewal = None;
                    self.handle(
                        node,
                        view.map_or(OwnershipEvent::RenewFailed, OwnershipEvent::Renewed),
                    );
                }
            }
            SimEvent::ClaimOver { shard, number, epoch } => {
                self.claim_over(node, shard, number, epoch);
            }
            SimEvent::GivenUp(shard) => self.handle(node, OwnershipEvent::GivenUp(shard)),
            SimEvent::Commit { shard, epoch } => self.commit(node, shard, epoch),
        }
    }

    /// Passes an event to the state machine of a node and performs its actions.
    fn handle(&mut self, node: NodeId, event: OwnershipEvent) {
        let Some(process) = self.processes.get_mut(&node) else { return };
        self.is_changed = true;
        let actions = process.apply(self.now, event);
        for action in actions {
            self.perform(node, action);
        }
        let Some(process) = self.processes.get_mut(&node) else { return };
        let wakes_at = process.next_deadline();
        if process.wakes_at != wakes_at {
            process.wakes_at = wakes_at;
            if let Some(at) = wakes_at {
                self.push(at, node, SimEvent::Wake);
            }
        }
    }

    fn perform(&mut self, node: NodeId, action: OwnershipAction) {
        self.next_number += 1;
        let number = self.next_number;
        self.counts.actions += u64::from(!matches!(action, OwnershipAction::Renew { .. }));
        let soon = self.now + self.chance.u64(0..=1);
        let Some(process) = self.processes.get_mut(&node) else { return };
        match action {
            OwnershipAction::Renew { draining } => {
                self.counts.renewals += 1;
                process.renewal = Some(number);
                let waits_until = self.now + RENEW_TIMEOUT_MS;
                self.push(soon, node, SimEvent::Send(Request::Renew { draining, number }));
                self.push(waits_until, node, SimEvent::Renewed(number, None));
            }
            OwnershipAction::Claim { shard, epoch } => {
                self.counts.claims += 1;
                process.claims.insert(shard, number);
                process.queue.push_back((shard, epoch, number));
                self.connect(node);
            }
            OwnershipAction::GiveUp { shard, epoch } => {
                // Decided batches are committed first.
                let stopped = self.now + self.chance.u64(1..20);
                self.push(stopped, node, SimEvent::Send(Request::GiveUp { shard, epoch }));
            }
            OwnershipAction::Abandon(shard) => {
                self.counts.abandoned += 1;
                let claim = process.claims.get(&shard).copied();
                self.unserve(node, shard);
                // Sometimes the reply to a claim is already in flight and cannot be cancelled.
                if let Some(number) = claim.filter(|_| self.chance.bool()) {
                    self.push(soon, node, SimEvent::ClaimOver { shard, number, epoch: None });
                }
            }
            OwnershipAction::Leave => {
                self.push(soon, node, SimEvent::Reach(Request::Leave));
                self.kill(node);
            }
        }
    }

    /// Starts queued claims while connections are free.
    fn connect(&mut self, node: NodeId) {
        let Some(process) = self.processes.get_mut(&node) else { return };
        while process.connected.len() < self.config.connections
            && let Some((shard, epoch, number)) = process.queue.pop_front()
        {
            process.connected.insert(number);
            self.next_number += 1;
            let send = SimEvent::Send(Request::Claim { shard, epoch, number });
            self.queue.insert((self.now, self.next_number), (node, send));
        }
        let at_once = self.processes.values().map(|process| process.connected.len()).sum();
        self.claims_at_once = self.claims_at_once.max(at_once);
    }

    fn send(&mut self, node: NodeId, request: Request) {
        if let Request::GiveUp { shard, .. } = request {
            self.unserve(node, shard);
        }
        if self.is_hit(self.faults.requests) {
            self.miss(node, request);
        } else {
            let arrives = self.now + self.travel_ms();
            self.push(arrives, node, SimEvent::Reach(request));
        }
    }

    /// A request that does not reach the database, or whose reply is lost, fails after a while.
    fn miss(&mut self, node: NodeId, request: Request) {
        let noticed = self.now + 1_000;
        match request {
            // Renewals have their own timeout.
            Request::Renew { .. } | Request::Leave => {}
            Request::Claim { shard, number, .. } => {
                self.push(noticed, node, SimEvent::ClaimOver { shard, number, epoch: None });
            }
            Request::GiveUp { shard, .. } => self.push(noticed, node, SimEvent::GivenUp(shard)),
        }
    }

    fn reach(&mut self, node: NodeId, request: Request) {
        let back = self.now + self.travel_ms();
        let (at, answer) = match request {
            Request::Renew { draining, number } => {
                let view = self.database.renew(self.now, node, draining);
                let serves = self.processes.get(&node).map(|process| process.serves.clone());
                for shard in serves.unwrap_or_default().into_keys() {
                    self.check_single_server(shard);
                }
                (back, SimEvent::Renewed(number, Some(view)))
            }
            Request::Claim { shard, epoch, number } => {
                let epoch = self.database.claim(node, shard, epoch);
                self.counts.refused += u64::from(epoch.is_none());
                let done = epoch.map_or(self.now, |_| self.database.work(self.now));
                let travel_ms = back - self.now;
                (done + travel_ms, SimEvent::ClaimOver { shard, number, epoch })
            }
            Request::GiveUp { shard, epoch } => {
                self.database.give_up(shard, epoch);
                (back, SimEvent::GivenUp(shard))
            }
            Request::Leave => return self.database.leave(node),
        };
        if self.is_hit(self.faults.answers) {
            self.miss(node, request);
        } else {
            self.push(at, node, answer);
        }
    }

    fn claim_over(&mut self, node: NodeId, shard: ShardId, number: u64, epoch: Option<Epoch>) {
        let Some(process) = self.processes.get_mut(&node) else { return };
        process.connected.remove(&number);
        process.queue.retain(|(_, _, waiting)| *waiting != number);
        if process.claims.get(&shard) == Some(&number) {
            process.claims.remove(&shard);
            let claimed = |epoch| OwnershipEvent::Claimed { shard, epoch };
            self.handle(node, epoch.map_or(OwnershipEvent::ClaimFailed(shard), claimed));
            let process = self.processes.get(&node);
            let serves = process.and_then(|process| process.machine.serves(shard));
            if let Some(epoch) = epoch.filter(|epoch| serves == Some(*epoch)) {
                self.serve(node, shard, epoch);
            }
        }
        self.connect(node);
    }

    fn serve(&mut self, node: NodeId, shard: ShardId, epoch: Epoch) {
        let Some(process) = self.processes.get_mut(&node) else { return };
        self.is_changed = true;
        process.serves.insert(shard, epoch);
        self.served[shard.0 as usize].insert(node);
        if let Some(since) = self.unserved_since[shard.0 as usize].take() {
            self.gap_ms = self.gap_ms.max(self.now - since);
        }
        self.check_single_server(shard);
        let commits_at = self.now + self.chance.u64(1..1_000);
        self.push(commits_at, node, SimEvent::Commit { shard, epoch });
    }

    fn unserve(&mut self, node: NodeId, shard: ShardId) {
        self.is_changed = true;
        if let Some(process) = self.processes.get_mut(&node) {
            process.serves.remove(&shard);
        }
        let served = &mut self.served[shard.0 as usize];
        if served.remove(&node) && served.is_empty() {
            self.unserved_since[shard.0 as usize] = Some(self.now);
        }
    }

    fn commit(&mut self, node: NodeId, shard: ShardId, epoch: Epoch) {
        if self.processes[&node].serves.get(&shard) != Some(&epoch) {
            return;
        }
        let is_over = self.database.held(shard).epoch != epoch;
        let fails = is_over || self.is_hit(self.faults.commits);
        if fails {
            self.counts.fenced += u64::from(is_over);
            // A commit out of order is rejected even if the ownership is current.
            let fenced = is_over || self.chance.bool();
            self.unserve(node, shard);
            self.handle(node, OwnershipEvent::Lost { shard, epoch, fenced });
        } else {
            let again_at = self.now + self.chance.u64(500..1_500);
            self.push(again_at, node, SimEvent::Commit { shard, epoch });
        }
    }

    /// Records a violation if two nodes that are alive serve the same shard.
    fn check_single_server(&mut self, shard: ShardId) {
        let served = self.served[shard.0 as usize].iter();
        let alive: Vec<NodeId> =
            served.filter(|node| self.database.is_alive(self.now, **node)).copied().collect();
        if alive.len() > 1 {
            self.broken.push(format!("{} ms: shard {shard} is served by {alive:?}", self.now));
        }
    }

    fn is_hit(&mut self, of_1_000: u32) -> bool {
        self.chance.u32(0..1_000) < of_1_000
    }

    fn travel_ms(&mut self) -> u64 {
        let longest = if self.is_hit(self.faults.late) { 3_000 } else { 2 };
        self.chance.u64(0..=longest)
    }
}
