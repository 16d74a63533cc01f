//! A node, which serves one shard: performs what the core's machines say, on a disk that takes its time.

use std::collections::{BTreeMap, BTreeSet};

use driftq_checker::history::{Counters, What};
use driftq_core::change::Effect;
use driftq_core::placement::Place;
use driftq_core::view::{CursorView, GroupView};
use driftq_core::{
    Answered, Clock, Command, ConsumerId, Input, Output, Pipeline, PipelineConfig, Release, Reply,
    Session, ShardConfig, ShardId, Ticket, Timestamp,
};
use driftq_storage::conformance::wait;
use driftq_storage::{Engine, Ownership, RecoverError, recover};

use crate::connection::Connection;
use crate::facts::Asked;
use crate::network::Heard;
use crate::stats::Point;
use crate::world::{Commit, Happening, World};

/// What the node's counters say of every group.
pub(crate) fn counters(pipeline: &Pipeline) -> Vec<Counters> {
    pipeline.shard().groups().flat_map(|group| group_counters(&group)).collect()
}

/// What a view of a group says, partition by partition.
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
    };
    group.partitions.iter().enumerate().map(of_partition).collect()
}

/// Tickets of commands that nobody waits for.
const NOBODY: u64 = 1 << 60;

/// A batch under way.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub(crate) batch: u64,
    pub(crate) point: Point,
}

/// A node.
pub(crate) struct Node {
    /// No two have the same, whatever they serve.
    pub(crate) life: u64,
    pub(crate) shard: ShardId,
    pub(crate) ownership: Ownership,
    pub(crate) pipeline: Pipeline,
    clock: Clock,
    /// Calls to be answered.
    pub(crate) pending: BTreeSet<Ticket>,
    pub(crate) asked: BTreeMap<Ticket, Asked>,
    /// Windows of other shards, to be answered there.
    pub(crate) carried: BTreeMap<Ticket, ShardId>,
    pub(crate) connections: BTreeMap<ConsumerId, Connection>,
    pub(crate) under_way: Vec<UnderWay>,
    /// When the engine is done with what it was sent.
    disk_busy_until: u64,
    answers_busy_until: u64,
    next_nobody: u64,
    turn_at: u64,
    turns: u64,
}

impl World {
    /// Starts a node: claims, recovers, serves.
    pub(crate) fn start_node(&mut self, shard: ShardId) {
        self.life += 1;
        let shards = self.nodes.len() as u32;
        // So few that partitions wait for each other.
        let config = ShardConfig { shard, shards, retry_reads_max: 2, ..ShardConfig::default() };
        let (ownership, authority, recovered) = match wait(recover(&self.engine, config)) {
            Ok(recovered) => recovered,
            Err(RecoverError::Engine(error)) => panic!("memory does not fail: {error}"),
            Err(RecoverError::Damaged(damaged)) => {
                // Nothing serves this shard any more; the checker sees that.
                self.damaged = Some(damaged);
                self.later(5_000, Happening::Restart { shard });
                return;
            }
        };
        let clock = Clock::new(recovered.now, authority, self.now);
        let pipeline_config = PipelineConfig {
            commits_max: self.rng.usize(1..4),
            reads_max: self.rng.usize(1..4),
            commands_max: self.rng.usize(4..64),
        };
        let pipeline =
            Pipeline::new(recovered, ownership.epoch, clock.now(self.now), pipeline_config);
        self.nodes[shard.0 as usize] = Some(Node {
            life: self.life,
            shard,
            ownership,
            pipeline,
            clock,
            pending: BTreeSet::new(),
            asked: BTreeMap::new(),
            carried: BTreeMap::new(),
            connections: BTreeMap::new(),
            under_way: Vec::new(),
            disk_busy_until: 0,
            answers_busy_until: 0,
            next_nobody: NOBODY,
            turn_at: u64::MAX,
            turns: 0,
        });
        self.later(0, Happening::Turn { life: self.life });
    }

    /// The node is gone. What it was asked and did not answer is unknown; commits that left it may still
    /// take effect.
    pub(crate) fn kill_node(&mut self, shard: ShardId) {
        let Some(node) = self.nodes[shard.0 as usize].take() else { return };
        for ticket in node.pending {
            let delay = self.delay(5);
            self.later(delay, Happening::Answer { ticket, heard: Heard::Nothing });
        }
        for consumer in node.connections.into_keys() {
            let delay = self.delay(5);
            self.later(delay, Happening::Hangup { consumer });
        }
        self.faults.forget_life(node.life);
        let delay = self.rng.u64(1..1_500);
        self.later(delay, Happening::Restart { shard });
    }

    /// A node that cannot go on.
    fn end_life(&mut self, life: u64) {
        if let Some(shard) = self.alive(life).map(|node| node.shard) {
            self.kill_node(shard);
        }
    }

    pub(crate) fn alive(&mut self, life: u64) -> Option<&mut Node> {
        self.nodes.iter_mut().flatten().find(|node| node.life == life)
    }

    /// Who serves a shard, if anybody does.
    pub(crate) fn node(&mut self, shard: ShardId) -> Option<&mut Node> {
        self.nodes[shard.0 as usize].as_mut()
    }

    /// Where the batches of a shard are.
    pub(crate) fn point(&self, shard: ShardId) -> Point {
        let node = self.nodes[shard.0 as usize].as_ref();
        let under_way = node.map_or(&[][..], |node| &node.under_way);
        under_way.last().map_or(Point::Idle, |batch| batch.point)
    }

    pub(crate) fn turn_node(&mut self, life: u64) {
        let (now, is_strict) = (self.now, self.is_strict);
        let Some(node) = self.alive(life) else { return };
        let mut outputs = Vec::new();
        node.pipeline.turn(node.clock.now(now), &mut outputs);
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
        let now = node.clock.now(world_now);
        let pipeline = node.pipeline.next_deadline();
        let sessions = node.connections.values().map(|connection| {
            connection.session.next_deadline().max(Timestamp(connection.stalled_until))
        });
        let session_at = sessions.min().map_or(u64::MAX, |at| at.0);
        let pipeline_at = pipeline.map_or(u64::MAX, |at| world_now + at.since(now));
        let at = pipeline_at.min(session_at).max(world_now + 1);
        if at < node.turn_at || node.turn_at <= world_now {
            node.turn_at = at;
            if at != u64::MAX {
                self.later(at - world_now, Happening::Turn { life });
            }
        }
    }

    fn perform(&mut self, life: u64, outputs: Vec<Output>) {
        // The state is that of the last batch decided, until the next one is.
        let is_commit = |output: &Output| matches!(output, Output::StartCommit(..));
        let last_commit = outputs.iter().rposition(is_commit);
        for (index, output) in outputs.into_iter().enumerate() {
            match output {
                Output::StartRead(read, reads) => {
                    let (taken, answered) = (self.delay(2), self.delay(2));
                    let answer_at = self.now + taken + answered;
                    self.later(taken, Happening::ReadTaken { life, read, reads, answer_at });
                }
                Output::StartCommit(batch, writes) => {
                    let is_counted = last_commit == Some(index) && self.rng.u32(0..50) == 0;
                    self.start_commit(life, batch, writes, is_counted);
                }
                Output::Release(release) => self.release(life, release),
                Output::Die(damaged) => {
                    self.damaged = Some(damaged);
                    self.end_life(life);
                    return;
                }
            }
            if self.alive(life).is_none() {
                return;
            }
        }
    }

    fn start_commit(
        &mut self,
        life: u64,
        batch: std::sync::Arc<driftq_core::Batch>,
        writes: Vec<driftq_core::row::Write>,
        is_counted: bool,
    ) {
        let slow = self.faults.slow_disk_ms(self.now);
        let (sent, applied, answered) =
            (self.delay(1), self.delay(3) + slow, self.delay(3) + slow / 4);
        let now = self.now;
        let node = self.alive(life).expect("it decided just now");
        // A disk does one thing after the other, and answers in order.
        let applied_at = (now + sent + applied).max(node.disk_busy_until);
        let answer_at = (applied_at + answered).max(node.answers_busy_until);
        (node.disk_busy_until, node.answers_busy_until) = (applied_at, answer_at);
        let keyed: BTreeMap<Ticket, Asked> = batch
            .replies
            .iter()
            .filter_map(|(ticket, _)| Some((*ticket, node.asked.remove(ticket)?)))
            .collect();
        node.under_way.push(UnderWay { batch: batch.no.0, point: Point::Decided });
        let (ownership, shard) = (node.ownership, node.shard);
        let counted = match is_counted {
            true => counters(&node.pipeline),
            false => Vec::new(),
        };
        let commit = Box::new(Commit { ownership, batch, writes, answer_at, keyed, counted });
        self.later(sent, Happening::CommitSent { life });
        self.later(applied_at - now, Happening::CommitApplied { life, commit });
        self.reached(shard, Point::Decided);
    }

    pub(crate) fn commit_sent(&mut self, life: u64) {
        if let Some(node) = self.alive(life) {
            let sent = node.under_way.iter_mut().find(|batch| batch.point == Point::Decided);
            if let Some(batch) = sent {
                batch.point = Point::Committing;
            }
            let shard = node.shard;
            self.reached(shard, Point::Committing);
        }
    }

    pub(crate) fn commit_applied(&mut self, life: u64, commit: Commit) {
        let Commit { ownership, batch, writes, answer_at, keyed, counted } = commit;
        let lost = self.faults.takes_commit(life, batch.no.0);
        if lost {
            self.stats.saw("unknown commit that had not happened");
            return;
        }
        let is_alive = self.alive(life).is_some();
        let no = batch.no;
        match wait(self.engine.commit(ownership, no, writes)) {
            Ok(_) => {
                if !is_alive {
                    self.stats.saw("unknown commit that had happened");
                }
                let committed = self.facts.committed(ownership, &batch, &keyed, &mut self.stats);
                self.record(0, committed);
                for counters in counted {
                    self.record(0, What::Counted { batch: Some(no.0), counters });
                }
            }
            Err(_) => {
                self.stats.saw("commit of an old owner refused");
                self.end_life(life);
                return;
            }
        }
        let Some(node) = self.alive(life) else { return };
        if let Some(batch) = node.under_way.iter_mut().find(|batch| batch.batch == no.0) {
            batch.point = Point::Unreleased;
        }
        let shard = node.shard;
        let wait_ms = answer_at.saturating_sub(self.now);
        self.later(wait_ms, Happening::CommitAnswered { life, batch: no.0 });
        self.reached(shard, Point::Unreleased);
    }

    pub(crate) fn commit_answered(&mut self, life: u64, batch: u64) {
        let (authority, now) = (self.authority_now(), self.now);
        let Some(node) = self.alive(life) else { return };
        node.clock.sample(authority, now);
        node.under_way.retain(|under_way| under_way.batch != batch);
        let (node_now, shard) = (node.clock.now(now), node.shard);
        let mut outputs = Vec::new();
        node.pipeline.on(node_now, Input::CommitDone(driftq_core::BatchNo(batch)), &mut outputs);
        self.perform(life, outputs);
        self.turn_node(life);
        if self.point(shard) == Point::Idle {
            self.reached(shard, Point::Idle);
        }
    }

    pub(crate) fn read_taken(
        &mut self,
        life: u64,
        read: driftq_core::ReadId,
        reads: Vec<driftq_core::row::Read>,
        answer_at: u64,
    ) {
        let Some(node) = self.alive(life) else { return };
        let ownership = node.ownership;
        if node.under_way.iter().any(|batch| batch.point != Point::Unreleased) {
            self.stats.saw("read while a commit was under way");
        }
        let Ok(rows) = wait(self.engine.read(ownership, reads)) else {
            self.end_life(life);
            return;
        };
        let wait_ms = answer_at.saturating_sub(self.now);
        self.later(wait_ms, Happening::ReadAnswered { life, read, rows });
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
        node.pipeline.on(node.clock.now(now), Input::ReadDone(read, rows), &mut outputs);
        self.perform(life, outputs);
        self.turn_node(life);
    }

    /// A request reaches the node that serves its shard.
    pub(crate) fn request(&mut self, ticket: Ticket, command: Command) {
        let now = self.now;
        let Place::Shard(shard) = command.place(self.nodes.len() as u32) else {
            unreachable!("clients ask of one shard at a time");
        };
        let Some(node) = &mut self.nodes[shard.0 as usize] else {
            self.later(1, Happening::Answer { ticket, heard: Heard::NobodyListens });
            return;
        };
        node.pending.insert(ticket);
        if let Some(asked) = Asked::of(&command) {
            node.asked.insert(ticket, asked);
        }
        if let Command::Join(join) = &command {
            let session = match self.clients.polls(join.consumer) {
                Some(wait_ms) => Session::poll(join.consumer, Timestamp(now), wait_ms),
                None => Session::stream(join.consumer, Timestamp(now)),
            };
            let connection = Connection { session, stalled_until: 0, last_line_at: now };
            node.connections.insert(join.consumer, connection);
        }
        let (life, node_now) = (node.life, node.clock.now(now));
        let mut outputs = Vec::new();
        node.pipeline.on(node_now, Input::Arrived(ticket, command), &mut outputs);
        self.perform(life, outputs);
        self.turn_node(life);
    }

    /// Something that no client asks for.
    pub(crate) fn tell(&mut self, life: u64, command: Command) -> Option<Ticket> {
        let now = self.now;
        let node = self.alive(life)?;
        node.next_nobody += 1;
        let ticket = Ticket(node.next_nobody);
        let mut outputs = Vec::new();
        node.pipeline.on(node.clock.now(now), Input::Arrived(ticket, command), &mut outputs);
        Some(ticket)
    }

    fn release(&mut self, life: u64, release: Release) {
        let replies: Vec<(Ticket, Answered)> = release.batch.replies.clone();
        for (ticket, answered) in replies {
            let node = self.alive(life).expect("it releases just now");
            if let (Some(source), Ok(Reply::Arrived(arrived))) =
                (node.carried.remove(&ticket), &answered)
            {
                self.tell_source(source, arrived.clone());
            } else if let (true, Ok(Reply::Elsewhere(ask))) =
                (node.pending.contains(&ticket), &answered)
            {
                // Whoever took the request asks there.
                node.pending.remove(&ticket);
                let command = ask.clone();
                let delay = self.delay(2);
                self.later(delay, Happening::Request { ticket, command });
            } else if node.pending.remove(&ticket) {
                let delay = self.delay(5);
                let heard = Heard::Answer(Box::new(answered));
                self.later(delay, Happening::Answer { ticket, heard });
            }
        }
        for effect in &release.batch.effects {
            match effect {
                Effect::Deliver(_, delivery) if release.withheld.contains(&delivery.hold) => {
                    self.stats.saw("lease half over before its commit returned");
                }
                Effect::Deliver(consumer, delivery) => {
                    let now = Timestamp(self.now);
                    let node = self.alive(life).expect("it releases just now");
                    let back = match node.connections.get_mut(consumer) {
                        Some(connection) => connection.session.deliver(now, delivery.clone()),
                        None => Some(Command::GiveBack(delivery.hold)),
                    };
                    if let Some(back) = back {
                        self.stats.saw("give-back");
                        self.tell(life, back);
                    }
                }
                Effect::Dismiss(consumer) => self.hang_up(*consumer),
                Effect::Send(target, arrive) => self.carry(*target, arrive),
            }
        }
        self.write_lines(life);
    }
}
