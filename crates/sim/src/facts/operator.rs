//! Converts changes of operators to facts.

use std::collections::BTreeSet;

use driftq_checker::history::{Fact, Name, Settings as Told};
use driftq_core::change::PointerRow;
use driftq_core::command::PointerName;
use driftq_core::{DedupeCompare, Lane, Offset, Settings, ShardId, TopicId};

use crate::stats::Stats;

use super::{Facts, name, retry};

/// All settings as text, for comparison.
pub(crate) fn settings_text(settings: &Settings) -> Name {
    format!("{settings:?}").into()
}

/// The name of a pointer as one string.
pub(crate) fn pointer_text(name: &PointerName) -> Name {
    format!("{}/{}/{}", name.dataset, name.version, name.partition_key).into()
}

pub(super) fn set(topic: &Name, settings: &Settings) -> Fact {
    Fact::Set(Box::new(Told {
        topic: topic.clone(),
        retry: retry(&settings.retry_policy),
        max_in_flight: settings.max_in_flight,
        max_open: settings.max_open,
        dlq_retention_ms: settings.dlq_retention_ms,
        group_idle_ms: settings.group_idle_ms,
        dedupe_by_key: settings.dedupe_compare == DedupeCompare::Key,
        text: settings_text(settings),
    }))
}

impl Facts {
    /// The topics and cursor generations that exist on a shard.
    pub(crate) fn alive(&self, shard: ShardId) -> (BTreeSet<u64>, BTreeSet<u64>) {
        let there = if shard == self.shard { Some(&self.here) } else { self.elsewhere.get(&shard) };
        let topics = there.into_iter().flat_map(|there| there.topics.keys().map(|topic| topic.0));
        let groups = there.into_iter().flat_map(|there| there.groups.values());
        let generations = groups.flat_map(|group| group.generations.iter().copied());
        (topics.collect(), generations.collect())
    }

    /// Records that a dead letter was deleted.
    pub(super) fn dropped(
        &mut self,
        topic: TopicId,
        lane: Lane,
        offset: Offset,
        stats: &mut Stats,
    ) {
        if let Some(id) = self.here.letters.remove(&(topic, lane, offset)) {
            stats.saw("dead letter deleted");
            self.open.push(Fact::Dropped { id: name(id) });
        }
    }

    pub(super) fn pointed(&mut self, row: &PointerRow, stats: &mut Stats) {
        stats.saw("pointer set");
        let pointer = &row.pointer;
        let (topic, name) = (self.topic_name(row.topic), pointer_text(&pointer.name));
        self.open.push(Fact::Pointed { topic, name, location: pointer.location.clone() });
    }

    /// The next offset of a group in a partition.
    pub(crate) fn next(&self, topic: &Name, group: &Name, partition: u32) -> Option<Offset> {
        let mut groups = self.all().flat_map(|numbers| {
            let is_of = |of: &TopicId| numbers.topic_name(*of) == *topic;
            numbers.groups.values().filter(move |known| known.name == *group && is_of(&known.topic))
        });
        groups.find_map(|group| group.next.get(partition as usize).copied())
    }
}
