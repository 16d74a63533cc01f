//! Conversions between types of the wire and types of the core.

use std::borrow::Cow;
use std::collections::BTreeMap;

use data_encoding::BASE64;
use driftq_api::death::{Death, Origin};
use driftq_api::message::{
    self as wire, Delivery as WireDelivery, Envelope as WireEnvelope, Lease, Redriven, Value,
};
use driftq_api::number::{BackoffMs, MaxAttempts, PartitionNumber, WorkerNumber};
use driftq_api::router::RouterMessage;
use driftq_api::worker::Worker;
use driftq_api::{Time, group, topic};
use driftq_core::change::Delivery;
use driftq_core::command::{self, Start};
use driftq_core::effect;
use driftq_core::view::{ConsumerView, CursorView, GroupView, OwnerView, TopicView};
use driftq_core::{Envelope, Extension, Message, RetryRequest, Routing, Text, Timestamp, Trace};

use super::settings;
use super::words::ToWire;
use crate::node::Minter;

pub(crate) fn time(at: Timestamp) -> Time {
    Time(at.0)
}

/// Empty strings count as absent.
fn given(text: Option<String>) -> Option<Text> {
    text.filter(|text| !text.is_empty()).map(Into::into)
}

pub(crate) fn envelope(envelope: WireEnvelope) -> Envelope {
    Envelope {
        run_id: given(envelope.run_id),
        step_id: given(envelope.step_id),
        parent_step_id: given(envelope.parent_step_id),
        tenant_id: given(envelope.tenant_id),
        idempotency_key: given(envelope.idempotency_key),
        target_topic: given(envelope.target_topic),
        partition_override: envelope.partition_override.map(PartitionNumber::get),
        deadline: envelope.deadline.map(|at| Timestamp(at.0)),
        retry_policy: envelope.retry_policy.map(|policy| RetryRequest {
            max_attempts: policy.max_attempts.map_or(0, MaxAttempts::get),
            backoff_ms: policy.backoff_ms.map(BackoffMs::get),
            max_backoff_ms: policy.max_backoff_ms.map(BackoffMs::get),
        }),
        extension: Extension::of(texts(envelope.labels), texts(envelope.headers)),
    }
}

fn texts(map: Option<BTreeMap<String, String>>) -> BTreeMap<Text, Text> {
    let map = map.unwrap_or_default().into_iter();
    map.map(|(name, value)| (name.into(), value.into())).collect()
}

/// Returns `None` for an empty envelope.
pub(crate) fn wire_envelope(envelope: &Envelope) -> Option<WireEnvelope> {
    if *envelope == Envelope::default() {
        return None;
    }
    let text = |text: &Option<Text>| text.as_deref().map(str::to_owned);
    Some(WireEnvelope {
        run_id: text(&envelope.run_id),
        step_id: text(&envelope.step_id),
        parent_step_id: text(&envelope.parent_step_id),
        tenant_id: text(&envelope.tenant_id),
        idempotency_key: text(&envelope.idempotency_key),
        target_topic: text(&envelope.target_topic),
        partition_override: envelope.partition_override.map(PartitionNumber::stored),
        deadline: envelope.deadline.map(time),
        retry_policy: envelope.retry_policy.map(|policy| wire::RetryPolicy {
            max_attempts: (policy.max_attempts != 0)
                .then(|| MaxAttempts::stored(policy.max_attempts)),
            backoff_ms: policy.backoff_ms.map(BackoffMs::stored),
            max_backoff_ms: policy.max_backoff_ms.map(BackoffMs::stored),
        }),
        labels: envelope.extension.as_deref().and_then(|extension| strings(&extension.labels)),
        headers: envelope.extension.as_deref().and_then(|extension| strings(&extension.headers)),
    })
}

/// Returns `None` for an empty map.
fn strings(map: &BTreeMap<Text, Text>) -> Option<BTreeMap<String, String>> {
    let strings = map.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    (!map.is_empty()).then(|| strings.collect())
}

/// A message as the router hook gets it.
pub(crate) fn router_message(of: &command::Produce) -> RouterMessage<'_> {
    RouterMessage {
        topic: &of.topic.topic,
        key: key(&of.key),
        value: value(&of.value),
        envelope: wire_envelope(&of.envelope),
    }
}

pub(crate) fn value(bytes: &[u8]) -> Value<'_> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text),
        Err(_) => Value::Base64(BASE64.encode(bytes)),
    }
}

pub(crate) fn key(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

pub(crate) fn delivery<'a>(delivery: &'a Delivery, minter: Minter<'_>) -> WireDelivery<'a> {
    let message = &*delivery.message;
    let id = delivery.id;
    WireDelivery {
        id: id.to_string(),
        origin_id: message.origin.unwrap_or(id).to_string(),
        topic: &delivery.topic,
        group: &delivery.group,
        partition: id.lane.partition(),
        offset: id.offset,
        attempts: delivery.attempts(),
        key: key(&message.key),
        value: value(&message.value),
        last_error: delivery.last_error(),
        tenant_id: message.tenant(),
        produced_at: time(message.produced_at),
        lease: Lease {
            token: minter.mint(&delivery.token),
            attempt: delivery.hold.attempt,
            expires_at: time(delivery.expires_at),
        },
        routing: message.routing.as_deref().map(routing),
        envelope: wire_envelope(&message.envelope),
        trace: message.trace.as_deref().map(trace),
        redriven: message
            .origin
            .filter(|_| message.redriven > 0)
            .map(|origin| Redriven { origin_id: origin.to_string(), times: message.redriven }),
        dlq: death(message),
    }
}

fn routing(routing: &Routing) -> wire::Routing<'_> {
    wire::Routing {
        label: &routing.label,
        target_topic: routing.target_topic.as_deref(),
        partition_override: routing.partition_override,
        meta: routing.meta.iter().map(|(name, value)| (&**name, &**value)).collect(),
    }
}

fn trace(trace: &Trace) -> wire::Trace<'_> {
    wire::Trace { traceparent: &trace.parent, tracestate: trace.state.as_deref() }
}

/// How a dead letter died; `None` for other messages.
pub(crate) fn death(message: &Message) -> Option<Death> {
    let death = message.death.as_deref()?;
    Some(Death {
        origin: Origin {
            topic: death.topic.to_string(),
            partition: death.id.lane.partition(),
            offset: death.id.offset,
            id: death.id.to_string(),
        },
        group: death.group.to_string(),
        reason: death.reason.wire(),
        attempts: death.attempts,
        last_error: death.last_error.to_string(),
        last_owner: death.last_owner.to_string(),
        produced_at: time(message.produced_at),
        first_delivered_at: death.first_delivered_at.map(time),
        dead_at: time(death.at),
        tenant_id: message.tenant().to_owned(),
        idempotency_key: message.envelope.idempotency_key.as_deref().map(str::to_owned),
    })
}

/// The position at which a group starts.
pub(crate) fn start(start: Option<group::Start>) -> Start {
    match start {
        None | Some(group::Start::Earliest) => Start::Earliest,
        Some(group::Start::Latest) => Start::Latest,
        Some(group::Start::Time(at)) => Start::Time(Timestamp(at.0)),
    }
}

pub(crate) fn topic(view: &TopicView, with_partitions: bool) -> topic::Topic {
    let partitions: Vec<topic::Partition> = view
        .partitions
        .iter()
        .zip(0..)
        .map(|(lane, partition)| topic::Partition {
            partition,
            first_offset: lane.first,
            next_offset: lane.high,
            messages: lane.high - lane.first,
            bytes: lane.bytes,
        })
        .collect();
    topic::Topic {
        name: view.name.to_string(),
        partitions: partitions.len() as u32,
        created_at: time(view.created_at),
        settings: settings::wire(&view.settings),
        changed_settings: view
            .changed
            .names()
            .iter()
            .map(|name| name.as_str().to_owned())
            .collect(),
        messages: partitions.iter().map(|partition| partition.messages).sum(),
        bytes: partitions.iter().map(|partition| partition.bytes).sum(),
        dead_letters: view.dead_letters,
        rates: topic::TopicRates { produced: per_second(view.produced_15s) },
        partitions_detail: with_partitions.then_some(partitions),
        groups: view.groups.iter().map(ToString::to_string).collect(),
    }
}

/// Converts a count of 15 s, to tenths.
pub(crate) fn per_second(count: u64) -> f64 {
    (count as f64 / 1.5).round() / 10.0
}

pub(crate) fn group(view: &GroupView, with_detail: bool) -> group::Group {
    let sum = |of: fn(&CursorView) -> u64| view.partitions.iter().map(of).sum::<u64>();
    let (leased, waiting) = (sum(|cursor| cursor.leased), sum(|cursor| cursor.waiting));
    group::Group {
        topic: view.topic.to_string(),
        group: view.name.to_string(),
        created_at: time(view.created_at),
        paused: view.paused.as_ref().map(|paused| group::Paused {
            since: time(paused.since),
            by: paused.by.to_string(),
            reason: paused.reason.to_string(),
            until: paused.until.map(time),
        }),
        backlog: sum(|cursor| cursor.backlog),
        open: leased + waiting,
        leased,
        waiting,
        oldest_unsettled_at: view.oldest_unsettled_at.map(time),
        rates: group::GroupRates {
            delivered: per_second(view.recent.delivered),
            acked: per_second(view.recent.acked),
            failed: per_second(view.recent.failed),
        },
        partitions: with_detail.then(|| cursors(view)),
        consumers: with_detail.then(|| consumers(view)),
    }
}

pub(crate) fn cursors(view: &GroupView) -> Vec<group::Cursor> {
    let cursors = view.partitions.iter().zip(0..);
    let cursor = |(cursor, partition): (&CursorView, u32)| group::Cursor {
        partition,
        generation: cursor.generation.0,
        next_to_deliver: cursor.next,
        settled_through: cursor.committed.map_or(-1, u64::cast_signed),
        backlog: cursor.backlog,
        leased: cursor.leased,
        waiting: cursor.waiting,
        next_retry_at: cursor.next_retry_at.map(time),
        oldest_unsettled_at: cursor.oldest_unsettled_at.map(time),
        blocked: cursor.blocked.map(ToWire::wire),
    };
    cursors.map(cursor).collect()
}

/// Converts the owners of a group, each with its streams and polls.
pub(crate) fn consumers(view: &GroupView) -> Vec<group::Consumer> {
    let mut consumers: BTreeMap<&str, group::Consumer> =
        view.owners.iter().map(|owner| (&*owner.owner, consumer(owner))).collect();
    for connected in &view.consumers {
        // A node of the first release does not send owners.
        if view.owners.is_empty() {
            let unseen = consumers.entry(&connected.owner).or_insert_with(|| unseen(connected));
            unseen.leased += u64::from(connected.held);
        }
        if let Some(of) = consumers.get_mut(&*connected.owner) {
            of.connections.push(connection(connected));
        }
    }
    consumers.into_values().collect()
}

fn consumer(view: &OwnerView) -> group::Consumer {
    group::Consumer {
        owner: view.owner.to_string(),
        leased: view.leased,
        next_expiry_at: view.next_expiry_at.map(time),
        settled_1m: view.acked_1m,
        failed_1m: view.failed_1m,
        expired_1m: view.expired_1m,
        hold_p50_ms: view.hold_p50_ms,
        hold_p95_ms: view.hold_p95_ms,
        last_seen_at: time(view.last_seen_at),
        last_settle_at: view.last_settle_at.map(time),
        worker: view.worker.as_deref().map(worker),
        connections: Vec::new(),
    }
}

fn unseen(view: &ConsumerView) -> group::Consumer {
    consumer(&OwnerView {
        owner: view.owner.clone(),
        leased: 0,
        next_expiry_at: None,
        acked_1m: 0,
        failed_1m: 0,
        expired_1m: 0,
        hold_p50_ms: None,
        hold_p95_ms: None,
        last_seen_at: view.since,
        last_settle_at: view.last_settle_at,
        worker: view.peer.worker.clone(),
    })
}

fn worker(worker: &command::Worker) -> Worker {
    let text = |text: &Option<Text>| text.as_deref().map(str::to_owned);
    Worker {
        id: worker.id.to_string(),
        sdk: text(&worker.sdk),
        version: text(&worker.version),
        host: text(&worker.host),
        pid: worker.pid.map(WorkerNumber::stored),
        concurrency: worker.concurrency.map(WorkerNumber::stored),
    }
}

/// Converts what a worker says of itself.
pub(crate) fn named_worker(worker: Option<Worker>) -> Option<Box<command::Worker>> {
    let worker = worker?;
    Some(Box::new(command::Worker {
        id: worker.id.into(),
        sdk: given(worker.sdk),
        version: given(worker.version),
        host: given(worker.host),
        pid: worker.pid.map(WorkerNumber::get),
        concurrency: worker.concurrency.map(WorkerNumber::get),
    }))
}

fn connection(view: &ConsumerView) -> group::Connection {
    group::Connection {
        consumer: format!("c_{}", view.consumer),
        kind: view.peer.kind.as_str(),
        remote: view.peer.remote.to_string(),
        since: time(view.since),
        prefetch: view.credit,
        outstanding: view.held,
        lease_ms: u64::from(view.lease_ms),
    }
}

pub(crate) fn doubt(doubt: &effect::Doubt) -> driftq_api::effect::Doubt {
    driftq_api::effect::Doubt {
        fence: doubt.fence,
        owner: doubt.owner.to_string(),
        began_at: time(doubt.began_at),
        since: time(doubt.since),
        cause: doubt.cause.wire(),
    }
}

/// Converts a pointer for a list.
pub(super) fn pointer(pointer: command::Pointer) -> driftq_api::pointer::Pointer {
    let command::Pointer { name, location, checksum, committed_at, message, attempt, group: _ } =
        pointer;
    driftq_api::pointer::Pointer {
        topic: None,
        dataset: name.dataset.to_string(),
        version: name.version.to_string(),
        partition_key: name.partition_key.to_string(),
        location: location.to_string(),
        checksum: checksum.map(|checksum| checksum.to_string()),
        committed_at: time(committed_at),
        message: driftq_api::pointer::PointerSource { id: message.to_string(), attempt },
    }
}
