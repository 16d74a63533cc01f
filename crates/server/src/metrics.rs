//! Metrics for Prometheus.
//!
//! 1. `HELP` describes every metric. `docs/how-to/monitor.md` repeats it, and a test compares them.
//! 2. Labels are bounded. Fixed label values exist from the start. Topics, groups and the shards
//!    served here are listed up to a limit.
//! 3. Counters count when changes become durable. Gauges are computed when the page is read, so
//!    that a deleted group disappears from the page.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use driftq_api::words::ExhaustedReason;
use driftq_core::activity::{Activity, DeliveryEvent, RedeliveryCause};
use driftq_core::command::BeginDecision;
use driftq_core::effect::EffectState;
use driftq_core::view::{AllViews, Blocked, CursorView};
use driftq_core::{Batch, CommandResult, DeathReason, Rejection, Reply, Timestamp};
use metrics::{Counter, Histogram, Key, Label, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

use crate::series::{OTHER, SeriesOf, Totals};
use crate::shard_stats::ShardCounts;

/// Maximum number of shards listed by number. A node that serves more lists the first ones.
const SHARDS_MAX: usize = 128;
/// Number of samples after which histograms are aggregated. Until then, each sample is kept in
/// memory.
const SAMPLES_MAX: u32 = 4_096;

const META: Metadata<'static> = Metadata::new("driftq", Level::INFO, None);

/// The description of each metric.
const HELP: &[(&str, &str)] = &[
    (
        "driftq_build_info",
        "Always 1. The labels are the version, the commit and the storage engine.",
    ),
    ("driftq_ready", "1 while /v1/readyz reports ready, else 0."),
    ("driftq_produced_total", "Messages stored, redriven ones included."),
    ("driftq_refused_total", "Requests rejected because a limit was reached, by limit."),
    ("driftq_delivered_total", "Deliveries to all groups."),
    ("driftq_redelivered_total", "Deliveries after the first, by how the previous one ended."),
    ("driftq_acked_total", "Deliveries acked."),
    ("driftq_nacked_total", "Nacks after which the message is retried."),
    ("driftq_lease_expired_total", "Expired leases after which the message is retried."),
    ("driftq_returned_total", "Deliveries returned without counting as an attempt."),
    (
        "driftq_settled_by_owner_total",
        "Settles by owner name instead of token, from DriftQ-Core v1 clients. They are not fenced.",
    ),
    ("driftq_dead_letters_total", "Messages that became dead letters, by reason."),
    ("driftq_redriven_total", "Dead letters redriven to their group."),
    ("driftq_effects_total", "Decisions about effects."),
    (
        "driftq_router_messages_total",
        "Messages that the router was asked about: routed, unrouted because it chose nothing, failed because it made no decision. Those routed whose decision could not be followed are also counted as ignored.",
    ),
    ("driftq_router_calls_total", "Calls of the router hook, by how they ended."),
    ("driftq_router_call_seconds", "Time of a call of the router hook."),
    ("driftq_topic_produced_total", "Messages stored in the topic, redriven ones included."),
    ("driftq_topic_produced_bytes_total", "Bytes of those messages."),
    ("driftq_topic_dead_lettered_total", "Messages of the topic that became dead letters."),
    ("driftq_group_delivered_total", "Deliveries to the group, repeated ones included."),
    ("driftq_group_redelivered_total", "Repeated deliveries to the group."),
    ("driftq_group_acked_total", "Deliveries of the group acked."),
    ("driftq_group_nacked_total", "Nacks of the group after which the message is retried."),
    (
        "driftq_group_expired_total",
        "Expired leases of the group after which the message is retried.",
    ),
    (
        "driftq_group_returned_total",
        "Deliveries of the group returned without counting as an attempt.",
    ),
    (
        "driftq_group_dead_lettered_total",
        "Messages that failed in the group and became dead letters.",
    ),
    ("driftq_group_redriven_total", "Dead letters redriven to the group."),
    ("driftq_dead_letters", "Dead letters that the topic holds now."),
    ("driftq_stored_messages", "Messages the topic keeps, settled ones included."),
    ("driftq_stored_bytes", "Bytes of the keys and values of those messages."),
    ("driftq_backlog", "Messages the group has not settled."),
    ("driftq_in_flight", "Messages of the group that are leased to a consumer."),
    ("driftq_waiting", "Messages of the group that wait for a retry."),
    (
        "driftq_oldest_unsettled_seconds",
        "Age of the oldest unsettled message, delivered or not, counted from produce.",
    ),
    (
        "driftq_consumers",
        "Consumers of the group that are present: they have a stream or poll, hold a lease, or were seen in the last 10 s.",
    ),
    ("driftq_paused", "1 while the group is paused, else 0."),
    (
        "driftq_quarantined",
        "Partitions that deliver nothing to the group because stored rows are damaged.",
    ),
    ("driftq_commit_seconds", "Time until a batch was durable."),
    ("driftq_commit_commands", "Commands per committed batch."),
    ("driftq_shard_lost_total", "Times a shard was lost and had to be recovered from storage."),
    ("driftq_shards", "Shards that this node serves now."),
    ("driftq_shard_commits_total", "Batches of the shard that became durable here."),
    ("driftq_shard_commands_total", "Commands in those batches."),
    ("driftq_shard_commit_seconds_total", "Total seconds until those batches were durable."),
    ("driftq_storage_free_bytes", "Bytes that can still be written to the data directory."),
    (
        "driftq_clock_ahead_seconds",
        "Seconds by which the clock jumped ahead while the server ignores the jump, else 0.",
    ),
    (
        "driftq_clock_behind_seconds",
        "Seconds by which the clock is behind the server's own time, else 0.",
    ),
    (
        "driftq_clock_unchecked_total",
        "1 if the server could not check the clock when it started, else 0.",
    ),
    (
        "driftq_requests_total",
        "Requests answered, by status class. 429 and 503 are counted separately.",
    ),
    ("driftq_request_seconds", "Time to the answer, including the wait of a poll."),
];

/// Status classes. 429 and 503, which mean "retry later", are counted separately.
const CLASSES: [&str; 5] = ["2xx", "4xx", "429", "503", "5xx"];
/// How a delivery that was not the last one ended.
const CAUSES: [&str; 3] = ["expired", "nacked", "returned"];
const DEATHS: [&str; 4] = ["exhausted", "rejected", "deadline", "undeliverable"];
/// Decisions about effects. A `begin` is answered with one of the first seven.
const EFFECTS: [&str; 12] = [
    "execute",
    "probe",
    "replay",
    "retryable",
    "in_progress",
    "parked",
    "conflict",
    "succeeded",
    "failed_final",
    "failed_retryable",
    "unknown",
    "stale",
];

/// The result of asking the router about a message.
const ROUTED: [&str; 4] = ["routed", "unrouted", "failed", "ignored"];
/// How a call of the router hook ended.
const ROUTER_CALLS: [&str; 7] =
    ["ok", "timeout", "unreachable", "status", "too_large", "invalid", "abandoned"];

/// The index in `EFFECTS` for an answer.
fn effect(answered: &CommandResult) -> Option<usize> {
    let word = match answered {
        Ok(Reply::Began(began)) => match began.decision {
            BeginDecision::Execute => "execute",
            BeginDecision::Probe => "probe",
            BeginDecision::Replay => "replay",
            BeginDecision::Retryable => "retryable",
        },
        Ok(Reply::Finished { effect, repeated: false }) => match effect.state {
            EffectState::Succeeded => "succeeded",
            EffectState::FailedFinal => "failed_final",
            EffectState::FailedRetryable => "failed_retryable",
            EffectState::InProgress | EffectState::InDoubt | EffectState::Parked => "unknown",
        },
        Err(Rejection::InProgress { .. }) => "in_progress",
        Err(Rejection::Parked { .. }) => "parked",
        Err(Rejection::RequestConflict | Rejection::OutcomeConflict) => "conflict",
        Err(Rejection::StaleFence { .. }) => "stale",
        _ => {
            return None;
        }
    };
    EFFECTS.iter().position(|known| *known == word)
}

/// The limits whose rejections are counted, by label.
const LIMITS: [(ExhaustedReason, &str); 7] = [
    (ExhaustedReason::PartitionBufferFull, "partition_buffer_full"),
    (ExhaustedReason::PartitionBufferBytesFull, "partition_buffer_bytes_full"),
    (ExhaustedReason::StorageLow, "storage_low"),
    (ExhaustedReason::OutboxFull, "outbox_full"),
    (ExhaustedReason::Topics, "topics"),
    (ExhaustedReason::Cursors, "cursors"),
    (ExhaustedReason::Memory, "memory"),
];

fn class(status: u16) -> usize {
    match status {
        200..=299 => 0,
        429 => 2,
        400..=499 => 1,
        503 => 3,
        _ => 4,
    }
}

fn redelivery(cause: RedeliveryCause) -> usize {
    match cause {
        RedeliveryCause::Expired => 0,
        RedeliveryCause::Nacked => 1,
        RedeliveryCause::Returned => 2,
    }
}

fn death(reason: DeathReason) -> usize {
    match reason {
        DeathReason::Exhausted => 0,
        DeathReason::Final => 1,
        DeathReason::Deadline => 2,
        DeathReason::Undeliverable => 3,
    }
}

/// The metrics of one server.
pub struct Metrics {
    handle: PrometheusHandle,
    /// Samples since the histograms were last aggregated.
    samples: AtomicU32,
    produced: Counter,
    refused: [Counter; LIMITS.len()],
    delivered: Counter,
    redelivered: [Counter; CAUSES.len()],
    acked: Counter,
    nacked: Counter,
    expired: Counter,
    returned: Counter,
    settled_by_owner: Counter,
    dead_letters: [Counter; DEATHS.len()],
    redriven: Counter,
    effects: [Counter; EFFECTS.len()],
    routed: [Counter; ROUTED.len()],
    router_calls: [Counter; ROUTER_CALLS.len()],
    router_call_seconds: Histogram,
    commit_seconds: Histogram,
    commit_commands: Histogram,
    shard_lost: Counter,
    clock_unchecked: Counter,
    requests: [Counter; CLASSES.len()],
    request_seconds: Histogram,
    /// Free bytes of the storage; `u64::MAX` if it has no limit.
    room: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let seconds =
            [0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
        let sizes = [1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0];
        let ending = |suffix: &str| Matcher::Suffix(suffix.to_owned());
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(ending("_seconds"), &seconds)
            .and_then(|builder| builder.set_buckets_for_metric(ending("_commands"), &sizes))
            .expect("the buckets are not empty")
            .build_recorder();
        describe(&recorder);
        let counter = |name| recorder.register_counter(&Key::from_static_name(name), &META);
        let histogram = |name| recorder.register_histogram(&Key::from_static_name(name), &META);
        let labelled = |name, label, value| {
            let labels = vec![Label::from_static_parts(label, value)];
            recorder.register_counter(&Key::from_parts(name, labels), &META)
        };
        Metrics {
            handle: recorder.handle(),
            samples: AtomicU32::new(0),
            produced: counter("driftq_produced_total"),
            refused: LIMITS.map(|(_, label)| labelled("driftq_refused_total", "reason", label)),
            delivered: counter("driftq_delivered_total"),
            redelivered: CAUSES.map(|what| labelled("driftq_redelivered_total", "cause", what)),
            acked: counter("driftq_acked_total"),
            nacked: counter("driftq_nacked_total"),
            expired: counter("driftq_lease_expired_total"),
            returned: counter("driftq_returned_total"),
            settled_by_owner: counter("driftq_settled_by_owner_total"),
            dead_letters: DEATHS.map(|why| labelled("driftq_dead_letters_total", "reason", why)),
            redriven: counter("driftq_redriven_total"),
            effects: EFFECTS.map(|what| labelled("driftq_effects_total", "decision", what)),
            routed: ROUTED.map(|what| labelled("driftq_router_messages_total", "result", what)),
            router_calls: ROUTER_CALLS
                .map(|how| labelled("driftq_router_calls_total", "result", how)),
            router_call_seconds: histogram("driftq_router_call_seconds"),
            commit_seconds: histogram("driftq_commit_seconds"),
            commit_commands: histogram("driftq_commit_commands"),
            shard_lost: counter("driftq_shard_lost_total"),
            clock_unchecked: counter("driftq_clock_unchecked_total"),
            requests: CLASSES.map(|class| labelled("driftq_requests_total", "status", class)),
            request_seconds: histogram("driftq_request_seconds"),
            room: AtomicU64::new(u64::MAX),
        }
    }
}

/// The exporter keeps one description per name, whatever the kind of metric.
fn describe(recorder: &PrometheusRecorder) {
    for (name, help) in HELP {
        recorder.describe_gauge((*name).into(), None, (*help).into());
    }
}

impl Metrics {
    /// Counts a batch that became durable after `took`.
    pub(crate) fn released(&self, batch: &Batch, took: Duration) {
        self.commit_seconds.record(took.as_secs_f64());
        self.commit_commands.record(batch.replies.len() as f64);
        self.sampled();
        for at in batch.replies.iter().filter_map(|(_, answered)| effect(answered)) {
            self.effects[at].increment(1);
        }
        batch.activity.iter().for_each(|activity| self.happened(activity));
    }

    fn happened(&self, activity: &Activity) {
        match activity {
            Activity::Produced { .. } => self.produced.increment(1),
            Activity::DeadLetter { reason: Some(reason), .. } => {
                self.dead_letters[death(*reason)].increment(1);
            }
            Activity::DeadLetter { reason: None, .. } => self.redriven.increment(1),
            Activity::Delivery { event, .. } => self.delivery(*event),
            Activity::TopicDeleted(_) | Activity::GroupDeleted { .. } => {}
        }
    }

    fn delivery(&self, event: DeliveryEvent) {
        match event {
            DeliveryEvent::Delivered => self.delivered.increment(1),
            DeliveryEvent::Redelivered(cause) => {
                self.delivered.increment(1);
                self.redelivered[redelivery(cause)].increment(1);
            }
            DeliveryEvent::Acked => self.acked.increment(1),
            DeliveryEvent::Nacked => self.nacked.increment(1),
            DeliveryEvent::Expired => self.expired.increment(1),
            DeliveryEvent::Returned => self.returned.increment(1),
        }
    }

    /// Counts a message that the router was asked about, with one of `ROUTED`.
    pub(crate) fn routed(&self, result: &str) {
        let at = ROUTED.iter().position(|known| *known == result).expect("a known result");
        self.routed[at].increment(1);
    }

    /// Counts a call of the router hook, which ended with one of `ROUTER_CALLS`.
    pub(crate) fn router_called(&self, result: &str, took: Duration) {
        let at = ROUTER_CALLS.iter().position(|known| *known == result).expect("a known result");
        self.router_calls[at].increment(1);
        self.router_call_seconds.record(took.as_secs_f64());
    }

    /// Counts a shard whose copy in memory was dropped.
    pub(crate) fn lost(&self) {
        self.shard_lost.increment(1);
    }

    /// Counts a start without a stored time to check the clock against.
    pub(crate) fn unchecked_clock(&self) {
        self.clock_unchecked.increment(1);
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, status: u16, took: Duration) {
        self.requests[class(status)].increment(1);
        self.request_seconds.record(took.as_secs_f64());
        self.sampled();
    }

    /// Sets the bytes that can still be written.
    pub(crate) fn room(&self, bytes: u64) {
        self.room.store(bytes, Ordering::Relaxed);
    }

    /// Counts a request that was rejected because a limit is reached.
    pub(crate) fn refused(&self, reason: ExhaustedReason) {
        if let Some(at) = LIMITS.iter().position(|(limit, _)| *limit == reason) {
            self.refused[at].increment(1);
        }
    }

    /// Counts a settle without a token.
    pub(crate) fn settled_by_owner(&self) {
        self.settled_by_owner.increment(1);
    }

    /// Aggregates the histograms after enough samples. Without this, samples would pile up if the
    /// page is never read.
    fn sampled(&self) {
        if self.samples.fetch_add(1, Ordering::Relaxed) >= SAMPLES_MAX {
            self.samples.store(0, Ordering::Relaxed);
            self.handle.run_upkeep();
        }
    }

    /// The bytes that can still be written, if the storage has a limit.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let room = self.room.load(Ordering::Relaxed);
        (room < u64::MAX).then_some(room)
    }

    /// Renders the page that Prometheus reads: counters and current gauges.
    pub(crate) fn page(&self, now: &Now) -> String {
        self.handle.render() + &now.page(self.free_bytes()) + &process_page()
    }
}

/// The values of the gauges.
pub(crate) struct Now {
    pub(crate) at: Timestamp,
    pub(crate) is_ready: bool,
    /// The forward jump of the clock that is held back.
    pub(crate) clock_ahead_ms: u64,
    pub(crate) clock_behind_ms: u64,
    /// `None` while a shard does not answer.
    pub(crate) views: Option<Box<AllViews>>,
    /// Counts since the process started.
    pub(crate) topics: Totals,
    pub(crate) groups: Totals,
    /// Version, commit and engine.
    pub(crate) build: [&'static str; 3],
    /// The shards served by this node.
    pub(crate) shards: Vec<ShardCounts>,
}

impl Now {
    fn page(&self, room: Option<u64>) -> String {
        let recorder = PrometheusBuilder::new().build_recorder();
        describe(&recorder);
        let gauge = |name: &'static str, labels: &[Label], value: f64| {
            recorder.register_gauge(&Key::from_parts(name, labels.to_vec()), &META).set(value);
        };
        gauge("driftq_ready", &[], f64::from(u8::from(self.is_ready)));
        gauge("driftq_clock_ahead_seconds", &[], self.clock_ahead_ms as f64 / 1_000.0);
        gauge("driftq_clock_behind_seconds", &[], self.clock_behind_ms as f64 / 1_000.0);
        if let Some(bytes) = room {
            gauge("driftq_storage_free_bytes", &[], bytes as f64);
        }
        gauge("driftq_shards", &[], self.shards.len() as f64);
        for shard in self.shards.iter().take(SHARDS_MAX) {
            let labels = vec![Label::new("shard", shard.shard.to_string())];
            let counter = |name: &'static str, value: u64| {
                let key = Key::from_parts(name, labels.clone());
                recorder.register_counter(&key, &META).absolute(value);
            };
            counter("driftq_shard_commits_total", shard.commits);
            counter("driftq_shard_commands_total", shard.commands);
            gauge(COMMIT_SECONDS, &labels, shard.commit_time.as_secs_f64());
        }
        let [version, commit, engine] = self.build;
        let build = [("version", version), ("commit", commit), ("engine", engine)];
        let build = build.map(|(label, value)| Label::from_static_parts(label, value));
        gauge("driftq_build_info", &build, 1.0);
        self.counters(&recorder);
        self.gauges(&gauge);
        // The exporter has no counters with fractions.
        let kind = |kind: &str| format!("# TYPE {COMMIT_SECONDS} {kind}\n");
        let (as_gauge, as_counter) = (kind("gauge"), kind("counter"));
        recorder.handle().render().replace(&as_gauge, &as_counter)
    }

    /// The counters of topics and groups.
    fn counters(&self, recorder: &PrometheusRecorder) {
        let all: [(&Totals, &[&'static str], &[&'static str]); 2] = [
            (&self.topics, TOPIC_TOTALS, &["topic"]),
            (&self.groups, GROUP_TOTALS, &["topic", "group"]),
        ];
        for (totals, names, labels) in all {
            let counter = |labels: Vec<Label>, counts: &[u64]| {
                for (name, count) in names.iter().zip(counts) {
                    let key = Key::from_parts(*name, labels.clone());
                    recorder.register_counter(&key, &META).absolute(*count);
                }
            };
            for (of, counts) in &totals.named {
                counter(labels_of(of), counts);
            }
            if let Some(other) = totals.other() {
                let other_label = |label: &&'static str| Label::from_static_parts(label, OTHER);
                counter(labels.iter().map(other_label).collect(), other);
            }
        }
    }

    /// The gauges of the topics and groups that have a name of their own.
    fn gauges(&self, gauge: &impl Fn(&'static str, &[Label], f64)) {
        let Some(views) = &self.views else { return };
        let has_name = |totals: &Totals, of: SeriesOf| totals.named.contains_key(&of);
        for topic in &views.topics {
            if !has_name(&self.topics, SeriesOf::Topic(topic.name.clone())) {
                continue;
            }
            let labels = [Label::new("topic", topic.name.to_string())];
            let kept = topic.partitions.iter().map(|lane| lane.high - lane.first).sum::<u64>();
            let bytes = topic.partitions.iter().map(|lane| lane.bytes).sum::<u64>();
            gauge("driftq_stored_messages", &labels, kept as f64);
            gauge("driftq_stored_bytes", &labels, bytes as f64);
            gauge("driftq_dead_letters", &labels, topic.dead_letters as f64);
        }
        for group in &views.groups {
            let (topic, name) = (group.topic.clone(), group.name.clone());
            if !has_name(&self.groups, SeriesOf::Group { topic, group: name }) {
                continue;
            }
            let labels = [
                Label::new("topic", group.topic.to_string()),
                Label::new("group", group.name.to_string()),
            ];
            let sum =
                |of: fn(&CursorView) -> u64| group.partitions.iter().map(of).sum::<u64>() as f64;
            gauge("driftq_backlog", &labels, sum(|cursor| cursor.backlog));
            gauge("driftq_in_flight", &labels, sum(|cursor| cursor.leased));
            gauge("driftq_waiting", &labels, sum(|cursor| cursor.waiting));
            gauge("driftq_consumers", &labels, group.present as f64);
            gauge("driftq_paused", &labels, f64::from(u8::from(group.paused.is_some())));
            let quarantined = sum(|cursor| u64::from(cursor.blocked == Some(Blocked::Quarantined)));
            gauge("driftq_quarantined", &labels, quarantined);
            let age_ms = group.oldest_unsettled_at.map_or(0, |since| self.at.since(since));
            gauge("driftq_oldest_unsettled_seconds", &labels, age_ms as f64 / 1_000.0);
        }
    }
}

const COMMIT_SECONDS: &str = "driftq_shard_commit_seconds_total";

/// In the order in which a topic is counted.
const TOPIC_TOTALS: &[&str] = &[
    "driftq_topic_produced_total",
    "driftq_topic_produced_bytes_total",
    "driftq_topic_dead_lettered_total",
];
/// In the order in which a group is counted.
const GROUP_TOTALS: &[&str] = &[
    "driftq_group_delivered_total",
    "driftq_group_redelivered_total",
    "driftq_group_acked_total",
    "driftq_group_nacked_total",
    "driftq_group_expired_total",
    "driftq_group_returned_total",
    "driftq_group_dead_lettered_total",
    "driftq_group_redriven_total",
];

fn labels_of(of: &SeriesOf) -> Vec<Label> {
    match of {
        SeriesOf::Shard(shard) => vec![Label::new("shard", shard.to_string())],
        SeriesOf::Topic(topic) => vec![Label::new("topic", topic.to_string())],
        SeriesOf::Group { topic, group } => {
            vec![Label::new("topic", topic.to_string()), Label::new("group", group.to_string())]
        }
    }
}

/// The metrics of the process: memory, CPU time, open files.
fn process_page() -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        let process = metrics_process::Collector::default();
        process.describe();
        process.collect();
    });
    recorder.handle().render()
}
