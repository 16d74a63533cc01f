//! A cluster: many nodes, each with the machine of the core that decides which shards it serves, and one
//! database that shows them to each other. There are no queues in it: a shard is only served or not.
//!
//! 1. Requests and answers are late and get lost, processes are stopped and killed, their clocks run apart,
//!    the database goes away; all from one seed.
//! 2. Whenever a node begins to serve a shard or is renewed, no other node that is alive by the database's
//!    clock may serve the same one. What breaks that is in [`Cluster::broken`].

mod cluster_config;
pub(crate) mod database;
pub(crate) mod process;

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::ownership::{Action, Event, RENEW_WAIT_MS, Shown};
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
    Renewed(u64, Option<Shown>),
    ClaimOver { shard: ShardId, number: u64, epoch: Option<Epoch> },
    GivenUp(ShardId),
    Commit { shard: ShardId, epoch: Epoch },
}

/// Nodes and their database.
#[derive(Debug)]
pub struct Cluster {
    config: ClusterConfig,
    /// What goes wrong from now on.
    pub faults: Faults,
    now: u64,
    database: Database,
    /// The database answers nobody until then.
    away_until: u64,
    processes: BTreeMap<NodeId, Process>,
    queue: BTreeMap<(u64, u64), (NodeId, SimEvent)>,
    next_number: u64,
    chance: fastrand::Rng,
    /// Who serves each shard.
    served: Vec<BTreeSet<NodeId>>,
    /// Since when nobody does.
    unserved_since: Vec<Option<u64>>,
    gap_ms: u64,
    claims_at_once: usize,
    is_changed: bool,
    counts: Counts,
    broken: Vec<String>,
}

impl Cluster {
    /// A database without nodes.
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

    /// Milliseconds since the beginning.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What should not have happened.
    pub fn broken(&self) -> &[String] {
        &self.broken
    }

    /// The nodes that run, or are stopped by a signal.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.processes.keys().copied().collect()
    }

    /// How many shards each node serves.
    pub fn loads(&self) -> Vec<usize> {
        self.processes.values().map(|process| process.serves.len()).collect()
    }

    /// Who serves a shard, if exactly one node does.
    pub fn server(&self, shard: ShardId) -> Option<NodeId> {
        let served = &self.served[shard.0 as usize];
        served.first().copied().filter(|_| served.len() == 1)
    }

    /// Whether every shard is served.
    pub fn is_served(&self) -> bool {
        self.served.iter().all(|nodes| !nodes.is_empty())
    }

    /// Whether every shard is served by the one node that holds it and that all nodes wish it for.
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

    /// The longest time for which nobody has served some shard, since this was last asked.
    pub fn take_gap_ms(&mut self) -> u64 {
        std::mem::take(&mut self.gap_ms)
    }

    /// The most claims that had a connection at the same time, since this was last asked.
    pub fn take_claims_at_once(&mut self) -> usize {
        std::mem::take(&mut self.claims_at_once)
    }

    /// Starts a process.
    pub fn start(&mut self) -> NodeId {
        let node = NodeId(self.chance.u64(..) >> 1);
        let process = Process::new(node, self.config.lease_ms, &mut self.chance);
        self.processes.insert(node, process);
        self.tell(node, Event::Time);
        node
    }

    /// Ends a process without a word. What it has sent is on its way.
    pub fn kill(&mut self, node: NodeId) {
        let Some(process) = self.processes.remove(&node) else { return };
        for shard in process.serves.into_keys() {
            self.unserve(node, shard);
        }
    }

    /// Stops a process by a signal, and lets it go on later.
    pub fn pause(&mut self, node: NodeId, for_ms: u64) {
        let until = self.now + for_ms;
        if let Some(process) = self.processes.get_mut(&node) {
            process.stopped_until = until;
            process.wakes_at = Some(until);
            self.push(until, node, SimEvent::Wake);
        }
    }

    /// Asks a process to stop.
    pub fn drain(&mut self, node: NodeId) {
        self.push(self.now, node, SimEvent::Drain);
    }

    /// A person says that a node should take no shards, or that it may again.
    pub fn hold_back(&mut self, node: NodeId, is_held_back: bool) {
        self.database.drain(node, is_held_back);
    }

    /// A person puts a shard on a node, or lets it be spread like the others.
    pub fn put(&mut self, shard: ShardId, node: Option<NodeId>) {
        self.database.put(shard, node);
    }

    /// The database answers nobody for a while.
    pub fn lose_database(&mut self, for_ms: u64) {
        self.away_until = self.now + for_ms;
    }

    /// Sets the clock of the database so far ahead of the true one.
    pub fn set_clock_ahead(&mut self, ahead_ms: u64) {
        self.database.ahead_ms = ahead_ms;
    }

    /// Lets time pass until `until`, or until something is so.
    pub fn run(&mut self, until: u64, is_so: impl Fn(&Cluster) -> bool) {
        self.is_changed = true;
        // Most that happens is a commit that changes nothing.
        while !(std::mem::take(&mut self.is_changed) && is_so(self)) {
            let next = self.queue.first_key_value().map(|(key, _)| *key);
            let Some(key) = next.filter(|(at, _)| *at <= until) else {
                self.now = self.now.max(until);
                return;
            };
            let (node, happening) = self.queue.remove(&key).expect("it was seen there");
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
                    self.tell(node, Event::Time);
                }
            }
            SimEvent::Drain => self.tell(node, Event::Drain),
            SimEvent::Send(request) => self.send(node, request),
            SimEvent::Renewed(number, view) => {
                if process.renewal == Some(number) {
                    process.renewal = None;
                    self.tell(node, view.map_or(Event::RenewFailed, Event::Renewed));
                }
            }
            SimEvent::ClaimOver { shard, number, epoch } => {
                self.claim_over(node, shard, number, epoch);
            }
            SimEvent::GivenUp(shard) => self.tell(node, Event::GivenUp(shard)),
            SimEvent::Commit { shard, epoch } => self.commit(node, shard, epoch),
        }
    }

    /// Tells a machine something and performs what it says.
    fn tell(&mut self, node: NodeId, event: Event) {
        let Some(process) = self.processes.get_mut(&node) else { return };
        self.is_changed = true;
        let actions = process.hear(self.now, event);
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

    fn perform(&mut self, node: NodeId, action: Action) {
        self.next_number += 1;
        let number = self.next_number;
        self.counts.actions += u64::from(!matches!(action, Action::Renew { .. }));
        let soon = self.now + self.chance.u64(0..=1);
        let Some(process) = self.processes.get_mut(&node) else { return };
        match action {
            Action::Renew { draining } => {
                self.counts.renewals += 1;
                process.renewal = Some(number);
                let waits_until = self.now + RENEW_WAIT_MS;
                self.push(soon, node, SimEvent::Send(Request::Renew { draining, number }));
                self.push(waits_until, node, SimEvent::Renewed(number, None));
            }
            Action::Claim { shard, epoch } => {
                self.counts.claims += 1;
                process.claims.insert(shard, number);
                process.queue.push_back((shard, epoch, number));
                self.connect(node);
            }
            Action::GiveUp { shard, epoch } => {
                // What is decided is committed first.
                let stopped = self.now + self.chance.u64(1..20);
                self.push(stopped, node, SimEvent::Send(Request::GiveUp { shard, epoch }));
            }
            Action::Abandon(shard) => {
                self.counts.abandoned += 1;
                let claim = process.claims.get(&shard).copied();
                self.unserve(node, shard);
                // Sometimes the answer to a claim is on its way and cannot be called back.
                if let Some(number) = claim.filter(|_| self.chance.bool()) {
                    self.push(soon, node, SimEvent::ClaimOver { shard, number, epoch: None });
                }
            }
            Action::Leave => {
                self.push(soon, node, SimEvent::Reach(Request::Leave));
                self.kill(node);
            }
        }
    }

    /// Begins claims that wait, as long as there are connections.
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

    /// A request that does not reach the database, or whose answer is lost, has failed after a while.
    fn miss(&mut self, node: NodeId, request: Request) {
        let noticed = self.now + 1_000;
        match request {
            // It has a time of its own.
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
                    self.look_for_two(shard);
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
            let claimed = |epoch| Event::Claimed { shard, epoch };
            self.tell(node, epoch.map_or(Event::ClaimFailed(shard), claimed));
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
        self.look_for_two(shard);
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
            // A commit that does not follow the last one is refused under an ownership that stands.
            let fenced = is_over || self.chance.bool();
            self.unserve(node, shard);
            self.tell(node, Event::Lost { shard, epoch, fenced });
        } else {
            let again_at = self.now + self.chance.u64(500..1_500);
            self.push(again_at, node, SimEvent::Commit { shard, epoch });
        }
    }

    /// Two nodes that serve a shard while both are alive are one too many.
    fn look_for_two(&mut self, shard: ShardId) {
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
