//! What happened in one shard since the last sample.

use std::collections::HashMap;

use driftq_core::activity::{Activity, DeliveryEvent};
use driftq_core::{GroupId, Shard, Text, Timestamp, TopicId};

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
    pub(super) gauges: Vec<u64>,
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

    /// Returns the counts and the deleted subjects, and starts again. A produce changes the backlog
    /// of every group of its topic, so all of them get new gauges. The gauges may be one batch ahead
    /// of what is durable.
    pub(crate) fn take(
        &mut self,
        shard: &Shard,
        number: u32,
        now: Timestamp,
    ) -> (Vec<Sample>, Vec<SeriesOf>) {
        let ShardActivity { shard: counts, topics, mut groups, deleted } = std::mem::take(self);
        let (subject, counts) = (SeriesOf::Shard(number), counts.to_vec());
        let mut samples = vec![Sample { subject, counts, gauges: Vec::new() }];
        for (topic, counts) in topics {
            let Some((name, readers)) = shard.topic_groups(topic) else { continue };
            for group in readers {
                groups.entry(group).or_default();
            }
            let (subject, counts) = (SeriesOf::Topic(name), counts.to_vec());
            samples.push(Sample { subject, counts, gauges: Vec::new() });
        }
        for (group, counts) in groups {
            let Some(view) = shard.group(group) else { continue };
            let sum = |of: fn(&driftq_core::view::CursorView) -> u64| {
                view.partitions.iter().map(of).sum::<u64>()
            };
            let age_ms = view.oldest_unsettled_at.map_or(0, |since| now.since(since));
            let gauges = vec![
                sum(|cursor| cursor.backlog),
                sum(|cursor| cursor.leased),
                sum(|cursor| cursor.waiting),
                age_ms / 1_000,
            ];
            let (topic, group): (Text, Text) = (view.topic, view.name);
            let subject = SeriesOf::Group { topic, group };
            samples.push(Sample { subject, counts: counts.to_vec(), gauges });
        }
        (samples, deleted)
    }
}
