//! Finds leaked rows: rows of deleted topics and generations that are not listed as garbage, so
//! nothing deletes them.

use std::collections::BTreeSet;

use driftq_checker::history::What;
use driftq_core::ShardId;
use driftq_core::row::Key;

use crate::world::World;

impl World {
    /// Counts leaked rows at the end of a run.
    pub(crate) fn look_for_leaks(&mut self) {
        for shard in (0..self.nodes.len() as u32).map(ShardId) {
            let keys = self.engine.keys(shard);
            let listed = keys
                .iter()
                .filter_map(|key| if let Key::Garbage { id } = key { Some(*id) } else { None });
            let listed: BTreeSet<u64> = listed.collect();
            let (topics, generations) = self.facts.alive(shard);
            let leaked = |key: &&Key| {
                let topic = topic_of(key);
                let generation = generation_of(key);
                let is_alive = topic.is_none_or(|topic| topics.contains(&topic))
                    && generation.is_none_or(|generation| generations.contains(&generation));
                let is_listed = topic.into_iter().chain(generation).any(|id| listed.contains(&id));
                !is_alive && !is_listed
            };
            let rows = keys.iter().filter(leaked).count() as u64;
            if let Some(example) = keys.iter().find(leaked) {
                let (shard, example) = (shard.0, format!("{example:?}").into());
                self.record(0, What::Leaked { shard, rows, example });
            }
        }
    }
}

/// The topic that a row belongs to, if it belongs to one.
fn topic_of(key: &Key) -> Option<u64> {
    if let Key::Lane { topic, .. }
    | Key::Page { topic, .. }
    | Key::Dead { topic, .. }
    | Key::Pointer { topic, .. }
    | Key::History { topic, .. } = key
    {
        return Some(topic.0);
    }
    None
}

/// The generation of a cursor that a row belongs to, if it belongs to one.
fn generation_of(key: &Key) -> Option<u64> {
    if let Key::Cursor { generation, .. }
    | Key::Block { generation, .. }
    | Key::Note { generation, .. }
    | Key::Held { generation, .. } = key
    {
        return Some(generation.0);
    }
    None
}
