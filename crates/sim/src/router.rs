//! A router that answers differently each time, and what a server knows about topics on other
//! shards.

use std::collections::BTreeMap;

use driftq_checker::history::Name;
use driftq_core::command::{Produce, Seen};
use driftq_core::{Routing, ShardId};

use crate::world::World;

/// Upper bound for the numbers of short-lived topics.
const BRIEFS: u32 = 12;

impl World {
    /// A topic that exists, existed or will exist.
    pub(crate) fn some_target(&mut self) -> Name {
        let topics = self.facts.topics();
        match self.rng.u32(0..5) {
            1.. if !topics.is_empty() => topics[self.rng.usize(0..topics.len())].clone(),
            _ => format!("brief-{}", self.rng.u32(1..BRIEFS)).into(),
        }
    }

    /// The decision of the router, if it makes one.
    pub(crate) fn ask_router(&mut self) -> Option<Box<Routing>> {
        let target_topic = (self.rng.u32(0..6) != 0).then(|| self.some_target());
        let label = "some".into();
        let meta = BTreeMap::new();
        Some(Box::new(Routing { label, target_topic, partition_override: None, meta }))
    }

    /// Sets what the server knows about topics on other shards than the one it calls. It may be out
    /// of date when it is used, or missing because the server got no reply.
    pub(crate) fn set_remote_topics(&mut self, shard: ShardId, produce: &mut Produce) {
        let shards = self.nodes.len() as u32;
        produce.seen = None;
        for name in produce.remote_topics(shard, shards) {
            if self.rng.u32(0..3) == 0 {
                continue;
            }
            match self.facts.partitions(&name.topic) {
                Some(partitions) => produce.seen = Some(Seen::Partitions(partitions)),
                None => {
                    produce.seen = Some(Seen::Absent);
                    return;
                }
            }
        }
    }
}
