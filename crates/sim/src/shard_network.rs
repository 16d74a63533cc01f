//! The network between shards: it loses, delays, repeats and reorders messages and replies.

use driftq_core::command::{Arrive, Arrived};
use driftq_core::{Command, NodeId, ShardId};

use crate::world::{Between, SimEvent, World};

/// The longest delay of a message: longer than a shard waits before it sends again.
const WAY_MS_MAX: u64 = 9_000;

impl World {
    /// The delay of each copy of a message to another shard.
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

    /// Sends messages to another shard, at the node that `from` believes to serve it.
    pub(crate) fn carry(&mut self, from: Option<NodeId>, target: ShardId, arrive: &Arrive) {
        let mut between = None;
        if let Some(from) = from {
            let Some((to, epoch)) = self.hosts.route(from, target) else { return };
            between = Some(Between { from, to, epoch });
        }
        for way in self.ways() {
            let arrive = Box::new(arrive.clone());
            self.later(way, SimEvent::Carried { target, arrive, between });
        }
    }

    /// Messages reach the other shard. If it is not served, they are dropped and sent again later.
    pub(crate) fn carried(
        &mut self,
        target: ShardId,
        arrive: Box<Arrive>,
        between: Option<Between>,
    ) {
        let life = match between {
            None => self.node(target).map(|node| node.life),
            Some(Between { to, epoch, .. }) => {
                self.life_at(to, target).filter(|_| self.hosts.serves(to, target, epoch))
            }
        };
        let Some(life) = life else { return };
        let source = arrive.source;
        let ticket = self.send_command(life, Command::Arrive(arrive));
        if let (Some(ticket), Some(node)) = (ticket, self.alive(life)) {
            node.carried.insert(ticket, (source, between.map(|between| between.from)));
        }
        self.turn_node(life);
    }

    /// Sends the result to the source shard.
    pub(crate) fn answer_source(&mut self, source: ShardId, arrived: Arrived, at: Option<NodeId>) {
        for way in self.ways() {
            self.later(way, SimEvent::Told { source, arrived: arrived.clone(), at });
        }
    }

    /// The result reaches the source shard.
    pub(crate) fn source_answered(
        &mut self,
        source: ShardId,
        arrived: Arrived,
        at: Option<NodeId>,
    ) {
        let life = match at {
            None => self.node(source).map(|node| node.life),
            Some(host) => self.life_at(host, source),
        };
        let Some(life) = life else { return };
        self.send_command(life, Command::Arrived(Box::new(arrived)));
        self.turn_node(life);
    }
}
