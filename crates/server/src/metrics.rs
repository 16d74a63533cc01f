//! Numbers for Prometheus. Labels are bounded: words of ours, and names of topics and groups up to a number.

use std::sync::Arc;
use std::time::Duration;

use driftq_core::Batch;
use driftq_core::change::{Change, Effect, End, EntryState};
use driftq_core::view::GroupView;
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

/// Groups that are shown by name; a server with more shows the first of them.
const GROUPS_MAX: usize = 1_000;

const META: Metadata<'static> = Metadata::new("driftq", Level::INFO, None);

/// The numbers of one server.
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    produced: Counter,
    delivered: Counter,
    acked: Counter,
    nacked: Counter,
    expired: Counter,
    returned: Counter,
    commit_seconds: Histogram,
    commit_commands: Histogram,
    shard_lost: Counter,
    /// By the class of their status.
    requests: [Counter; CLASSES.len()],
    request_seconds: Histogram,
    room: Gauge,
}

/// How often what was measured is put into its buckets: until then every value takes room.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Classes of statuses; the two that mean "later" are shown apart.
const CLASSES: [&str; 5] = ["2xx", "4xx", "429", "503", "5xx"];

fn class(status: u16) -> usize {
    match status {
        200..=299 => 0,
        429 => 2,
        400..=499 => 1,
        503 => 3,
        _ => 4,
    }
}

fn with_label(name: &'static str, label: &'static str, value: &'static str) -> Key {
    Key::from_parts(name, vec![Label::from_static_parts(label, value)])
}

impl Default for Metrics {
    fn default() -> Metrics {
        let buckets =
            [0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
        let sizes = [1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0];
        let suffix = metrics_exporter_prometheus::Matcher::Suffix;
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(suffix("_seconds".to_owned()), &buckets)
            .and_then(|builder| {
                builder.set_buckets_for_metric(suffix("_commands".to_owned()), &sizes)
            })
            .expect("there are buckets")
            .build_recorder();
        let counter = |name| recorder.register_counter(&Key::from_static_name(name), &META);
        let histogram = |name| recorder.register_histogram(&Key::from_static_name(name), &META);
        Metrics {
            produced: counter("driftq_produced_total"),
            delivered: counter("driftq_delivered_total"),
            acked: counter("driftq_acked_total"),
            nacked: counter("driftq_nacked_total"),
            expired: counter("driftq_lease_expired_total"),
            returned: counter("driftq_returned_total"),
            shard_lost: counter("driftq_shard_lost_total"),
            commit_seconds: histogram("driftq_commit_seconds"),
            commit_commands: histogram("driftq_commit_commands"),
            requests: CLASSES.map(|class| {
                let key = with_label("driftq_requests_total", "status", class);
                recorder.register_counter(&key, &META)
            }),
            request_seconds: histogram("driftq_request_seconds"),
            room: recorder
                .register_gauge(&Key::from_static_name("driftq_storage_free_bytes"), &META),
            handle: recorder.handle(),
            recorder,
        }
    }
}

impl Metrics {
    /// A batch became durable after so long.
    pub(crate) fn released(&self, batch: &Batch, took: Duration) {
        self.commit_seconds.record(took.as_secs_f64());
        self.commit_commands.record(batch.replies.len() as f64);
        for change in &batch.changes {
            self.changed(change);
        }
        let delivered = |effect: &&Effect| matches!(effect, Effect::Deliver(..));
        self.delivered.increment(batch.effects.iter().filter(delivered).count() as u64);
    }

    fn changed(&self, change: &Change) {
        if let Change::Message { message, .. } = change {
            if message.death.is_none() {
                self.produced.increment(1);
            }
        } else if let Change::Open { entry, .. } = change {
            match entry.state {
                EntryState::Leased => {}
                EntryState::Expired => self.expired.increment(1),
                EntryState::Nacked => self.nacked.increment(1),
                EntryState::Returned => self.returned.increment(1),
            }
        } else if let Change::Close { end: End::Acked, .. } = change {
            self.acked.increment(1);
        } else if let Change::Dead(dead) = change
            && dead.redriven.is_none()
        {
            self.labelled("driftq_dead_letters_total", "reason", dead.reason.as_str()).increment(1);
        }
    }

    /// The shard's copy was dropped.
    pub(crate) fn lost(&self) {
        self.shard_lost.increment(1);
    }

    /// A request was answered.
    pub(crate) fn answered(&self, status: u16, took: Duration) {
        self.requests[class(status)].increment(1);
        self.request_seconds.record(took.as_secs_f64());
    }

    /// So much more can be written.
    pub(crate) fn room(&self, bytes: u64) {
        self.room.set(bytes as f64);
    }

    /// Keeps what was measured small, also when nobody reads the page.
    pub(crate) async fn upkeep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(UPKEEP_EVERY).await;
            self.handle.run_upkeep();
        }
    }

    /// A produce was refused.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.labelled("driftq_refused_total", "reason", reason).increment(1);
    }

    fn labelled(&self, name: &'static str, label: &'static str, value: &'static str) -> Counter {
        self.recorder.register_counter(&with_label(name, label, value), &META)
    }

    /// How the groups are now.
    pub(crate) fn groups<'a>(&self, groups: impl Iterator<Item = &'a GroupView>) {
        for group in groups.take(GROUPS_MAX) {
            let sum = |of: fn(&driftq_core::view::CursorView) -> u64| {
                group.partitions.iter().map(of).sum::<u64>() as f64
            };
            self.gauge("driftq_backlog", group).set(sum(|cursor| cursor.backlog));
            self.gauge("driftq_in_flight", group).set(sum(|cursor| cursor.leased));
            self.gauge("driftq_waiting", group).set(sum(|cursor| cursor.waiting));
        }
    }

    fn gauge(&self, name: &'static str, group: &GroupView) -> Gauge {
        let labels = vec![
            Label::new("topic", group.topic.to_string()),
            Label::new("group", group.name.to_string()),
        ];
        self.recorder.register_gauge(&Key::from_parts(name, labels), &META)
    }

    /// The page that Prometheus reads.
    pub(crate) fn page(&self) -> String {
        self.handle.run_upkeep();
        self.handle.render()
    }
}
