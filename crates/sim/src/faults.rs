//! Faults: armed for a point in the life of a batch, and struck when it is reached.

use std::ops::RangeInclusive;

use driftq_checker::history::What;
use driftq_core::{ConsumerId, ShardId, Ticket};

use crate::network::Heard;
use crate::stats::Point;
use crate::world::{Happening, World};

/// Kinds of faults.
pub(crate) const KINDS: [&str; 11] = [
    "crash",
    "engine error",
    "slow disk",
    "clock ahead",
    "clock back",
    "connections cut",
    "consumer gone",
    "consumer stalled",
    "node stopped",
    "node cut off",
    "node drained",
];
/// The first of them, which strike where there is one node too.
const KINDS_ALONE: usize = 8;

/// States that the workload must reach sometimes.
pub(crate) const SOMETIMES: &[&str] = &[
    "ack refused: effects not finished",
    "all cursors of a group moved",
    "answer lost between nodes",
    "answered twice between nodes",
    "audit read",
    "backlog full: bytes",
    "backlog full: messages",
    "begin repeated by its nonce",
    "call given up by its caller",
    "call held while its shard moved",
    "call lost between nodes",
    "call passed on to another node",
    "call refused by a former owner",
    "claim refused: another was quicker",
    "claim that happened and was not heard of",
    "claim waited for a commit",
    "clock jump confirmed",
    "clock jump held back",
    "clock jump held back by a new process",
    "clock jump set right",
    "commit done",
    "commit of an old owner refused",
    "commit refused after another node's claim",
    "commit refused: other content",
    "commit refused: part of it",
    "commit repeated",
    "commit that happened and was not heard of",
    "commit that never reached the database",
    "commit with effects",
    "dead letter deleted",
    "dead letter purged while a group had it",
    "dead letter redriven",
    "dead letter: deadline after delivery",
    "dead letter: deadline before delivery",
    "dead letter: exhausted",
    "dead letter: final",
    "dead letter: undeliverable",
    "dedupe hit",
    "dedupe hit after crash",
    "doubt ended by its late holder",
    "effect begun anew in its first millisecond",
    "effect executed",
    "effect executed again after a failure",
    "effect executed again after doubt",
    "effect forgotten and begun anew",
    "effect may be taken again",
    "effect probed",
    "effect refused: another request",
    "effect refused: in progress",
    "effect refused: parked",
    "effect replayed",
    "effect resolved",
    "finish accepted",
    "finish refused: another outcome",
    "finish refused: fence is over",
    "finish refused: stale fence",
    "finish repeated",
    "give-back",
    "group created",
    "group deleted",
    "group of a guest deleted",
    "group paused",
    "id from before a restore presented",
    "key conflict refused",
    "key found in its last millisecond",
    "key free in its first millisecond",
    "key of a rejected message used again",
    "key repeated while its first commit was in flight",
    "late ack accepted",
    "late between shards",
    "lease expired",
    "lease extended",
    "lease half over before its commit returned",
    "lease from before a restore presented",
    "lost between shards",
    "max_open reached",
    "message of another group passed by",
    "message of another shard turned away",
    "message or group explained",
    "message released because of its effect",
    "message sent to another shard",
    "messages of another shard that were here before",
    "messages peeked at",
    "messages trimmed",
    "node stepped down",
    "outcome taken on by another message",
    "patch: dedupe_ttl_ms",
    "patch: dlq_retention_ms",
    "patch: effect_ttl_ms",
    "patch: group_idle_ms",
    "patch: groups",
    "patch: history",
    "patch: keyless",
    "patch: lease_ms",
    "patch: max_backlog_bytes",
    "patch: max_backlog_messages",
    "patch: max_in_flight",
    "patch: max_open",
    "patch: on_doubt",
    "patch: require_token",
    "patch: retention_bytes",
    "patch: retention_ms",
    "patch: retry_policy",
    "patch: setting reset",
    "pause with an end",
    "pin found again",
    "pinned message stored",
    "pointer read",
    "pointer set",
    "purge by filter",
    "purge by id",
    "purge of what is gone",
    "purge tried without effect",
    "read while a commit was under way",
    "page damaged",
    "partition repaired",
    "message lost",
    "records expired",
    "redrive refused: effects expired",
    "redrive repeated",
    "repeated between shards",
    "seek under load",
    "settings read",
    "settle refused: generation",
    "settle refused: settled",
    "settle refused: waiting",
    "shape: hundreds of partitions",
    "shape: long backlog",
    "shape: open limit",
    "shard given up",
    "shard taken over from another node",
    "shard taken over with a commit on its way",
    "stale ack refused",
    "storage restored",
    "topic deleted",
    "unknown commit that had happened",
    "unknown commit that had not happened",
];

/// Usual time between faults.
const EVERY_MS: u64 = 4_500;

/// What is wrong at the moment.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// The rest of the current round over all kinds and points.
    round: Vec<(&'static str, Point)>,
    armed: Option<(&'static str, Point)>,
    is_healed: bool,
    slow_until: u64,
    slow_ms: u64,
    /// Commits of these lives that never take effect: a range of batches.
    lost: Vec<(u64, RangeInclusive<u64>)>,
    /// How often the node died.
    pub(crate) deaths: u64,
}

impl Faults {
    pub(crate) fn slow_disk_ms(&self, now: u64) -> u64 {
        if now < self.slow_until { self.slow_ms } else { 0 }
    }

    /// Whether this commit is one that never takes effect.
    pub(crate) fn takes_commit(&self, life: u64, batch: u64) -> bool {
        self.lost.iter().any(|(of, batches)| *of == life && batches.contains(&batch))
    }

    /// Nothing depends on a life that is long over.
    pub(crate) fn forget_life(&mut self, life: u64) {
        self.lost.retain(|(of, _)| *of + 32 > life);
    }
}

impl World {
    pub(crate) fn plan_fault(&mut self) {
        let delay = self.rng.u64(EVERY_MS / 2..EVERY_MS * 3 / 2);
        self.later(delay, Happening::Fault);
    }

    pub(crate) fn arm_fault(&mut self) {
        if self.faults.is_healed {
            return;
        }
        if self.faults.armed.is_none() {
            if self.faults.round.is_empty() {
                let kinds = if self.hosts.are_many() { KINDS.len() } else { KINDS_ALONE };
                let all =
                    KINDS[..kinds].iter().flat_map(|kind| Point::ALL.map(|point| (*kind, point)));
                self.faults.round = all.collect();
                self.rng.shuffle(&mut self.faults.round);
            }
            self.faults.armed = self.faults.round.pop();
        }
        self.plan_fault();
        // An operator is at work when things go wrong.
        if self.rng.bool() {
            self.operate_now();
        }
        let shard = self.some_shard();
        if self.point(shard) == Point::Idle {
            self.reached(shard, Point::Idle);
        }
    }

    pub(crate) fn heal(&mut self) {
        self.faults.is_healed = true;
        self.faults.armed = None;
        self.faults.slow_until = 0;
        self.hosts.heal();
        self.set_clock_right();
        self.record(0, What::Healed);
    }

    pub(crate) fn some_shard(&mut self) -> ShardId {
        ShardId(self.rng.u32(0..self.nodes.len() as u32))
    }

    /// A batch of a shard has come to a point: strikes what waits for it.
    pub(crate) fn reached(&mut self, shard: ShardId, point: Point) {
        let Some((kind, at)) = self.faults.armed else {
            return;
        };
        let Some(node) = self.node(shard).filter(|_| at == point) else {
            return;
        };
        let open = node.pipeline.shard().open_entries() > 0;
        self.faults.armed = None;
        self.stats.telling_faults += u64::from(open || point != Point::Idle);
        *self.stats.faults.entry((kind, point)).or_default() += 1;
        for operation in self.clients.kinds.values() {
            *self.stats.struck.entry((*operation, kind)).or_default() += 1;
        }
        self.record(0, What::Fault { fault: kind.into(), point: point.as_str().into() });
        self.strike(kind, shard);
    }

    fn strike(&mut self, kind: &'static str, shard: ShardId) {
        match kind {
            // The process, and everything it serves.
            "crash" => {
                self.faults.deaths += 1;
                match self.node(shard).and_then(|node| node.host) {
                    Some(host) => self.kill_host(host),
                    None => {
                        for shard in 0..self.nodes.len() as u32 {
                            self.lose(ShardId(shard));
                        }
                        self.restart_process_clock();
                    }
                }
            }
            "node stopped" | "node cut off" | "node drained" => {
                let host = self.node(shard).and_then(|node| node.host);
                let host = host.expect("it strikes one of many");
                match kind {
                    "node stopped" => self.stop_host(host),
                    "node cut off" => self.cut_host(host),
                    _ => self.drain_host(host),
                }
            }
            "engine error" => {
                self.faults.deaths += 1;
                self.lose(shard);
            }
            "slow disk" => {
                self.faults.slow_until = self.now + self.rng.u64(500..8_000);
                self.faults.slow_ms = self.rng.u64(100..3_000);
            }
            "clock ahead" => {
                let most = match self.rng.u32(0..8) {
                    0 => 120_000,
                    1..3 => return self.jump_far(),
                    _ => 3_000,
                };
                let by = self.rng.i64(10..most);
                self.jump_clock(by);
            }
            "clock back" => {
                let most = if self.rng.u32(0..8) == 0 { 120_000 } else { 3_000 };
                let by = self.rng.i64(10..most);
                self.jump_clock(-by);
            }
            "connections cut" => {
                let nodes = self.nodes.iter_mut().flatten();
                let pending = nodes.flat_map(|node| std::mem::take(&mut node.pending));
                for ticket in pending.collect::<Vec<Ticket>>() {
                    self.hosts.passing.remove(&ticket);
                    self.later(1, Happening::Answer { ticket, heard: Heard::Nothing });
                }
                for consumer in self.connected() {
                    self.hang_up(consumer);
                }
            }
            "consumer gone" => {
                if let Some(consumer) = self.some_connection() {
                    self.hang_up(consumer);
                }
            }
            "consumer stalled" => {
                let until = self.now + self.rng.u64(5_000..60_000);
                if let Some(consumer) = self.some_connection() {
                    let mut nodes = self.nodes.iter_mut().flatten();
                    let connection = nodes.find_map(|node| node.connections.get_mut(&consumer));
                    connection.expect("it is one of those").stalled_until = until;
                }
            }
            other => unreachable!("{other} is no fault"),
        }
    }

    /// A shard loses its node. What had left it takes effect or not: all, up to some batch, or all but one.
    fn lose(&mut self, shard: ShardId) {
        let Some((life, host)) = self.node(shard).map(|node| (node.life, node.host)) else {
            return;
        };
        self.lose_commits(life);
        match host {
            Some(_) => self.later(0, Happening::Unheard { life, fenced: false }),
            None => self.end_life(life, false),
        }
    }

    /// Of what a life had under way, some never takes effect.
    pub(crate) fn lose_commits(&mut self, life: u64) {
        let Some(node) = self.alive(life) else { return };
        let undecided = node.under_way.iter().find(|batch| batch.point != Point::Unreleased);
        if let Some(batch) = undecided.map(|batch| batch.batch) {
            match self.rng.u32(0..3) {
                0 => {}
                1 => {
                    let from = batch + self.rng.u64(0..2);
                    self.faults.lost.push((life, from..=u64::MAX));
                }
                _ => self.faults.lost.push((life, batch..=batch)),
            }
        }
    }

    pub(crate) fn connected(&self) -> Vec<ConsumerId> {
        self.nodes.iter().flatten().flat_map(|node| node.connections.keys().copied()).collect()
    }

    fn some_connection(&mut self) -> Option<ConsumerId> {
        let connected = self.connected();
        (!connected.is_empty()).then(|| connected[self.rng.usize(0..connected.len())])
    }
}
