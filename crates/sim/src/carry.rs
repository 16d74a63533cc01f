//! Between shards: messages that one has for another, over a network that loses, delays, repeats and
//! reorders them, and the answers too.

use driftq_core::command::{Arrive, Arrived};
use driftq_core::{Command, ShardId};

use crate::world::{Happening, World};

/// The longest something is on its way: longer than a shard waits before it sends again.
const WAY_MS_MAX: u64 = 9_000;

impl World {
    /// When each copy of something arrives that is sent to another shard.
    fn ways(&mut self) -> Vec<u64> {
        if self.clients.is_healed {
            return vec![self.delay(5)];
        }
        match self.rng.u32(0..100) {
            0..8 => {
                self.stats.saw("lost between shards");
                Vec::new()
            }
            8..16 => {
                self.stats.saw("repeated between shards");
                vec![self.delay(5), self.rng.u64(0..WAY_MS_MAX)]
            }
            16..24 => {
                self.stats.saw("late between shards");
                vec![self.rng.u64(0..WAY_MS_MAX)]
            }
            _ => vec![self.delay(5)],
        }
    }

    /// Messages are sent to another shard.
    pub(crate) fn carry(&mut self, target: ShardId, arrive: &Arrive) {
        for way in self.ways() {
            let arrive = Box::new(arrive.clone());
            self.later(way, Happening::Carried { target, arrive });
        }
    }

    /// They are there. If nobody serves it, they are sent again some time.
    pub(crate) fn carried(&mut self, target: ShardId, arrive: Box<Arrive>) {
        let Some(life) = self.node(target).map(|node| node.life) else { return };
        let source = arrive.source;
        let ticket = self.tell(life, Command::Arrive(arrive));
        if let (Some(ticket), Some(node)) = (ticket, self.node(target)) {
            node.carried.insert(ticket, source);
        }
        self.turn_node(life);
    }

    /// What became of them is told.
    pub(crate) fn tell_source(&mut self, source: ShardId, arrived: Arrived) {
        for way in self.ways() {
            self.later(way, Happening::Told { source, arrived: arrived.clone() });
        }
    }

    /// The shard they came from hears of it.
    pub(crate) fn told_source(&mut self, source: ShardId, arrived: Arrived) {
        let Some(life) = self.node(source).map(|node| node.life) else { return };
        self.tell(life, Command::Arrived(Box::new(arrived)));
        self.turn_node(life);
    }
}
