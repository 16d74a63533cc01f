//! Several nodes on one database, in some runs. Each node performs the actions of the core's
//! ownership state machine. Its process is stopped and killed, its clock drifts, and at times it
//! cannot reach the database.
//!
//! `node` serves one shard on a node. `transactions` processes the commits in the database.

use driftq_checker::history::What;
use driftq_core::ownership::{OwnershipAction, OwnershipEvent, RENEW_TIMEOUT_MS};
use driftq_core::{ConsumerId, Epoch, NodeId, ShardId, Ticket, Timestamp};
use driftq_storage::conformance::wait;
use driftq_storage::{Engine, Ownership, RecoverError, read_back};

use crate::cluster::process::Process;
use crate::plan::HEAL_AT_MS;
use crate::world::{CallReply, Host, HostEvent, ProcessClock, Request, SimEvent, World};

/// How long a claim waits before it retries when a commit is in progress.
pub(crate) const LOCK_LOOK_MS: u64 = 3;

impl World {
    pub(crate) fn start_hosts(&mut self) {
        for _ in 0..self.hosts.wanted {
            self.start_host();
        }
    }

    pub(crate) fn start_host(&mut self) {
        let id = NodeId(self.rng.u64(..) >> 1);
        let process = Process::new(id, self.hosts.lease_ms, &mut self.rng);
        // Each process runs on its own machine.
        let boot_ms = process.clock.at(self.now);
        let clock = ProcessClock::new(&id.0.to_string(), boot_ms, &self.clocks.stored);
        self.hosts
            .list
            .insert(id, Host { process, clock, hears_at: 0, cut_until: 0, is_cut_in_part: false });
        self.notify_host(id, OwnershipEvent::Time);
    }

    /// Returns a random running node.
    pub(crate) fn some_host(&mut self) -> Option<NodeId> {
        let ids: Vec<NodeId> = self.hosts.list.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[self.rng.usize(0..ids.len())])
    }

    /// The life of a shard on a node.
    pub(crate) fn life_at(&self, host: NodeId, shard: ShardId) -> Option<u64> {
        let lives = self.nodes[shard.0 as usize].iter();
        lives.rev().find(|node| node.host == Some(host)).map(|node| node.life)
    }

    pub(crate) fn host_event(&mut self, id: NodeId, event: HostEvent) {
        match event {
            HostEvent::Ask(request) => self.ask_database(id, request),
            HostEvent::Wake => {
                let wakes_at = self.hosts.get(id).and_then(|host| host.process.wakes_at);
                if wakes_at.is_some_and(|at| at <= self.now) {
                    self.notify_host(id, OwnershipEvent::Time);
                }
            }
            HostEvent::Renewed(number, shown) => {
                let Some(host) = self.hosts.list.get_mut(&id) else { return };
                if host.process.renewal == Some(number) {
                    host.process.renewal = None;
                    if let Some(shown) = &shown {
                        self.believe(Some(id), shown.at);
                        self.look_at_clock(Some(id));
                    }
                    let failed = OwnershipEvent::RenewFailed;
                    self.notify_host(
                        id,
                        shown.map_or(failed, |shown| OwnershipEvent::Renewed(*shown)),
                    );
                }
            }
            HostEvent::ClaimOver { shard, claimed } => self.claim_over(id, shard, claimed),
            HostEvent::GivenUp(shard) => self.notify_host(id, OwnershipEvent::GivenUp(shard)),
        }
    }

    /// Passes an event to the state machine of a node and performs its actions.
    pub(crate) fn notify_host(&mut self, id: NodeId, event: OwnershipEvent) {
        let now = self.now;
        let Some(host) = self.hosts.list.get_mut(&id) else { return };
        for action in host.process.apply(now, event) {
            self.perform_for(id, action);
        }
        let Some(host) = self.hosts.list.get_mut(&id) else { return };
        let wakes_at = host.process.next_deadline();
        if host.process.wakes_at != wakes_at {
            host.process.wakes_at = wakes_at;
            if let Some(at) = wakes_at {
                self.later(at.saturating_sub(now), SimEvent::Host(id, HostEvent::Wake));
            }
        }
    }

    fn perform_for(&mut self, id: NodeId, action: OwnershipAction) {
        let Some(host) = self.hosts.list.get_mut(&id) else { return };
        match action {
            OwnershipAction::Renew { draining } => {
                self.hosts.next_number += 1;
                let number = self.hosts.next_number;
                host.process.renewal = Some(number);
                self.send_to_database(id, Request::Renew { draining, number });
                let failed = SimEvent::Host(id, HostEvent::Renewed(number, None));
                self.later(RENEW_TIMEOUT_MS, failed);
            }
            OwnershipAction::Claim { shard, epoch } => {
                self.send_to_database(id, Request::Claim { shard, epoch });
            }
            OwnershipAction::GiveUp { shard, epoch } => {
                let life = self.life_at(id, shard);
                match life.and_then(|life| self.alive(life)) {
                    Some(node) => {
                        node.is_ending = true;
                        self.end_if_idle(life.expect("the node was found by its life"));
                    }
                    None => self.send_to_database(id, Request::GiveUp { shard, epoch }),
                }
            }
            OwnershipAction::Abandon(shard) => {
                let Some(life) = self.life_at(id, shard) else { return };
                self.stats.saw("node stepped down");
                if let Some(node) = self.drop_life(life).filter(|node| node.is_ending) {
                    let epoch = node.ownership.epoch;
                    self.send_to_database(id, Request::GiveUp { shard, epoch });
                }
            }
            OwnershipAction::Leave => {
                self.send_to_database(id, Request::Leave);
                self.end_host(id);
            }
        }
    }

    /// Ends a shard that is given up once its decided batches are durable.
    pub(crate) fn end_if_idle(&mut self, life: u64) {
        let Some(node) = self.alive(life).filter(|node| node.is_ending) else { return };
        if node.pipeline.commits_in_flight() > 0 {
            return;
        }
        let (host, shard, epoch) = (node.host, node.shard, node.ownership.epoch);
        self.stats.saw("shard given up");
        self.drop_life(life);
        if let Some(id) = host {
            self.send_to_database(id, Request::GiveUp { shard, epoch });
        }
    }

    pub(crate) fn send_to_database(&mut self, id: NodeId, request: Request) {
        let delay = self.delay(2);
        self.later(delay, SimEvent::Host(id, HostEvent::Ask(request)));
    }

    /// A request of a node reaches the database, or not.
    fn ask_database(&mut self, id: NodeId, request: Request) {
        let now = self.now;
        let host = self.hosts.list.get(&id);
        let is_cut = host.is_some_and(|host| host.cut_until > now);
        match request {
            Request::Renew { draining, number } => {
                // Replies to the renewals that get through are late.
                if is_cut && self.rng.u32(0..4) != 0 {
                    return;
                }
                let back = if is_cut { self.rng.u64(500..RENEW_TIMEOUT_MS) } else { self.delay(2) };
                let authority = self.authority_now().0;
                let shown = self.hosts.database().renew(authority, id, draining);
                let lease_ms = self.hosts.lease_ms;
                self.record(0, What::Renewed { node: id.0, lease_ms });
                let renewed = HostEvent::Renewed(number, Some(Box::new(shown)));
                self.later(back, SimEvent::Host(id, renewed));
            }
            Request::Claim { shard, epoch } => {
                let claimed = if self.hosts.is_cut(id, now) {
                    None
                } else {
                    match self.claim(id, shard, epoch) {
                        Ok(claimed) => claimed,
                        Err(Locked) => {
                            self.stats.saw("claim waited for a commit");
                            let again = SimEvent::Host(id, HostEvent::Ask(request));
                            return self.later(LOCK_LOOK_MS, again);
                        }
                    }
                };
                let is_unheard = claimed.is_some() && self.rng.u32(0..30) == 0;
                if is_unheard {
                    self.stats.saw("claim that happened and was not heard of");
                }
                // The shard is loaded after the claim.
                let took = self.rng.u64(5..300);
                let claimed = claimed.filter(|_| !is_unheard);
                self.later(took, SimEvent::Host(id, HostEvent::ClaimOver { shard, claimed }));
            }
            Request::GiveUp { shard, epoch } => {
                if !self.hosts.is_cut(id, now) {
                    self.hosts.database().give_up(shard, epoch);
                }
                let delay = self.delay(2);
                self.later(delay, SimEvent::Host(id, HostEvent::GivenUp(shard)));
            }
            Request::Leave => self.hosts.database().leave(id),
        }
    }

    /// The database grants a claim if the epoch of the shard is still the named one.
    fn claim(
        &mut self,
        id: NodeId,
        shard: ShardId,
        epoch: Epoch,
    ) -> Result<Option<(Ownership, Timestamp)>, Locked> {
        let held = self.hosts.database().held(shard);
        if held.epoch != epoch {
            self.stats.saw("claim refused: another was quicker");
            return Ok(None);
        }
        let (ownership, authority) = wait(self.engine.claim(shard)).map_err(|_| Locked)?;
        self.hosts.database().hold(id, shard, ownership.epoch);
        self.record(0, What::Claimed { node: id.0, shard: shard.0, epoch: ownership.epoch.0 });
        if held.node.is_some_and(|node| node != id) {
            self.stats.saw("shard taken over from another node");
            let mut former = self.nodes[shard.0 as usize].iter();
            if former.any(|node| !node.under_way.is_empty()) {
                self.stats.saw("shard taken over with a commit on its way");
            }
        }
        Ok(Some((ownership, authority)))
    }

    fn claim_over(&mut self, id: NodeId, shard: ShardId, claimed: Option<(Ownership, Timestamp)>) {
        if self.hosts.get(id).is_none() {
            return;
        }
        let recovered = claimed.map(|(ownership, authority)| {
            let read = wait(read_back(&self.engine, ownership, self.shard_config(shard)));
            (ownership, authority, read)
        });
        let (ownership, authority, recovered) = match recovered {
            Some((ownership, authority, Ok(recovered))) => (ownership, authority, recovered),
            Some((_, _, Err(RecoverError::Damaged(damaged)))) => {
                self.found_damage(shard, &damaged);
                return self.notify_host(id, OwnershipEvent::ClaimFailed(shard));
            }
            Some((_, _, Err(RecoverError::Engine(_)))) | None => {
                return self.notify_host(id, OwnershipEvent::ClaimFailed(shard));
            }
        };
        let epoch = ownership.epoch;
        self.notify_host(id, OwnershipEvent::Claimed { shard, epoch });
        if self.hosts.serves(id, shard, epoch) {
            self.serve(Some(id), ownership, authority, recovered);
        }
    }

    /// Kills a process. Its commits in flight take effect or not.
    pub(crate) fn kill_host(&mut self, id: NodeId) {
        let nodes = self.nodes.iter().flatten().filter(|node| node.host == Some(id));
        for life in nodes.map(|node| node.life).collect::<Vec<u64>>() {
            self.lose_commits(life);
            self.drop_life(life);
        }
        self.end_host(id);
    }

    /// Closes the connections to a process. Another process replaces it.
    fn end_host(&mut self, id: NodeId) {
        self.hosts.list.remove(&id);
        let passing = self.hosts.passing.iter().filter(|(_, passing)| passing.entry == id);
        for ticket in passing.map(|(ticket, _)| *ticket).collect::<Vec<Ticket>>() {
            self.hosts.passing.remove(&ticket);
            self.answer(ticket, CallReply::Nothing);
        }
        let connections = self.nodes.iter().flatten().flat_map(|node| &node.connections);
        let cut = connections.filter(|(_, connection)| connection.entry == Some(id));
        for consumer in cut.map(|(consumer, _)| *consumer).collect::<Vec<ConsumerId>>() {
            self.hang_up(consumer);
        }
        let delay = self.rng.u64(200..3_000);
        self.later(delay, SimEvent::HostStarts);
    }

    /// Stops a process by a signal. It later resumes its pending work.
    pub(crate) fn stop_host(&mut self, id: NodeId) {
        let now = self.now;
        if self.hosts.stopped_until(id, now).is_some() {
            return;
        }
        // Half of the pauses are long enough that other nodes take over its shards.
        let for_ms = if self.rng.bool() { 300..3_000 } else { 5_000..9_000 };
        let for_ms = self.rng.u64(for_ms).min(HEAL_AT_MS - now);
        // The order in which its tasks resume is random.
        let lag_ms = self.rng.u64(0..5);
        let Some(host) = self.hosts.list.get_mut(&id) else { return };
        host.process.stopped_until = now + for_ms;
        host.hears_at = now + for_ms + lag_ms;
        self.record(0, What::Stopped { node: id.0, until: now + for_ms });
        self.later(for_ms + lag_ms, SimEvent::Host(id, HostEvent::Wake));
        self.leave_in_doubt(id);
    }

    /// Makes the database unreachable for a node, completely or only for renewals.
    pub(crate) fn cut_host(&mut self, id: NodeId) {
        let until = self.now + self.rng.u64(1_000..7_000);
        let is_cut_in_part = self.rng.bool();
        if let Some(host) = self.hosts.list.get_mut(&id) {
            (host.cut_until, host.is_cut_in_part) = (until, is_cut_in_part);
        }
    }

    /// Asks a process to drain.
    pub(crate) fn drain_host(&mut self, id: NodeId) {
        if self.hosts.stopped_until(id, self.now).is_none() {
            self.notify_host(id, OwnershipEvent::Drain);
        }
    }
}

/// A commit is in progress.
struct Locked;
