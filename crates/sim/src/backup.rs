//! In some runs of one node, a backup of the storage and a restore from it. The restore discards
//! everything committed in between. Clients still hold the tokens and ids that were issued in
//! between.

use driftq_checker::history::What;
use driftq_core::ShardId;

use crate::facts::Facts;
use crate::world::{Backup, CallReply, SimEvent, World};

impl World {
    /// Schedules one restore, in some runs.
    pub(crate) fn plan_restore(&mut self) {
        if self.hosts.are_many() || self.rng.u32(0..4) != 0 {
            return;
        }
        let backup_at = self.rng.u64(60_000..300_000);
        let restore_at = backup_at + self.rng.u64(10_000..120_000);
        self.later(backup_at, SimEvent::BackUp);
        self.later(restore_at, SimEvent::Restore);
    }

    pub(crate) fn back_up(&mut self) {
        let seq = self.history.len() as u64 - 1;
        let (engine, facts) = (self.engine.snapshot(), self.facts.clone());
        self.backup = Some(Box::new(Backup { engine, facts, seq }));
    }

    /// Stops everything, restores the backup and starts everything again.
    pub(crate) fn restore_backup(&mut self) {
        let Some(backup) = self.backup.take() else { return };
        let lives: Vec<u64> = self.nodes.iter().flatten().map(|node| node.life).collect();
        for life in lives {
            self.drop_life(life);
        }
        self.forget_messages();
        self.stats.saw("storage restored");
        self.engine.restore(&backup.engine);
        self.facts.restore(backup.facts);
        self.restore += 1;
        self.record(0, What::Restored { to: backup.seq });
        for shard in 0..self.nodes.len() as u32 {
            self.start_node(ShardId(shard));
        }
        self.repair_all();
    }

    /// Drops the messages on the connections of the stopped process.
    fn forget_messages(&mut self) {
        self.change_queue(|happening| {
            if let SimEvent::Line { .. } | SimEvent::Carried { .. } | SimEvent::Told { .. } =
                happening
            {
                return None;
            }
            if let SimEvent::Answer { ticket, .. } = happening {
                return Some(SimEvent::Answer { ticket, reply: CallReply::Nothing });
            }
            Some(happening)
        });
    }
}

impl Facts {
    /// Replaces the committed facts by those of the backup. Keeps what clients know.
    fn restore(&mut self, backup: Facts) {
        let now = std::mem::replace(self, backup);
        self.requested = now.requested;
        self.asked_delays = now.asked_delays;
        self.credits = now.credits;
        self.dead = now.dead;
    }
}
