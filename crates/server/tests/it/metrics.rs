//! Prometheus metrics.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::{place, token, wanted, with};

const MANUAL: &str = include_str!("../../../../docs/how-to/monitor.md");
const ALERTS: &str = include_str!("../../../../deploy/alerts.yml");

async fn page(broker: &Client) -> String {
    let answer = broker.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").starts_with("text/plain"), "{answer:?}");
    String::from_utf8(answer.body.to_vec()).expect("text")
}

/// The sum over the lines of a metric that contain `part`; None without such a line.
async fn metric(broker: &Client, name: &str, part: &str) -> Option<f64> {
    let page = page(broker).await;
    let lines = page.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(part))
    });
    let values = lines.map(|line| line.rsplit(' ').next().expect("a value"));
    values.map(|value| value.parse::<f64>().expect("a number")).reduce(|sum, value| sum + value)
}

/// A server whose page has every metric: one topic and one group on disk are enough.
async fn with_all() -> Broker {
    let broker = Broker::in_directory(|_| ()).await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    broker.receive("t", "g", "o").await;
    broker
}

/// Name, type, labels and help of every metric, as lines of a table.
fn lines_of(page: &str) -> BTreeSet<String> {
    let kinds = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    kinds
        .map(|(name, kind)| {
            format!("| `{name}` | {kind} | {} | {} |", labels(page, name), help(page, name))
        })
        .collect()
}

fn help<'a>(page: &'a str, name: &str) -> &'a str {
    let start = format!("# HELP {name} ");
    page.lines().find_map(|line| line.strip_prefix(start.as_str())).unwrap_or("without a meaning")
}

/// The labels of a metric, with their values if those are fixed words.
fn labels(page: &str, name: &str) -> String {
    let samples = page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    let sets = samples.filter_map(|rest| rest.split_once('}'));
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (label, value) in sets.flat_map(|(set, _)| set.split(',')).filter_map(|l| l.split_once('='))
    {
        let values = labels.entry(label).or_default();
        if !["topic", "group", "shard", "version", "commit", "engine"].contains(&label) {
            values.insert(value.trim_matches('"'));
        }
    }
    let shown = labels.into_iter().map(|(label, values)| {
        if values.is_empty() {
            label.to_owned()
        } else {
            format!("{label}: {}", values.into_iter().collect::<Vec<_>>().join(", "))
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn the_manual_lists_exactly_the_existing_metrics() {
    let broker = with_all().await;
    let shown = lines_of(&page(&broker).await);
    let is_row = |line: &&str| line.starts_with("| `driftq_") || line.starts_with("| `process_");
    let rows = MANUAL.lines().filter(is_row);
    let told: BTreeSet<String> = rows.map(str::to_owned).collect();
    let missing: Vec<_> = shown.difference(&told).collect();
    let invented: Vec<_> = told.difference(&shown).collect();
    assert!(missing.is_empty() && invented.is_empty(), "add {missing:#?}\nremove {invented:#?}");
}

#[tokio::test]
async fn alerts_use_existing_metrics_and_are_documented() {
    let broker = with_all().await;
    let page = page(&broker).await;
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut named = 0;
    for word in ALERTS.split(|c| !is_of_name(c)).filter(|word| word.starts_with("driftq_")) {
        let is_there = page
            .lines()
            .any(|line| line.strip_prefix(word).is_some_and(|rest| rest.starts_with(['{', ' '])));
        assert!(is_there, "{word} is not on the page");
        named += 1;
    }
    let alerts: Vec<&str> =
        ALERTS.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert_eq!(alerts.len(), 13);
    assert!(named >= alerts.len(), "an alert without a metric of DriftQ");
    for alert in alerts {
        assert!(MANUAL.contains(&format!("| `{alert}` |")), "the manual does not have {alert}");
    }
}

#[tokio::test]
async fn every_metric_name_starts_with_driftq_or_process() {
    let broker = with_all().await;
    let page = page(&broker).await;
    for line in page.lines().filter(|line| !line.is_empty()) {
        let name = line.strip_prefix("# TYPE ").or(line.strip_prefix("# HELP ")).unwrap_or(line);
        assert!(name.starts_with("driftq_") || name.starts_with("process_"), "{line}");
    }
}

#[tokio::test]
async fn events_are_counted() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_messages": 3 })).await;
    for value in ["a", "b", "c"] {
        broker.produce("t", value).await;
    }
    let full = json!({ "topic": "t", "value": "d" });
    broker.post("/v1/produce", full).await.refused(429, "RESOURCE_EXHAUSTED");
    let held = broker.receive_now("t", "g", "o").await;
    broker.ack(token(&held[0])).await.is(204);
    broker.nack(token(&held[1]), json!({ "delay_ms": 60_000 })).await.is(204);
    broker.nack(token(&held[2]), json!({ "dead_letter": true })).await.is(204);
    for (name, part, count) in [
        ("driftq_produced_total", "", 3.0),
        ("driftq_refused_total", "partition_buffer_full", 1.0),
        ("driftq_delivered_total", "", 3.0),
        ("driftq_acked_total", "", 1.0),
        ("driftq_nacked_total", "", 1.0),
        ("driftq_dead_letters_total", "rejected", 1.0),
        ("driftq_dead_letters_total", "exhausted", 0.0),
        ("driftq_dead_letters", "topic=\"t\"", 1.0),
        ("driftq_stored_messages", "topic=\"t\"", 3.0),
        ("driftq_stored_bytes", "topic=\"t\"", 3.0),
        ("driftq_backlog", "", 1.0),
        ("driftq_in_flight", "", 0.0),
        ("driftq_waiting", "", 1.0),
        ("driftq_paused", "", 0.0),
        ("driftq_ready", "", 1.0),
    ] {
        assert_eq!(metric(&broker, name, part).await, Some(count), "{name} {part}");
    }
    assert!(metric(&broker, "driftq_oldest_unsettled_seconds", "").await > Some(0.0));
}

#[tokio::test]
async fn rejected_messages_of_a_batch_are_counted() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "max_backlog_messages": 1 })).await;
    let one = json!({ "topic": "t", "value": "x" });
    broker.post("/v1/produce/batch", json!({ "messages": [one, one, one] })).await.is(200);
    let refused = metric(&broker, "driftq_refused_total", "partition_buffer_full").await;
    assert_eq!(refused, Some(2.0));
}

#[tokio::test]
async fn a_redelivery_is_counted_by_the_end_of_the_previous_attempt() {
    let broker = Broker::start().await;
    let policy = json!({ "max_attempts": 20, "backoff_ms": 1, "max_backoff_ms": 1 });
    broker.topic_with("t", 1, json!({ "retry_policy": policy })).await;
    broker.produce("t", "x").await;
    let short = with(wanted("t", "g", "o"), json!({ "lease_ms": 250 }));
    let first = broker.receive_with(short).await;
    // The next delivery happens after the lease has expired.
    let second = broker.receive("t", "g", "o").await;
    broker.nack(token(&first), json!({ "reason": "too late" })).await.refused(409, "STALE_LEASE");
    broker.extend(token(&second), json!({ "lease_ms": 60_000 })).await.is(200);
    broker.nack(token(&second), json!({ "reason": "broken" })).await.is(204);
    let third = broker.receive("t", "g", "o").await;
    broker.nack(token(&third), json!({ "release": true })).await.is(204);
    let fourth = broker.receive("t", "g", "o").await;
    broker.ack(place(&fourth, "o")).await.is(204);
    for (name, part, count) in [
        ("driftq_delivered_total", "", 4.0),
        ("driftq_redelivered_total", "expired", 1.0),
        ("driftq_redelivered_total", "nacked", 1.0),
        ("driftq_redelivered_total", "returned", 1.0),
        ("driftq_lease_expired_total", "", 1.0),
        ("driftq_nacked_total", "", 1.0),
        ("driftq_returned_total", "", 1.0),
        ("driftq_settled_by_owner_total", "", 1.0),
    ] {
        assert_eq!(metric(&broker, name, part).await, Some(count), "{name} {part}");
    }
}

#[tokio::test]
async fn a_nack_after_the_lease_expired_is_not_a_second_failure() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let short = with(wanted("t", "g", "o"), json!({ "lease_ms": 250 }));
    let held = broker.receive_with(short).await;
    broker.until_waiting("t", "g").await;
    broker.nack(token(&held), json!({ "reason": "it was slow" })).await.is(204);
    assert_eq!(metric(&broker, "driftq_lease_expired_total", "").await, Some(1.0));
    assert_eq!(metric(&broker, "driftq_nacked_total", "").await, Some(0.0));
}

#[tokio::test]
async fn a_redriven_dead_letter_is_counted_and_no_longer_dead() {
    let broker = with_all().await;
    broker.produce("t", "y").await;
    let held = broker.receive("t", "g", "o").await;
    broker.nack(token(&held), json!({ "dead_letter": true })).await.is(204);
    assert_eq!(metric(&broker, "driftq_dead_letters", "topic=\"t\"").await, Some(1.0));
    let all = json!({ "filter": { "group": "g" }, "by": "ops", "reason": "again" });
    broker.post("/v1/dlq/t/redrive", all).await.is(200);
    assert_eq!(metric(&broker, "driftq_redriven_total", "").await, Some(1.0));
    assert_eq!(metric(&broker, "driftq_dead_letters_total", "").await, Some(1.0));
    assert_eq!(metric(&broker, "driftq_dead_letters", "topic=\"t\"").await, Some(0.0));
}

#[tokio::test]
async fn a_deleted_group_is_removed_from_the_page() {
    let broker = with_all().await;
    assert_eq!(metric(&broker, "driftq_backlog", "group=\"g\"").await, Some(1.0));
    broker.delete("/v1/topics/t/groups/g?confirm=g").await.is(200);
    assert_eq!(metric(&broker, "driftq_backlog", "group=\"g\"").await, None);
}

#[tokio::test]
async fn pauses_and_consumers_are_reported() {
    let broker = with_all().await;
    broker.post("/v1/topics/t/groups/g/pause", json!({ "reason": "look" })).await.is(200);
    let _stream = broker.ask("POST", "/v1/consume").json(&wanted("t", "g", "o")).stream().await;
    let there = |group: &serde_json::Value| !crate::verbs::connections(group).is_empty();
    broker.until_group("t", "g", "a consumer", there).await;
    assert_eq!(metric(&broker, "driftq_paused", "").await, Some(1.0));
    assert_eq!(metric(&broker, "driftq_consumers", "").await, Some(1.0));
}

#[tokio::test]
async fn a_worker_between_two_polls_is_counted_as_a_consumer() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
    assert_eq!(metric(&broker, "driftq_consumers", "group=\"g\"").await, Some(0.0));
    for _ in 0..3 {
        assert!(broker.receive_now("t", "g", "a").await.is_empty());
        assert!(broker.receive_now("t", "g", "b").await.is_empty());
    }
    assert_eq!(metric(&broker, "driftq_consumers", "group=\"g\"").await, Some(2.0));
    broker.produce("t", "x").await;
    broker.receive("t", "g", "c").await;
    assert_eq!(metric(&broker, "driftq_consumers", "group=\"g\"").await, Some(3.0));
}

#[tokio::test]
async fn commands_and_commits_are_counted_per_shard() {
    let broker = Broker::with(|config| config.shards = Some(4)).await;
    assert_eq!(metric(&broker, "driftq_shards", "").await, Some(4.0));
    broker.topic("t").await;
    let before = metric(&broker, "driftq_shard_commands_total", "").await.expect("counted");
    for _ in 0..3 {
        broker.produce("t", "x").await;
    }
    let page = page(&broker).await;
    let of = |name: &str| page.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(of("driftq_shard_commits_total{shard="), 4, "{page}");
    let after = metric(&broker, "driftq_shard_commands_total", "").await.expect("counted");
    assert!(after >= before + 3.0, "{before} {after}");
}

#[tokio::test]
async fn the_page_accepts_no_parameters() {
    let broker = Broker::start().await;
    broker.get("/metrics?verbose=true").await.invalid("verbose");
}

#[tokio::test]
async fn decisions_about_effects_are_counted() {
    let broker = Broker::start().await;
    let begin = json!({ "scope": "op/x", "key": "k", "on_doubt": "park" });
    let began = broker.post("/v1/effects/begin", begin.clone()).await.is(200);
    broker.post("/v1/effects/begin", begin.clone()).await.refused(409, "IN_PROGRESS");
    let finish = json!({ "token": began["token"], "status": "SUCCEEDED" });
    for _ in 0..2 {
        broker.post("/v1/effects/finish", finish.clone()).await.is(200);
    }
    broker.post("/v1/effects/begin", begin).await.is(200);
    let counted = [
        ("execute", 1.0),
        ("in_progress", 1.0),
        ("succeeded", 1.0),
        ("replay", 1.0),
        ("parked", 0.0),
    ];
    for (decision, count) in counted {
        let seen = metric(&broker, "driftq_effects_total", decision).await;
        assert_eq!(seen, Some(count), "{decision}");
    }
}

#[tokio::test]
async fn events_are_counted_by_topic_and_group() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({})).await;
    for value in ["a", "b", "c"] {
        broker.produce("t", value).await;
    }
    let held = broker.receive_now("t", "g", "o").await;
    broker.ack(token(&held[0])).await.is(204);
    broker.nack(token(&held[1]), json!({ "delay_ms": 60_000 })).await.is(204);
    broker.nack(token(&held[2]), json!({ "dead_letter": true })).await.is(204);
    broker.topic("idle").await;
    let topic = "topic=\"t\"";
    let group = "group=\"g\"";
    for (name, part, count) in [
        ("driftq_topic_produced_total", topic, 3.0),
        ("driftq_topic_produced_bytes_total", topic, 3.0),
        ("driftq_topic_dead_lettered_total", topic, 1.0),
        ("driftq_topic_produced_total", "topic=\"idle\"", 0.0),
        ("driftq_group_delivered_total", group, 3.0),
        ("driftq_group_redelivered_total", group, 0.0),
        ("driftq_group_acked_total", group, 1.0),
        ("driftq_group_nacked_total", group, 1.0),
        ("driftq_group_dead_lettered_total", group, 1.0),
        ("driftq_build_info", "engine=", 1.0),
    ] {
        assert_eq!(metric(&broker, name, part).await, Some(count), "{name} {part}");
    }
    // The sum over all names is the total.
    let acked = metric(&broker, "driftq_group_acked_total", "").await;
    assert_eq!(acked, metric(&broker, "driftq_acked_total", "").await);
    assert_eq!(metric(&broker, "driftq_topic_produced_total", "_other").await, None);
    broker.delete("/v1/topics/t/groups/g?confirm=g").await.is(200);
    assert_eq!(metric(&broker, "driftq_group_acked_total", group).await, None);
    assert_eq!(metric(&broker, "driftq_group_acked_total", "_other").await, Some(1.0));
    assert!(metric(&broker, "process_resident_memory_bytes", "").await > Some(1e6));
    assert!(page(&broker).await.contains("# TYPE driftq_shard_commit_seconds_total counter\n"));
}

#[tokio::test]
async fn topics_beyond_the_limit_are_counted_together() {
    let broker = Broker::start().await;
    // Dead-letter topics count too, so there are 1 001 names.
    for number in 0..=1_000 {
        broker.topic(&format!("t{number:04}")).await;
    }
    broker.produce("t1000", "largest").await;
    let of =
        |name: &'static str| async { metric(&broker, "driftq_topic_produced_total", name).await };
    assert_eq!((of("t1000").await, of("t0999").await), (Some(1.0), None), "the largest has a name");
    broker.produce("t0999", "x").await;
    assert_eq!((of("t0999").await, of("_other").await), (None, Some(1.0)));
    broker.delete("/v1/topics/t0000?confirm=t0000").await.is(200);
    assert_eq!((of("t0999").await, of("_other").await), (Some(0.0), Some(1.0)));
    broker.produce("t0999", "x").await;
    assert_eq!((of("t0999").await, of("_other").await), (Some(1.0), Some(1.0)));
}
