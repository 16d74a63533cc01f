//! What happened in one shard since the last sample.

use std::collections::HashMap;

use driftq_core::activity::{Activity, DeliveryEvent};
use driftq_core::view::{CursorView, GroupView};
use driftq_core::{GroupId, Shard, Timestamp, TopicId};

use super::{GROUP_COUNTERS, SHARD_COUNTERS, SeriesOf, TOPIC_COUNTERS};

/// What happened in one shard since the last sample.
#[derive(Debug, Default)]
pub(crate) struct ShardActivity {
    shard: [u64; SHARD_COUNTERS],
    topics: HashMap<TopicId, [u64; TOPIC_COUNTERS]>,
    groups: HashMap<GroupId, [u64; GROUP_COUNTERS]>,
    deleted: Vec<SeriesOf>,
}

/// The counts of a subject since the last sample, and its gauges.
pub(crate) struct Sample {
    pub(super) subject: SeriesOf,
    pub(super) counts: Vec<u64>,
    /// `None`: unknown.
    pub(super) gauges: Vec<Option<u64>>,
}

impl ShardActivity {
    /// Counts a durable batch of `commands` commands.
    pub(crate) fn add(&mut self, commands: usize, activity: &[Activity]) {
        self.shard[0] += 1;
        self.shard[1] += commands as u64;
        for activity in activity {
            match activity {
                Activity::Produced { topic, bytes } => {
                    let counts = self.topics.entry(*topic).or_default();
                    counts[0] += 1;
                    counts[1] += bytes;
                }
                Activity::DeadLetter { topic, group, reason } => {
                    if reason.is_some() {
                        self.topics.entry(*topic).or_default()[2] += 1;
                    }
                    if let Some(group) = group {
                        let counts = self.groups.entry(*group).or_default();
                        counts[if reason.is_some() { 6 } else { 7 }] += 1;
                    }
                }
                Activity::Delivery { group, event } => {
                    let counts = self.groups.entry(*group).or_default();
                    match event {
                        DeliveryEvent::Delivered => counts[0] += 1,
                        DeliveryEvent::Redelivered(_) => {
                            counts[0] += 1;
                            counts[1] += 1;
                        }
                        DeliveryEvent::Acked => counts[2] += 1,
                        DeliveryEvent::Nacked => counts[3] += 1,
                        DeliveryEvent::Expired => counts[4] += 1,
                        DeliveryEvent::Returned => counts[5] += 1,
                    }
                }
                Activity::TopicDeleted(topic) => self.deleted.push(SeriesOf::Topic(topic.clone())),
                Activity::GroupDeleted { topic, group } => {
                    let (topic, group) = (topic.clone(), group.clone());
                    self.deleted.push(SeriesOf::Group { topic, group });
                }
            }
        }
    }

    /// Returns the counts and the deleted subjects, and starts again. Groups that were active come
    /// first. The others are sampled as well, up to a limit, because their oldest message gets older.
    /// The gauges may be one batch ahead of what is durable.
    pub(crate) fn take(
        &mut self,
        shard: &Shard,
        number: u32,
        now: Timestamp,
    ) -> (Vec<Sample>, Vec<SeriesOf>) {
        let ShardActivity { shard: counts, topics, groups, deleted } = std::mem::take(self);
        let (subject, counts) = (SeriesOf::Shard(number), counts.to_vec());
        let mut samples = vec![Sample { subject, counts, gauges: Vec::new() }];
        for (topic, counts) in topics {
            let Some(name) = shard.topic_name(topic) else { continue };
            let (subject, counts) = (SeriesOf::Topic(name), counts.to_vec());
            samples.push(Sample { subject, counts, gauges: Vec::new() });
        }
        let active: Vec<GroupId> = groups.keys().copied().collect();
        let idle = shard.group_ids().filter(|group| !groups.contains_key(group));
        let mut cursors = 0;
        for group in active.into_iter().chain(idle) {
            let counts = groups.get(&group);
            if counts.is_none() && cursors >= CURSORS_MAX {
                break;
            }
            let Some(view) = shard.group(group) else { continue };
            cursors += view.partitions.len();
            samples.push(Sample {
                gauges: gauges(&view, now),
                counts: counts.map(|counts| counts.to_vec()).unwrap_or_default(),
                subject: SeriesOf::Group { topic: view.topic, group: view.name },
            });
        }
        (samples, deleted)
    }
}

/// A sample visits about this many cursors of groups that were not active. It must not delay the
/// requests of the shard.
const CURSORS_MAX: usize = 8_192;

fn gauges(view: &GroupView, now: Timestamp) -> Vec<Option<u64>> {
    let sum = |of: fn(&CursorView) -> u64| view.partitions.iter().map(of).sum::<u64>();
    let backlog = sum(|cursor| cursor.backlog);
    // The time of a message that was not delivered since the recovery may be unknown.
    let age_ms = match view.oldest_unsettled_at {
        Some(since) => Some(now.since(since)),
        None => (backlog == 0).then_some(0),
    };
    let (leased, waiting) = (sum(|cursor| cursor.leased), sum(|cursor| cursor.waiting));
    vec![Some(backlog), Some(leased), Some(waiting), age_ms.map(|age| age / 1_000)]
}
