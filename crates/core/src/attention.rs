//! What an operator should look at in the topics and groups of a server, worst first.

use crate::id::Text;
use crate::time::Timestamp;
use crate::view::{Blocked, CursorView, GroupView, TopicView};

/// Something that an operator should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attention {
    /// Its kind.
    pub kind: AttentionKind,
    /// One sentence about it.
    pub message: String,
    /// Since when, if that is known.
    pub since: Option<Timestamp>,
    /// The topic.
    pub topic: Text,
    /// The group.
    pub group: Option<Text>,
}

/// What needs attention, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttentionKind {
    /// Stored rows of a partition are damaged.
    Quarantined,
    /// A partition accepts no messages.
    PartitionFull,
    /// Messages wait, and the group has no consumer.
    NoConsumers,
    /// The group may open no more messages.
    OpenLimit,
    /// Messages wait, and the group is paused.
    Paused,
    /// Many deliveries fail.
    Failing,
    /// The topic has dead letters.
    DeadLetters,
}

/// Returns what an operator should look at, worst first.
pub fn attention(now: Timestamp, topics: &[TopicView], groups: &[GroupView]) -> Vec<Attention> {
    let of_topics = topics.iter().flat_map(of_topic);
    let full = topics.iter().filter_map(full);
    let of_groups = groups.iter().flat_map(|group| of_group(now, group));
    let mut all: Vec<Attention> = of_topics.chain(full).chain(of_groups).collect();
    // Of equal kinds, the oldest first.
    all.sort_by_key(|it| (it.kind, it.since.unwrap_or(Timestamp::MAX)));
    all
}

fn of_topic(topic: &TopicView) -> Option<Attention> {
    let count = topic.dead_letters;
    (count > 0).then(|| Attention {
        kind: AttentionKind::DeadLetters,
        message: format!("topic {} has {}", topic.name, plural(count, "dead letter")),
        since: None,
        topic: topic.name.clone(),
        group: None,
    })
}

fn full(topic: &TopicView) -> Option<Attention> {
    let count = topic.full_partitions;
    (count > 0).then(|| Attention {
        kind: AttentionKind::PartitionFull,
        message: format!(
            "topic {} has {}: produce requests to it get 429",
            topic.name,
            plural(count, "full partition")
        ),
        since: None,
        topic: topic.name.clone(),
        group: None,
    })
}

fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn of(group: &GroupView, kind: AttentionKind, message: String) -> Attention {
    let (topic, group, since) =
        (group.topic.clone(), group.name.clone(), group.oldest_unsettled_at);
    Attention { kind, message, since, topic, group: Some(group) }
}

fn of_group(now: Timestamp, group: &GroupView) -> Vec<Attention> {
    let sum = |count: fn(&CursorView) -> u64| group.partitions.iter().map(count).sum::<u64>();
    let count = |why: Blocked| group.partitions.iter().filter(|of| of.blocked == Some(why)).count();
    let backlog = sum(|of| of.backlog);
    let (name, topic) = (&group.name, &group.topic);
    let age = group.oldest_unsettled_at.map(|since| now.since(since) / 1_000);
    let age = age.map_or_else(String::new, |age| format!(", the oldest for {age} s"));
    let waiting = format!("{} in {topic}{age}", plural(backlog, "unsettled message"));
    let mut found = Vec::new();
    let damaged = count(Blocked::Quarantined);
    if damaged > 0 {
        let message = format!(
            "{damaged} partitions of {topic} deliver nothing to {name}: stored rows are damaged"
        );
        found.push(of(group, AttentionKind::Quarantined, message));
    }
    let recent = group.recent;
    if recent.failed >= FAILED_MIN && recent.failed > recent.acked {
        let message = format!(
            "deliveries to group {name} of {topic} fail: {} failed and {} acked in 15 s",
            recent.failed, recent.acked
        );
        found.push(of(group, AttentionKind::Failing, message));
    }
    if backlog == 0 {
        return found;
    }
    if let Some(paused) = &group.paused {
        let by = if paused.by.is_empty() { String::new() } else { format!(" by {}", paused.by) };
        let message = format!("group {name} is paused{by}: {waiting}");
        found.push(Attention {
            since: Some(paused.since),
            ..of(group, AttentionKind::Paused, message)
        });
    } else if count(Blocked::NoConsumers) > 0 {
        let message = format!("group {name} has no consumer: {waiting}");
        found.push(of(group, AttentionKind::NoConsumers, message));
    } else if count(Blocked::MaxOpen) + count(Blocked::OpenLimit) > 0 {
        let open = sum(|of| of.leased + of.waiting);
        let message =
            format!("group {name} has reached its limit of open messages ({open}): {waiting}");
        found.push(of(group, AttentionKind::OpenLimit, message));
    }
    found
}

/// Fewer failures in 15 s need no attention.
const FAILED_MIN: u64 = 3;
