//! Parameters that a seed chooses before the run: topics, settings, and the shape of the run.

use driftq_core::{DedupeCompare, RetryPolicy, SettingsPatch};

/// When faults end and everything must drain.
pub(crate) const HEAL_AT_MS: u64 = 540_000;
/// When a run ends.
pub(crate) const END_AT_MS: u64 = 600_000;

/// Number of shards: several in half of the runs.
pub(crate) fn shards(rng: &mut fastrand::Rng) -> u32 {
    if rng.bool() { 1 } else { rng.u32(2..5) }
}

/// Number of nodes: several in half of the runs.
pub(crate) fn nodes(seed: u64) -> u32 {
    if seed.is_multiple_of(2) { 2 + (seed / 2 % 3) as u32 } else { 1 }
}

/// The special property of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Usual,
    /// Hundreds of partitions.
    Partitions,
    /// The limit of open messages is so low that groups wait for each other.
    OpenLimit,
    /// A long backlog of pages with one message each, before the first consumer connects.
    Backlog,
}

/// The shape of a run. Half of the runs are usual.
pub(crate) fn shape(rng: &mut fastrand::Rng) -> Shape {
    match rng.u32(0..8) {
        0 => Shape::Partitions,
        1..3 => Shape::OpenLimit,
        3 => Shape::Backlog,
        _ => Shape::Usual,
    }
}

/// The maximum number of open messages of a shard.
pub(crate) fn open_max(rng: &mut fastrand::Rng, shape: Shape) -> u64 {
    match shape {
        Shape::OpenLimit => rng.u64(8..24),
        Shape::Usual | Shape::Partitions | Shape::Backlog => 1_000_000,
    }
}

/// When the consumers of a run connect.
pub(crate) fn consumers_at_ms(shape: Shape) -> u64 {
    match shape {
        Shape::Backlog => 240_000,
        Shape::Usual | Shape::Partitions | Shape::OpenLimit => 0,
    }
}

/// Number of message keys: enough for every partition.
pub(crate) fn keys(shape: Shape) -> u32 {
    match shape {
        Shape::Partitions => 4_000,
        Shape::Usual | Shape::OpenLimit | Shape::Backlog => 20,
    }
}

/// A topic of the run.
#[derive(Debug, Clone)]
pub(crate) struct TopicPlan {
    pub(crate) name: &'static str,
    pub(crate) partitions: u32,
    pub(crate) settings: SettingsPatch,
    pub(crate) groups: &'static [&'static str],
    /// Consumers of each group.
    pub(crate) consumers: u32,
}

/// The topics of a run.
pub(crate) fn topics(rng: &mut fastrand::Rng, shape: Shape) -> Vec<TopicPlan> {
    // In some runs, idle groups are deleted at the same time as messages are trimmed.
    let is_together = rng.u32(0..3) == 0;
    let (idle_ms, retention_ms) = if is_together {
        (Some(Some(60_000)), 60_000)
    } else {
        let idle_ms = (rng.u32(0..4) != 0).then(|| Some(rng.u64(60_000..70_000)));
        (idle_ms, rng.u64(0..60_000))
    };
    let retry_policy = Some(RetryPolicy {
        max_attempts: rng.i32(3..6),
        backoff_ms: rng.u64(50..400),
        max_backoff_ms: rng.u64(1_000..6_000),
    });
    let lease_ms = Some(rng.u64(1_500..6_000));
    // The shortest allowed retention, so that records expire within a run.
    let (dedupe_ttl_ms, effect_ttl_ms) = (Some(60_000), Some(60_000));
    let common = SettingsPatch {
        retry_policy,
        lease_ms,
        dedupe_ttl_ms,
        effect_ttl_ms,
        ..Default::default()
    };
    vec![
        TopicPlan {
            name: "wide",
            partitions: match shape {
                Shape::Partitions => rng.u32(200..400),
                Shape::Usual | Shape::OpenLimit | Shape::Backlog => rng.u32(2..6),
            },
            settings: SettingsPatch {
                max_in_flight: Some(rng.u32(3..12)),
                retention_ms: Some(retention_ms),
                group_idle_ms: idle_ms,
                dlq_retention_ms: rng.bool().then(|| Some(rng.u64(60_000..120_000))),
                ..common.clone()
            },
            groups: &["biller", "mailer"],
            consumers: rng.u32(2..4),
        },
        TopicPlan {
            name: "narrow",
            partitions: 1,
            settings: SettingsPatch {
                max_in_flight: Some(2),
                max_open: Some(rng.u32(2..5)),
                max_backlog_messages: Some(rng.u64(20..60)),
                retention_ms: Some(rng.u64(0..5_000)),
                group_idle_ms: rng.bool().then_some(Some(60_000)),
                ..common.clone()
            },
            groups: &["shipper"],
            consumers: 2,
        },
        TopicPlan {
            name: "small",
            partitions: 2,
            settings: SettingsPatch {
                max_backlog_bytes: Some(rng.u64(200..2_000)),
                retention_bytes: Some(rng.u64(0..4_000)),
                dedupe_compare: rng.bool().then_some(DedupeCompare::Key),
                ..common
            },
            groups: &["auditor"],
            consumers: 1,
        },
    ]
}
