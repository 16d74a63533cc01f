//! A node serving one shard: performs the outputs of the core's state machines on a simulated disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use driftq_checker::history::{Counters, What};
use driftq_core::change::Action;
use driftq_core::command::PeerKind;
use driftq_core::ownership::OwnershipEvent;
use driftq_core::row::Write;
use driftq_core::view::{CursorView, GroupView};
use driftq_core::{
    Batch, CallError, Clock, Command, CommandResult, Format, Input, NodeId, Output, Pipeline,
    PipelineConfig, Recovered, Release, Reply, Session, ShardConfig, ShardId, Ticket, Timestamp,
    Unkeyed,
};
use driftq_storage::conformance::wait;
use driftq_storage::{Engine, Ownership, RecoverError, recover};

use crate::cluster::process::Monotonic;
use crate::facts::CommandContext;
use crate::forward::may_be_delayed;
use crate::plan::Shape;
use crate::stats::Point;
use crate::world::{CallReply, Commit, Connection, InFlight, Node, Request, SimEvent, World};

/// The counters of every group.
pub(crate) fn counters(pipeline: &Pipeline) -> Vec<Counters> {
    pipeline.shard().groups().flat_map(|group| group_counters(&group)).collect()
}

/// The counters of a group, one per partition.
pub(crate) fn group_counters(group: &GroupView) -> Vec<Counters> {
    let of_partition = |(partition, cursor): (usize, &CursorView)| Counters {
        topic: group.topic.clone(),
        group: group.name.clone(),
        partition: partition as u32,
        generation: cursor.generation.0,
        next: cursor.next,
        high: cursor.high,
        leased: cursor.leased,
        waiting: cursor.waiting,
        backlog: cursor.backlog,
        blocked: cursor.blocked.map(|why| why.as_str().into()),
    };
    group.partitions.iter().enumerate().map(of_partition).collect()
}

/// How often a connection is checked while its client reads nothing.
const STALL_LOOK_MS: u64 = 50;

/// The first ticket of commands without a caller.
const FIRST_INTERNAL_TICKET: u64 = 1 << 60;

impl Node {
    /// Creates the commit of a batch that was just decided.
    pub(crate) fn commit(
        &mut self,
        batch: Arc<Batch>,
        writes: Vec<Write>,
        answer_at: u64,
        is_counted: bool,
    ) -> Commit {
        let replies = batch.replies.iter();
        let keyed = replies.filter_map(|(ticket, _)| Some((*ticket, self.asked.remove(ticket)?)));
        let keyed: BTreeMap<Ticket, CommandContext> = keyed.collect();
        self.under_way.push(InFlight { batch: batch.no.0, point: Point::Decided });
        let counted = if is_counted { counters(&self.pipeline) } else { Vec::new() };
        let (host, ownership) = (self.host, self.ownership);
        Commit { host, ownership, batch, writes, answer_at, keyed, counted }
    }

    pub(crate) fn now(&self, world_now: u64) -> Timestamp {
        self.clock.now(self.monotonic.at(world_now))
    }

    /// Returns when the next reply arrives. Replies arrive in order.
    pub(crate) fn next_answer_at(&mut self, at: u64) -> u64 {
        self.answers_busy_until = at.max(self.answers_busy_until);
        self.answers_busy_until
    }
}

impl World {
    pub(crate) fn shard_config(&self, shard: ShardId) -> ShardConfig {
        let shards = self.nodes.len() as u32;
        // Small in some runs, so that partitions wait for each other.
        let open_max = self.open_max;
        let restore = self.restore;
        ShardConfig {
            shard,
            shards,
            restore,
            unkeyed_of_new_topics: Some(Unkeyed::Spread),
            retry_reads_max: 2,
            open_max,
            ..ShardConfig::default()
        }
    }

    /// Starts a node: claims, recovers and serves a shard.
    pub(crate) fn start_node(&mut self, shard: ShardId) {
        let (ownership, authority, recovered) =
            match wait(recover(&self.engine, self.shard_config(shard))) {
                Ok(recovered) => recovered,
                Err(RecoverError::Engine(error)) => {
                    panic!("the memory engine does not fail: {error}")
                }
                Err(RecoverError::Damaged(damaged)) => {
                    self.found_damage(shard, &damaged);
                    self.later(5_000, SimEvent::Restart { shard });
                    return;
                }
            };
        let node = self.life + 1;
        self.record(0, What::Claimed { node, shard: shard.0, epoch: ownership.epoch.0 });
        self.serve(None, ownership, authority, recovered);
    }

    /// Serves a shard that has been claimed and loaded.
    pub(crate) fn serve(
        &mut self,
        host: Option<NodeId>,
        ownership: Ownership,
        authority: Timestamp,
        recovered: Recovered,
    ) {
        self.life += 1;
        let shard = ownership.shard;
        let process = host.and_then(|host| self.hosts.get(host)).map(|host| &host.process);
        let monotonic = process.map_or(Monotonic::TRUE, |process| process.clock);
        let believed = self.believe(host, authority);
        self.floor(host, recovered.now);
        let clock = Clock::new(recovered.now, believed, monotonic.at(self.now));
        let pipeline_config = PipelineConfig {
            commits_max: self.rng.usize(1..4),
            reads_max: self.rng.usize(1..4),
            commands_max: self.rng.usize(4..64),
        };
        let now = clock.now(monotonic.at(self.now));
        let pipeline = Pipeline::new(recovered, ownership.epoch, now, pipeline_config);
        self.nodes[shard.0 as usize].push(Node {
            life: self.life,
            shard,
            host,
            ownership,
            pipeline,
            clock,
            monotonic,
            is_ending: false,
            pending: BTreeSet::new(),
            asked: BTreeMap::new(),
            carried: BTreeMap::new(),
            connections: BTreeMap::new(),
            under_way: Vec::new(),
            sent_until: 0,
            disk_busy_until: 0,
            answers_busy_until: 0,
            next_internal_ticket: FIRST_INTERNAL_TICKET,
            turn_at: u64::MAX,
            turns: 0,
        });
        // A node of an older release is alive.
        if self.rng.u32(0..4) == 0 {
            let life = self.life;
            let node = self.alive(life).expect("it has just started");
            node.pipeline.set_format(Format::V1);
            let epoch = node.ownership.epoch.0;
            self.record(0, What::OlderNodes { shard: shard.0, epoch });
        }
        self.later(0, SimEvent::Turn { life: self.life });
    }

    /// A node stops serving a shard. Calls without a reply have an unknown outcome. Commits in
    /// flight may still take effect.
    pub(crate) fn drop_life(&mut self, life: u64) -> Option<Node> {
        let shard = self.alive(life)?.shard;
        let lives = &mut self.nodes[shard.0 as usize];
        let mut node = lives.remove(lives.iter().position(|node| node.life == life)?);
        for ticket in std::mem::take(&mut node.pending) {
            let delay = self.delay(5);
            self.later(
                delay,
                match node.host {
                    Some(_) => SimEvent::Back { ticket, answered: Err(CallError::Unknown) },
                    None => SimEvent::Answer { ticket, reply: CallReply::Nothing },
                },
            );
        }
        for consumer in std::mem::take(&mut node.connections).into_keys() {
            let delay = self.delay(5);
            self.later(delay, SimEvent::Hangup { consumer });
        }
        self.faults.forget_life(node.life);
        Some(node)
    }

    /// A shard is lost: a commit or a read failed or has an unknown outcome.
    pub(crate) fn end_life(&mut self, life: u64, fenced: bool) {
        let Some(node) = self.drop_life(life) else { return };
        let (shard, epoch) = (node.shard, node.ownership.epoch);
        match node.host {
            Some(host) if node.is_ending => {
                self.send_to_database(host, Request::GiveUp { shard, epoch });
            }
            Some(host) => self.notify_host(host, OwnershipEvent::Lost { shard, epoch, fenced }),
            None => {
                let delay = self.rng.u64(1..1_500);
                self.later(delay, SimEvent::Restart { shard });
            }
        }
    }

    pub(crate) fn alive(&mut self, life: u64) -> Option<&mut Node> {
        self.nodes.iter_mut().flatten().find(|node| node.life == life)
    }

    /// The node that serves a shard, if any.
    pub(crate) fn node(&mut self, shard: ShardId) -> Option<&mut Node> {
        self.nodes[shard.0 as usize].last_mut()
    }

    /// The point that the last batch of a shard has reached.
    pub(crate) fn point(&self, shard: ShardId) -> Point {
        let node = self.nodes[shard.0 as usize].last();
        let under_way = node.map_or(&[][..], |node| &node.under_way);
        under_way.last().map_or(Point::Idle, |batch| batch.point)
    }

    pub(crate) fn turn_node(&mut self, life: u64) {
        let (now, is_strict) = (self.now, self.is_strict);
        let Some(node) = self.alive(life).filter(|node| !node.is_ending) else { return };
        let mut outputs = Vec::new();
        node.pipeline.turn(node.now(now), &mut outputs);
        node.turns += 1;
        if is_strict && node.turns % 64 == 0 {
            assert_eq!(node.pipeline.shard().violation(), None, "at {now}");
        }
        let defects = node.pipeline.defects();
        self.defects = self.defects.max(defects);
        self.perform(life, outputs);
        self.plan_turn(life);
    }

    fn plan_turn(&mut self, life: u64) {
        let world_now = self.now;
        let Some(node) = self.alive(life) else { return };
        let now = node.now(world_now);
        let pipeline = node.pipeline.next_deadline();
        let sessions = node.connections.values().map(|connection| {
            let (due, stalled_until) =
                (connection.session.next_deadline().0, connection.stalled_until);
            if connection.session.is_empty() || stalled_until <= world_now {
                due.max(stalled_until)
            } else {
                // The client reads nothing, so its deliveries are returned at their deadline.
                due.max(world_now + STALL_LOOK_MS)
            }
        });
        let session_at = sessions.min().unwrap_or(u64::MAX);
        let pipeline_at = pipeline.map_or(u64::MAX, |at| world_now + at.since(now));
        let at = pipeline_at.min(session_at).max(world_now + 1);
        if at < node.turn_at || node.turn_at <= world_now {
            node.turn_at = at;
            if at != u64::MAX {
                self.later(at - world_now, SimEvent::Turn { life });
            }
        }
    }

    fn perform(&mut self, life: u64, outputs: Vec<Output>) {
        // The state belongs to the last decided batch until the next one is decided.
        let is_commit = |output: &Output| matches!(output, Output::StartCommit(..));
        let last_commit = outputs.iter().rposition(is_commit);
        for (index, output) in outputs.into_iter().enumerate() {
            match output {
                Output::StartRead(read, reads) => {
                    let (taken, answered) = (self.delay(2), self.delay(2));
                    let answer_at = self.now + taken + answered;
                    self.later(taken, SimEvent::ReadTaken { life, read, reads, answer_at });
                }
                Output::StartCommit(batch, writes) => {
                    let every = if self.shape == Shape::Partitions { 1_000 } else { 50 };
                    let is_counted = last_commit == Some(index) && self.rng.u32(0..every) == 0;
                    self.start_commit(life, batch, writes, is_counted);
                }
                Output::Release(release) => self.release(life, release),
                Output::Damaged(damaged) => {
                    if let Some(shard) = self.alive(life).map(|node| node.shard) {
                        self.found_damage(shard, &damaged);
                    }
                }
            }
            if self.alive(life).is_none() {
                return;
            }
        }
    }

    fn start_commit(&mut self, life: u64, batch: Arc<Batch>, writes: Vec<Write>, is_counted: bool) {
        let slow = self.faults.slow_disk_ms(self.now);
        let (sent, applied, answered) =
            (self.delay(1), self.delay(3) + slow, self.delay(3) + slow / 4);
        let now = self.now;
        let node = self.alive(life).expect("it has just decided the batch");
        if let Some(host) = node.host {
            node.sent_until = (now + sent).max(node.sent_until);
            let (wait_ms, shard) = (node.sent_until - now, node.shard);
            let epoch = node.ownership.epoch.0;
            let decided = What::Decided { node: host.0, shard: shard.0, epoch, batch: batch.no.0 };
            let commit = Some(Box::new(node.commit(batch, writes, 0, is_counted)));
            self.record(0, decided);
            self.later(wait_ms, SimEvent::CommitSent { life, commit });
            return self.reached(shard, Point::Decided);
        }
        // The disk processes one commit after another and answers in order.
        let applied_at = (now + sent + applied).max(node.disk_busy_until);
        let answer_at = (applied_at + answered).max(node.answers_busy_until);
        (node.disk_busy_until, node.answers_busy_until) = (applied_at, answer_at);
        let shard = node.shard;
        let commit = Box::new(node.commit(batch, writes, answer_at, is_counted));
        self.later(sent, SimEvent::CommitSent { life, commit: None });
        self.later(applied_at - now, SimEvent::CommitApplied { life, commit });
        self.reached(shard, Point::Decided);
    }

    pub(crate) fn commit_sent(&mut self, life: u64, commit: Option<Box<Commit>>) {
        let (now, way) = (self.now, commit.as_ref().map(|_| self.delay(2)));
        let Some(node) = self.alive(life) else { return };
        let sent = node.under_way.iter_mut().find(|batch| batch.point == Point::Decided);
        if let Some(batch) = sent {
            batch.point = Point::Committing;
        }
        let shard = node.shard;
        if let (Some(commit), Some(way)) = (commit, way) {
            node.disk_busy_until = (now + way).max(node.disk_busy_until);
            let wait_ms = node.disk_busy_until - now;
            self.later(wait_ms, SimEvent::CommitReaches { life, commit });
        }
        self.reached(shard, Point::Committing);
    }

    pub(crate) fn commit_applied(&mut self, life: u64, mut commit: Commit) {
        let lost = self.faults.takes_commit(life, commit.batch.no.0);
        if lost {
            self.stats.saw("unknown commit that had not happened");
            return;
        }
        let writes = std::mem::take(&mut commit.writes);
        match wait(self.engine.commit(commit.ownership, commit.batch.no, writes)) {
            Ok(_) => self.made_durable(life, commit, true),
            Err(_) => {
                self.stats.saw("commit of an old owner refused");
                self.end_life(life, true);
            }
        }
    }

    /// A commit became durable.
    pub(crate) fn made_durable(&mut self, life: u64, commit: Commit, is_answered: bool) {
        let Commit { ownership, batch, answer_at, keyed, counted, .. } = commit;
        let no = batch.no;
        if self.alive(life).is_none() {
            self.stats.saw("unknown commit that had happened");
        }
        let committed = self.facts.committed(ownership, &batch, &keyed, &mut self.stats);
        self.record(0, committed);
        for counters in counted {
            self.record(0, What::Counted { batch: Some(no.0), counters });
        }
        let Some(node) = self.alive(life) else { return };
        if let Some(batch) = node.under_way.iter_mut().find(|batch| batch.batch == no.0) {
            batch.point = Point::Unreleased;
        }
        let shard = node.shard;
        if is_answered {
            let wait_ms = answer_at.saturating_sub(self.now);
            self.later(wait_ms, SimEvent::CommitAnswered { life, batch: no.0 });
        }
        self.reached(shard, Point::Unreleased);
    }

    pub(crate) fn commit_answered(&mut self, life: u64, batch: u64) {
        let (authority, now) = (self.authority_now(), self.now);
        let Some(host) = self.alive(life).map(|node| node.host) else { return };
        let believed = self.believe(host, authority);
        if host.is_none() {
            self.look_at_clock(None);
        }
        let Some(node) = self.alive(life) else { return };
        // Replies are processed in order. After a lost one, the others wait until the life ends.
        if node.under_way.first().is_some_and(|first| first.batch != batch) {
            return;
        }
        node.clock.sample(believed, node.monotonic.at(now));
        node.under_way.retain(|under_way| under_way.batch != batch);
        let (node_now, shard) = (node.now(now), node.shard);
        let mut outputs = Vec::new();
        node.pipeline.on(node_now, Input::CommitDone(driftq_core::BatchNo(batch)), &mut outputs);
        self.perform(life, outputs);
        self.turn_node(life);
        self.end_if_idle(life);
        if self.point(shard) == Point::Idle {
            self.reached(shard, Point::Idle);
        }
    }

    pub(crate) fn read_accepted(
        &mut self,
        life: u64,
        read: driftq_core::ReadId,
        reads: Vec<driftq_core::row::Read>,
        answer_at: u64,
    ) {
        let Some(node) = self.alive(life) else { return };
        let (ownership, host) = (node.ownership, node.host);
        if node.under_way.iter().any(|batch| batch.point != Point::Unreleased) {
            self.stats.saw("read while a commit was under way");
        }
        if host.is_some_and(|host| self.hosts.is_cut(host, self.now)) {
            return self.commit_times_out(life);
        }
        let Ok(rows) = wait(self.engine.read(ownership, reads)) else {
            match host {
                Some(_) => self.later(1, SimEvent::CommitTimedOut { life, fenced: true }),
                None => self.end_life(life, true),
            }
            return;
        };
        let wait_ms = answer_at.saturating_sub(self.now);
        self.later(wait_ms, SimEvent::ReadAnswered { life, read, rows });
    }

    pub(crate) fn read_answered(
        &mut self,
        life: u64,
        read: driftq_core::ReadId,
        rows: Vec<Vec<driftq_core::row::Row>>,
    ) {
        let now = self.now;
        let Some(node) = self.alive(life) else { return };
        let mut outputs = Vec::new();
        node.pipeline.on(node.now(now), Input::ReadDone(read, rows), &mut outputs);
        self.perform(life, outputs);
        self.turn_node(life);
    }

    /// A request reaches the node that serves its shard or, with several nodes, any node.
    pub(crate) fn request(&mut self, ticket: Ticket, command: Command) {
        if self.hosts.are_many() {
            return self.enter(ticket, command);
        }
        let shard = self.shard_of(ticket, &command);
        match self.node(shard).map(|node| node.life) {
            Some(life) => self.take(life, ticket, command, None),
            None => self.later(1, SimEvent::Answer { ticket, reply: CallReply::NotServing }),
        }
    }

    /// A node accepts a request for a shard that it serves. `entry` is the node that the client is
    /// connected to.
    pub(crate) fn take(
        &mut self,
        life: u64,
        ticket: Ticket,
        command: Command,
        entry: Option<NodeId>,
    ) {
        let now = self.now;
        if !self.clients.calls.contains_key(&ticket) && !may_be_delayed(&command) {
            self.hosts.passing.remove(&ticket);
            return;
        }
        let mut polls = None;
        if let Command::Join(join) = &command {
            polls = self.clients.polls(join.consumer);
        }
        let Some(node) = self.alive(life) else { return };
        node.pending.insert(ticket);
        if let Some(asked) = CommandContext::of(&command) {
            node.asked.insert(ticket, asked);
        }
        if let Command::Join(join) = &command {
            let session = match join.peer.kind {
                PeerKind::Poll => Session::poll(join.consumer, Timestamp(now), polls.unwrap_or(0)),
                PeerKind::Stream => Session::stream(join.consumer, Timestamp(now)),
            };
            let connection = Connection { session, entry, stalled_until: 0, last_line_at: now };
            node.connections.insert(join.consumer, connection);
        }
        let node_now = node.now(now);
        let mut outputs = Vec::new();
        node.pipeline.on(node_now, Input::Arrived(ticket, command), &mut outputs);
        self.perform(life, outputs);
        self.turn_node(life);
    }

    /// Sends a command that has no caller.
    pub(crate) fn send_command(&mut self, life: u64, command: Command) -> Option<Ticket> {
        let now = self.now;
        let node = self.alive(life)?;
        node.next_internal_ticket += 1;
        let ticket = Ticket(node.next_internal_ticket);
        let mut outputs = Vec::new();
        node.pipeline.on(node.now(now), Input::Arrived(ticket, command), &mut outputs);
        Some(ticket)
    }

    fn release(&mut self, life: u64, release: Release) {
        let replies: Vec<(Ticket, CommandResult)> = release.batch.replies.clone();
        for (ticket, answered) in replies {
            let answered = of_its_message(answered);
            let node = self.alive(life).expect("it is releasing a batch");
            if let (Some((source, at)), Ok(Reply::Arrived(arrived))) =
                (node.carried.remove(&ticket), &answered)
            {
                self.answer_source(source, arrived.clone(), at);
            } else if let Some(host) = node.host {
                if node.pending.remove(&ticket) {
                    self.send_back(host, ticket, answered);
                }
            } else if let (true, Ok(Reply::Elsewhere(ask))) =
                (node.pending.contains(&ticket), &answered)
            {
                // The node that accepted the request sends it to the other shard.
                node.pending.remove(&ticket);
                let command = ask.clone();
                let delay = self.delay(2);
                self.later(delay, SimEvent::Request { ticket, command });
            } else if node.pending.remove(&ticket) {
                let delay = self.delay(5);
                let reply = CallReply::Answer(Box::new(answered));
                self.later(delay, SimEvent::Answer { ticket, reply });
            }
        }
        for effect in &release.batch.actions {
            match effect {
                Action::Deliver(_, delivery) if release.withheld.contains(&delivery.hold) => {
                    self.stats.saw("lease half over before its commit returned");
                }
                Action::Deliver(consumer, delivery) => {
                    let now = Timestamp(self.now);
                    let node = self.alive(life).expect("it is releasing a batch");
                    let back = match node.connections.get_mut(consumer) {
                        Some(connection) => connection.session.deliver(now, delivery.clone()),
                        None => Some(Command::GiveBack(delivery.hold)),
                    };
                    if let Some(back) = back {
                        self.stats.saw("give-back");
                        self.send_command(life, back);
                    }
                }
                Action::Dismiss(consumer) => self.hang_up(*consumer),
                Action::Send(target, arrive) => {
                    let from = self.alive(life).and_then(|node| node.host);
                    self.carry(from, *target, arrive);
                }
            }
        }
        self.write_lines(life);
    }
}

/// The answer for the only message of a request with a nonce.
fn of_its_message(answered: CommandResult) -> CommandResult {
    match answered {
        Ok(Reply::Each(mut results)) => results.pop().expect("a request has a message"),
        answered => answered,
    }
}
