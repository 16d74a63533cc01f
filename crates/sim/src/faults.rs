//! Faults: armed for a point in the life of a batch, and injected when the point is reached.

use driftq_checker::history::What;
use driftq_core::{ConsumerId, ShardId, Ticket};

use crate::sometimes::KINDS;
use crate::stats::Point;
use crate::world::{CallReply, SimEvent, World};

/// The first of them, which also apply to a single node.
const KINDS_ALONE: usize = 8;

/// Average time between faults.
const EVERY_MS: u64 = 4_500;

impl World {
    pub(crate) fn plan_fault(&mut self) {
        let delay = self.rng.u64(EVERY_MS / 2..EVERY_MS * 3 / 2);
        self.later(delay, SimEvent::Fault);
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
        // Operators often act while faults occur.
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

    /// Injects the armed fault when a batch of a shard reaches its point.
    pub(crate) fn reached(&mut self, shard: ShardId, point: Point) {
        let Some((kind, at)) = self.faults.armed else {
            return;
        };
        let Some(node) = self.node(shard).filter(|_| at == point) else {
            return;
        };
        let open = node.pipeline.shard().open_entries() > 0;
        self.faults.armed = None;
        self.stats.faults_under_load += u64::from(open || point != Point::Idle);
        *self.stats.faults.entry((kind, point)).or_default() += 1;
        for operation in self.clients.kinds.values() {
            *self.stats.struck.entry((*operation, kind)).or_default() += 1;
        }
        self.record(0, What::Fault { fault: kind.into(), point: point.as_str().into() });
        self.strike(kind, shard);
    }

    fn strike(&mut self, kind: &'static str, shard: ShardId) {
        match kind {
            // Ends the process and all shards it serves.
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
                let host = host.expect("these faults are armed only with several nodes");
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
                    self.later(1, SimEvent::Answer { ticket, reply: CallReply::Nothing });
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
                    connection.expect("it is connected").stalled_until = until;
                }
            }
            other => unreachable!("unknown fault {other}"),
        }
    }

    /// A shard loses its node. Its commits in flight take effect or not: all, up to some batch, or
    /// all but one.
    fn lose(&mut self, shard: ShardId) {
        let Some((life, host)) = self.node(shard).map(|node| (node.life, node.host)) else {
            return;
        };
        self.lose_commits(life);
        match host {
            Some(_) => self.later(0, SimEvent::CommitTimedOut { life, fenced: false }),
            None => self.end_life(life, false),
        }
    }

    /// Some commits that a life has in flight never take effect.
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
