//! A message, as it is stored and as it is delivered.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::format::Format;
use crate::id::{MessageId, Offset, Text};
use crate::retry::RetryRequest;
use crate::time::Timestamp;

/// Bytes in memory of a label or header besides its name and value. It takes fewer in a page.
pub(crate) const EXTENSION_ENTRY_OVERHEAD: usize = 96;

/// The tenant of messages that name none.
pub const DEFAULT_TENANT: &str = "default";

/// Metadata that the producer sets in addition to key and value. Stored and delivered unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The run it belongs to.
    pub run_id: Option<Text>,
    /// The step to execute.
    pub step_id: Option<Text>,
    /// The step that produced it.
    pub parent_step_id: Option<Text>,
    /// Our user's customer.
    pub tenant_id: Option<Text>,
    /// Identifies the message for deduplication: while the key is kept, it is stored once per
    /// tenant and topic.
    pub idempotency_key: Option<Text>,
    /// Store it in this topic instead.
    pub target_topic: Option<Text>,
    /// Store it in this partition.
    pub partition_override: Option<u32>,
    /// From this time on it is dead-lettered instead of delivered.
    pub deadline: Option<Timestamp>,
    /// Its own retry policy.
    pub retry_policy: Option<RetryRequest>,
    /// Fields added after the first stored layout, if any is set. Rows store it apart from the other
    /// fields: see [`crate::pack`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension: Option<Box<Extension>>,
}

/// Fields of an envelope that the first stored layout lacks. Each is stored under a tag of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// Names and values that rules may match.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Text, Text>,
    /// Names and values that only workers read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<Text, Text>,
    /// Tags written by a later release, stored again as they were read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<u32, Bytes>,
}

impl Extension {
    /// Returns an extension with labels and headers, or none if both are empty.
    pub fn of(labels: BTreeMap<Text, Text>, headers: BTreeMap<Text, Text>) -> Option<Box<Self>> {
        let is_empty = labels.is_empty() && headers.is_empty();
        (!is_empty).then(|| Box::new(Extension { labels, headers, unknown: BTreeMap::new() }))
    }

    /// The bytes of names and values.
    fn size(&self) -> usize {
        let Extension { labels, headers, unknown } = self;
        map_bytes(labels) + map_bytes(headers) + unknown.values().map(Bytes::len).sum::<usize>()
    }

    /// The bytes in memory besides names and values.
    fn overhead(&self) -> usize {
        let Extension { labels, headers, unknown } = self;
        EXTENSION_ENTRY_OVERHEAD * (labels.len() + headers.len() + unknown.len())
    }
}

/// The bytes of all names and values.
pub(crate) fn map_bytes(map: &BTreeMap<Text, Text>) -> usize {
    map.iter().map(|(name, value)| name.len() + value.len()).sum()
}

impl Envelope {
    fn text_bytes(&self) -> usize {
        let Envelope { run_id, step_id, parent_step_id, tenant_id, .. } = self;
        let Envelope { idempotency_key, target_topic, .. } = self;
        let texts = [run_id, step_id, parent_step_id, tenant_id, idempotency_key, target_topic];
        let overhead = self.extension.as_deref().map_or(0, Extension::overhead);
        texts.into_iter().flatten().map(|text| text.len()).sum::<usize>() + overhead
    }

    /// Returns the lowest format whose readers understand the envelope. An earlier release takes a
    /// missing `max_attempts` for 0 attempts.
    pub(crate) fn format(&self) -> Format {
        let is_partial = self.retry_policy.is_some_and(|policy| policy.max_attempts == 0);
        if self.extension.is_some() || is_partial { Format::V2 } else { Format::V1 }
    }

    /// Returns the bytes of labels and headers.
    pub fn extension_bytes(&self) -> usize {
        self.extension.as_deref().map_or(0, Extension::size)
    }
}

/// What the router decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routing {
    /// Its label for the message.
    pub label: Text,
    /// The topic it chose.
    pub target_topic: Option<Text>,
    /// The partition it chose.
    pub partition_override: Option<u32>,
    /// Other values it returned.
    pub meta: BTreeMap<Text, Text>,
}

impl Routing {
    /// Whether it chooses where the message is stored.
    pub fn moves(&self) -> bool {
        self.target_topic.is_some() || self.partition_override.is_some()
    }

    fn text_bytes(&self) -> usize {
        let target = self.target_topic.as_ref().map_or(0, |topic| topic.len());
        self.label.len() + target + map_bytes(&self.meta)
    }
}

/// W3C trace context of the produce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// `traceparent`.
    pub parent: Text,
    /// `tracestate`.
    pub state: Option<Text>,
}

impl Trace {
    fn text_bytes(&self) -> usize {
        self.parent.len() + self.state.as_ref().map_or(0, |state| state.len())
    }
}

/// Why a message was dead-lettered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeathReason {
    /// Every attempt was used up.
    Exhausted,
    /// A worker rejected it.
    Final,
    /// Its deadline passed before it was settled.
    Deadline,
    /// Its target topic rejected it.
    Undeliverable,
}

impl DeathReason {
    /// Returns its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            DeathReason::Exhausted => "exhausted",
            DeathReason::Final => "rejected",
            DeathReason::Deadline => "deadline",
            DeathReason::Undeliverable => "undeliverable",
        }
    }
}

/// How a message became a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// Its number among the dead letters.
    pub seq: u64,
    /// The topic it failed in.
    pub topic: Text,
    /// Its message id in that topic.
    pub id: MessageId,
    /// The group it failed in.
    pub group: Text,
    /// Why it was dead-lettered.
    pub reason: DeathReason,
    /// Deliveries that counted.
    pub attempts: u32,
    /// The last error.
    pub last_error: Text,
    /// The owner of the last delivery.
    pub last_owner: Text,
    /// When it was first delivered, if ever.
    pub first_delivered_at: Option<Timestamp>,
    /// When it was dead-lettered.
    pub at: Timestamp,
    /// Whether effects were begun under its deliveries.
    pub had_effects: bool,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Restore generation of the storage when it was stored: part of its id.
    pub restore: u32,
    /// When it was first stored; kept through dead letter and redrive.
    pub produced_at: Timestamp,
    /// Chooses the partition.
    pub key: Bytes,
    /// The content, opaque to the server.
    pub value: Bytes,
    /// The producer's metadata.
    pub envelope: Envelope,
    /// The router's decision.
    pub routing: Option<Box<Routing>>,
    /// Trace context.
    pub trace: Option<Box<Trace>>,
    /// The id it had when it was first stored, if it was stored again since.
    pub origin: Option<MessageId>,
    /// How often it was redriven.
    pub redriven: u32,
    /// If set, only this group receives it.
    pub for_group: Option<Text>,
    /// Set on a dead letter.
    pub death: Option<Box<Death>>,
}

impl Message {
    /// Returns the bytes that count against limits: key, value, labels and headers.
    pub fn size(&self) -> u64 {
        (self.key.len() + self.value.len() + self.envelope.extension_bytes()) as u64
    }

    /// Returns the bytes of all parts whose length a client chose. Memory limits count these bytes.
    pub(crate) fn content_bytes(&self) -> u64 {
        let beside = [
            self.envelope.text_bytes(),
            self.routing.as_deref().map_or(0, Routing::text_bytes),
            self.trace.as_deref().map_or(0, Trace::text_bytes),
            self.death.as_deref().map_or(0, |death| death.last_error.len()),
        ];
        self.size() + beside.into_iter().sum::<usize>() as u64
    }

    /// Returns its tenant, [`DEFAULT_TENANT`] if it names none.
    pub fn tenant(&self) -> &str {
        tenant_of(&self.envelope)
    }
}

/// Returns the tenant of an envelope, [`DEFAULT_TENANT`] if it names none.
pub(crate) fn tenant_of(envelope: &Envelope) -> &str {
    in_force(envelope.tenant_id.as_deref().unwrap_or_default())
}

/// Returns the tenant of a name. An empty name is [`DEFAULT_TENANT`].
pub(crate) fn in_force(tenant: &str) -> &str {
    if tenant.is_empty() { DEFAULT_TENANT } else { tenant }
}

/// Where a message was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Its id.
    pub id: MessageId,
    /// The topic it was stored in, if not the requested one.
    pub final_topic: Option<Text>,
    /// Its partition.
    pub partition: u32,
    /// Its offset in the partition.
    pub offset: Offset,
    /// Whether it had been stored before.
    pub deduplicated: bool,
}

/// A message in memory.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// The lane's byte total before it.
    pub(crate) bytes_before: u64,
    pub(crate) message: Arc<Message>,
}
