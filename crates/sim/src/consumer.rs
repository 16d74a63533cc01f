//! The worker client: receives messages over a stream or by polling, processes and settles them. It
//! sometimes settles late, twice, never, or with an old token.

use std::collections::{BTreeMap, VecDeque};

use driftq_checker::history::{Delivery as Seen, Lease, Name, Op, Verb, What};
use driftq_core::change::Delivery;
use driftq_core::command::{
    Claim, Extend, GroupName, Join, Nack, NackKind, Peer, PeerKind, Start, TopicName,
    Worker as Process,
};
use driftq_core::{Command, ConsumerId, Rejection, Reply, ShardId, Text, Ticket};

use crate::facts::content;
use crate::world::{
    Book, Client, Held, Outcome, ReportedOutcome, SimEvent, Worker, WorkerDelivery, World,
};

/// Tokens of ended deliveries, kept for reuse.
const OLD_TOKENS: usize = 12;
/// Messages whose body is a multiple of this fail on most attempts.
const POISON: u64 = 31;

impl Worker {
    pub(crate) fn new(world: &mut World, topic: Name, group: Name, number: u32) -> Worker {
        let rng = &mut world.rng;
        // Two workers of a group may have the same name.
        let owner = format!("{group}-{}", number % 2);
        Worker {
            name: GroupName { topic: TopicName { namespace: "default".into(), topic }, group },
            owner: owner.into(),
            credit: rng.u32(1..6),
            lease_ms: (rng.u32(0..4) == 0).then(|| rng.u64(250..4_000)),
            poll_ms: (rng.u32(0..3) == 0).then(|| rng.u64(0..10_000)),
            connection: None,
            joining: None,
            work: BTreeMap::new(),
            next_work: 0,
            old: VecDeque::new(),
            acking: BTreeMap::new(),
            committing: BTreeMap::new(),
            again: BTreeMap::new(),
            book: Book::default(),
            reads_dead_letters: false,
            stays_until: None,
            process: rng.bool().then_some(0),
            restarts_at: None,
        }
    }

    /// The name of its process.
    fn process_name(&self, client: usize) -> Option<Text> {
        self.process.map(|process| format!("{client}-{process}").into())
    }

    pub(crate) fn undertaker(world: &mut World, topic: Name) -> Worker {
        let mut worker = Worker::new(world, topic, "undertaker".into(), 0);
        worker.reads_dead_letters = true;
        worker.poll_ms = None;
        worker.credit = 50;
        worker.lease_ms = Some(30_000);
        worker
    }
}

impl World {
    /// After the faults: reconnects all workers as streams with a large prefetch, so that the rest
    /// drains.
    pub(crate) fn hurry_workers(&mut self) {
        for client in &mut self.clients.list {
            if let Client::Worker(worker) = client {
                worker.poll_ms = None;
                worker.credit = 50;
            }
        }
        for consumer in self.connected() {
            self.hang_up(consumer);
        }
    }
}

/// The lease of a delivery.
pub(crate) fn lease_of(delivery: &Delivery) -> Lease {
    Lease {
        topic: delivery.topic.clone(),
        group: delivery.group.clone(),
        generation: delivery.hold.generation.0,
        partition: delivery.hold.lane.partition(),
        offset: delivery.hold.offset,
        attempt: delivery.hold.attempt,
    }
}

pub(crate) fn worker(world: &mut World, client: usize) -> &mut Worker {
    match &mut world.clients.list[client] {
        Client::Worker(worker) => worker,
        Client::Producer(_) | Client::Admin(_) | Client::Executor(_) => {
            unreachable!("client {client} is a worker")
        }
    }
}

impl World {
    pub(crate) fn wake_worker(&mut self, client: usize) {
        let now = self.now;
        let me = worker(self, client);
        if me.connection.is_some() || me.joining.is_some() {
            return;
        }
        if me.stays_until.is_some_and(|until| until <= now) {
            return;
        }
        if me.restarts_at.is_some_and(|at| at <= now) {
            me.restarts_at = None;
            me.process = me.process.map(|process| process + 1);
        }
        let has_left = me.restarts_at.is_some();
        let process =
            me.process_name(client).map(|id| Box::new(Process { id, ..Process::default() }));
        let (name, owner, credit, lease_ms) =
            (me.name.clone(), me.owner.clone(), me.credit, me.lease_ms);
        let kind = me.poll_ms.map_or(PeerKind::Stream, |_| PeerKind::Poll);
        if has_left {
            self.stats.saw("join by a worker that has left");
        }
        self.clients.next_consumer += 1;
        let consumer = ConsumerId(self.clients.next_consumer);
        self.clients.connections.insert(consumer, client);
        self.facts.credits.insert(consumer, credit);
        let start = Start::Earliest;
        let join = Join {
            consumer,
            name,
            owner,
            lease_ms,
            credit,
            credit_bytes: 1 << 20,
            start,
            peer: Peer { kind, worker: process, ..Peer::default() },
        };
        let ticket = self.call(client, Op::Look, Command::Join(join));
        let me = worker(self, client);
        me.connection = Some(consumer);
        me.joining = Some(ticket);
        if let Some(until) = me.stays_until {
            self.later(until.saturating_sub(now) + 1, SimEvent::Goes { consumer });
        }
    }

    pub(crate) fn on_worker_reply(&mut self, client: usize, ticket: Ticket, outcome: Outcome) {
        self.on_effect_reply(client, ticket, &outcome);
        if let Some(committing) = worker(self, client).committing.remove(&ticket) {
            self.on_commit_reply(client, committing, &outcome);
            return;
        }
        let me = worker(self, client);
        if let Some(taken) = me.acking.remove(&ticket)
            && let Outcome::Refused(Rejection::Unfinished(_)) = outcome
        {
            self.has_unfinished_effects(client, &taken);
            return;
        }
        if me.joining != Some(ticket) {
            return;
        }
        me.joining = None;
        if !matches!(outcome, Outcome::Done(Reply::Joined { .. })) {
            if let Some(consumer) = me.connection.take() {
                self.clients.connections.remove(&consumer);
                // A join whose reply was lost may have succeeded.
                self.hang_up(consumer);
            }
            let delay = self.rng.u64(50..1_000);
            self.later(delay, SimEvent::Wake { client });
        }
    }

    pub(crate) fn worker_lost_connection(&mut self, client: usize, consumer: ConsumerId) {
        let me = worker(self, client);
        if me.connection == Some(consumer) {
            me.connection = None;
            me.joining = None;
        }
        let delay = self.rng.u64(1..400);
        self.later(delay, SimEvent::Wake { client });
    }

    pub(crate) fn worker_gets(&mut self, client: usize, delivery: Box<Delivery>) {
        let me = worker(self, client);
        let lease = lease_of(&delivery);
        let message = content(&delivery.message);
        let taken = WorkerDelivery {
            lease: lease.clone(),
            token: delivery.token.clone(),
            body: message.body,
            lease_ms: u64::from(delivery.lease_ms),
            extended: false,
            tenant: message.tenant.clone(),
            ends: Vec::new(),
        };
        me.next_work += 1;
        let work = me.next_work;
        let lease_ms = taken.lease_ms;
        me.work.insert(work, taken);
        let reads_dead_letters = me.reads_dead_letters;
        let seen = Seen {
            lease: lease.clone(),
            id: delivery.id.to_string().into(),
            spent: delivery.spent,
            message,
        };
        self.record(client as u32 + 1, What::Delivered(seen));
        if reads_dead_letters {
            self.write_down(&delivery);
        } else {
            self.begin_for_delivery(client, work, &lease, &delivery);
        }
        let duration = match self.rng.u32(0..100) {
            _ if self.clients.is_healed => self.rng.u64(1..40),
            0..5 => lease_ms + self.rng.u64(0..lease_ms * 2),
            5..12 => self.rng.u64(0..lease_ms),
            _ => self.rng.u64(1..400),
        };
        self.later(duration, SimEvent::Worked { client, work });
    }

    pub(crate) fn worked(&mut self, client: usize, work: u64) {
        if let Some(committing) = worker(self, client).again.remove(&work) {
            self.send_commit(client, committing);
            return;
        }
        let Some(taken) = worker(self, client).work.remove(&work) else {
            return;
        };
        let now = self.now;
        if self.rng.u32(0..200) == 0 && !self.clients.is_healed {
            self.leave(client);
        }
        if let Some(until) = worker(self, client).stays_until {
            if until <= now + 2_000 {
                return;
            }
            if self.rng.u32(0..6) == 0 {
                // The message stays open, and no consumer settles it.
                let delay_ms = Some(600_000);
                self.settle(client, &taken, Verb::Nack { delay_ms }, false);
                return;
            }
        }
        if !taken.ends.is_empty() {
            self.commit(client, &taken);
            self.show_an_old_token(client, taken);
            return;
        }
        if self.clients.is_healed || worker(self, client).reads_dead_letters {
            self.settle(client, &taken, Verb::Ack, false);
            return;
        }
        if taken.body % POISON == 0 && self.rng.u32(0..8) != 0 {
            self.settle(client, &taken, Verb::Nack { delay_ms: None }, false);
            return;
        }
        match self.rng.u32(0..100) {
            0..4 => self.settle(client, &taken, Verb::Nack { delay_ms: None }, false),
            4..6 => {
                let delay_ms = Some(self.rng.u64(0..2_000));
                self.settle(client, &taken, Verb::Nack { delay_ms }, false);
            }
            6..8 => self.settle(client, &taken, Verb::Final, false),
            8..12 => {
                let delay_ms = self.rng.u64(0..3) * 300;
                self.settle(client, &taken, Verb::Release { delay_ms }, false);
            }
            // The worker dies.
            12..15 => {}
            15..20 if !taken.extended => {
                let lease_ms = self.rng.u64(250..6_000);
                self.settle(client, &taken, Verb::Extend { lease_ms }, false);
                let me = worker(self, client);
                me.next_work += 1;
                let work = me.next_work;
                me.work.insert(work, WorkerDelivery { extended: true, ..taken });
                let duration = self.rng.u64(1..2_000);
                self.later(duration, SimEvent::Worked { client, work });
                return;
            }
            20..24 => self.settle(client, &taken, Verb::Ack, true),
            24..30 => {
                self.settle(client, &taken, Verb::Ack, false);
                self.settle(client, &taken, Verb::Ack, false);
            }
            30..42 => self.commit(client, &taken),
            _ => self.settle(client, &taken, Verb::Ack, false),
        }
        self.show_an_old_token(client, taken);
    }

    /// The process of a worker is about to end: it tells every shard. It goes on with what it has.
    fn leave(&mut self, client: usize) {
        let restarts_at = self.now + self.rng.u64(0..10_000);
        let me = worker(self, client);
        let Some(worker) = me.process_name(client).filter(|_| me.restarts_at.is_none()) else {
            return;
        };
        me.restarts_at = Some(restarts_at);
        for shard in (0..self.nodes.len() as u32).map(ShardId) {
            let command = Command::LeaveWorker { worker: worker.clone() };
            let ticket = self.call(client, Op::Look, command);
            self.clients.leaves.insert(ticket, shard);
        }
        self.stats.saw("worker left");
    }

    /// Returns a number for a task of a worker.
    pub(crate) fn new_work(&mut self, client: usize) -> u64 {
        let me = worker(self, client);
        me.next_work += 1;
        me.next_work
    }

    /// Leaves the finish of an effect to the commit of its delivery, if the worker still has it.
    pub(crate) fn leave_to_commit(
        &mut self,
        client: usize,
        work: u64,
        held: &Held,
        said: &ReportedOutcome,
    ) -> bool {
        let taken = worker(self, client).work.get_mut(&work);
        taken.map(|taken| taken.ends.push((held.clone(), said.clone()))).is_some()
    }

    /// Takes a delivery away from a worker, if it still has it.
    pub(crate) fn stop_work(&mut self, client: usize, work: u64) -> Option<WorkerDelivery> {
        worker(self, client).work.remove(&work)
    }

    /// Handles an ack that was rejected because of unfinished effects.
    pub(crate) fn has_unfinished_effects(&mut self, client: usize, taken: &WorkerDelivery) {
        let verb = match self.rng.u32(0..10) {
            // No client will finish the effects any more.
            _ if self.clients.is_healed => Verb::Final,
            0..5 => Verb::Nack { delay_ms: None },
            5..7 => Verb::Release { delay_ms: 300 },
            7 => Verb::Final,
            // By then another client may have finished them.
            8 => Verb::Ack,
            _ => return,
        };
        self.settle(client, taken, verb, false);
    }

    fn show_an_old_token(&mut self, client: usize, taken: WorkerDelivery) {
        let me = worker(self, client);
        me.old.push_back(taken);
        if me.old.len() > OLD_TOKENS {
            me.old.pop_front();
        }
        if self.rng.u32(0..10) == 0 {
            let known = worker(self, client).old.len();
            let index = self.rng.usize(0..known);
            let old = worker(self, client).old[index].clone();
            let verb = match self.rng.u32(0..5) {
                0 => Verb::Nack { delay_ms: None },
                1 => Verb::Extend { lease_ms: 1_000 },
                2 => Verb::Final,
                _ => Verb::Ack,
            };
            self.settle(client, &old, verb, false);
        }
    }

    pub(crate) fn settle(
        &mut self,
        client: usize,
        taken: &WorkerDelivery,
        verb: Verb,
        by_owner: bool,
    ) {
        let me = worker(self, client);
        let claim = if !by_owner {
            Claim::Token(taken.token.clone(), None)
        } else {
            Claim::Owner {
                name: me.name.clone(),
                partition: taken.lease.partition,
                offset: taken.lease.offset,
                owner: me.owner.clone(),
            }
        };
        let reason: Option<Text> = self.rng.bool().then(|| "it broke".into());
        let nack =
            |kind, delay_ms| Command::Nack(Nack { claim: claim.clone(), reason, delay_ms, kind });
        let command = match verb {
            Verb::Ack => Command::Ack(claim),
            Verb::Nack { delay_ms } => nack(NackKind::Failed, delay_ms),
            Verb::Final => nack(NackKind::Final, None),
            Verb::Release { delay_ms } => nack(NackKind::Release, Some(delay_ms)),
            Verb::Extend { lease_ms } => {
                Command::Extend(Extend { claim, lease_ms: Some(lease_ms) })
            }
        };
        if matches!(verb, Verb::Nack { delay_ms: Some(_) }) {
            self.facts.asked_delays.insert(taken.lease.clone());
        }
        let lease = taken.lease.clone();
        let is_ack = matches!(verb, Verb::Ack);
        let op = if by_owner || taken.token.restore == self.restore {
            Op::Settle { lease, verb, by_owner }
        } else {
            self.stats.saw("lease from before a restore presented");
            Op::Outdated
        };
        let ticket = self.call(client, op, command);
        if is_ack {
            worker(self, client).acking.insert(ticket, taken.clone());
        }
    }
}
