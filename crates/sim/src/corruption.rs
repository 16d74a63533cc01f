//! Damages or loses stored pages in some runs. An operator repairs their partitions.

use driftq_checker::history::{Name, Op, What};
use driftq_core::command::{Repair, Repaired};
use driftq_core::row::Key;
use driftq_core::{Command, Lane, Offset, Reply, ShardId};

use crate::admin::topic_name;
use crate::world::{Client, Damage, Outcome, SimEvent, Task, World};

impl World {
    /// Schedules the loss of a few pages, in some runs.
    pub(crate) fn plan_corruption(&mut self) {
        if self.rng.u32(0..4) != 0 {
            return;
        }
        for _ in 0..self.rng.u32(1..4) {
            let at = self.rng.u64(30_000..400_000);
            self.later(at, SimEvent::Corrupt);
        }
    }

    /// Damages a page of a topic that is not a dead-letter topic.
    pub(crate) fn corrupt(&mut self) {
        let shard = ShardId(self.rng.u32(0..self.nodes.len() as u32));
        let mut pages: Vec<(Key, Name, Lane, Offset, Offset)> = Vec::new();
        let mut before = None;
        for key in self.engine.keys(shard) {
            let Key::Page { topic, lane, last } = key else { continue };
            let follows = before.filter(|(of, _)| *of == (topic, lane));
            let from = follows.map_or(0, |(_, last)| last + 1);
            before = Some(((topic, lane), last));
            let name = self.facts.topic_called(shard, topic);
            if let Some(name) = name.filter(|name| !name.starts_with("dlq.")) {
                pages.push((key, name, lane, from, last + 1));
            }
        }
        if pages.is_empty() {
            return;
        }
        let chosen = self.rng.usize(0..pages.len());
        let (key, topic, lane, from, to) = pages.swap_remove(chosen);
        let partition = lane.partition();
        let is_missing = self.rng.bool();
        self.engine.damage(shard, &key, is_missing);
        self.stats.saw("page damaged");
        let shard = shard.0;
        self.record(0, What::Corrupted { shard, topic: topic.clone(), partition, from, to });
        let damage = Damage { topic, partition };
        if !self.damages.contains(&damage) {
            self.damages.push(damage.clone());
        }
        let delay = self.rng.u64(500..20_000);
        self.later(delay, SimEvent::Repair { damage, from: 0 });
    }

    /// Repairs all damaged partitions again: a restored backup may contain pages that were repaired
    /// since.
    pub(crate) fn repair_all(&mut self) {
        for damage in self.damages.clone() {
            self.later(1_000, SimEvent::Repair { damage, from: 0 });
        }
    }

    /// Runs one step of a repair.
    pub(crate) fn repair(&mut self, damage: Damage, from: Offset) {
        let mut clients = self.clients.list.iter();
        let Some(client) = clients.position(|client| matches!(client, Client::Admin(_))) else {
            return;
        };
        let topic = topic_name(&damage.topic);
        let repair = Repair { topic, partition: damage.partition, from, dry_run: false };
        self.begin(client, Task::Repair(damage), Op::Look, Command::Repair(repair));
    }

    pub(crate) fn on_repair_reply(&mut self, damage: Damage, outcome: Outcome) {
        match outcome {
            Outcome::Done(Reply::Repaired(Repaired { next: None, .. })) => {
                self.stats.saw("partition repaired");
            }
            Outcome::Done(Reply::Repaired(Repaired { next: Some(from), .. })) => {
                self.repair(damage, from);
            }
            // The topic was deleted in the meantime.
            Outcome::Refused(_) => {}
            Outcome::Done(_) | Outcome::NotSent | Outcome::Unknown => {
                self.later(1_000, SimEvent::Repair { damage, from: 0 });
            }
        }
    }
}
