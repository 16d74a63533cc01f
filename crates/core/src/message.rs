//! A message, as it is stored and as it is delivered.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::{MessageId, Offset, Text};
use crate::settings::RetryPolicy;
use crate::time::Timestamp;

/// The tenant of messages that name none.
pub const DEFAULT_TENANT: &str = "default";

/// What the producer says about a message beside its key and value. Kept and delivered as given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The run it belongs to.
    pub run_id: Option<Text>,
    /// The step it asks for.
    pub step_id: Option<Text>,
    /// The step that asked.
    pub parent_step_id: Option<Text>,
    /// Our user's customer.
    pub tenant_id: Option<Text>,
    /// Names the intent: stored once per tenant and topic while the key is taken.
    pub idempotency_key: Option<Text>,
    /// Go to this topic instead.
    pub target_topic: Option<Text>,
    /// Go to this partition.
    pub partition_override: Option<u32>,
    /// Never delivered afresh from then on.
    pub deadline: Option<Timestamp>,
    /// Its own retry policy.
    pub retry_policy: Option<RetryRequest>,
}

impl Envelope {
    fn text_bytes(&self) -> usize {
        let Envelope { run_id, step_id, parent_step_id, tenant_id, .. } = self;
        let Envelope { idempotency_key, target_topic, .. } = self;
        let texts = [run_id, step_id, parent_step_id, tenant_id, idempotency_key, target_topic];
        texts.into_iter().flatten().map(|text| text.len()).sum()
    }
}

/// A retry policy as the producer wrote it: what is missing is the topic's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryRequest {
    /// Deliveries in all; −1 is for ever.
    pub max_attempts: i32,
    /// The wait after the first failure.
    pub backoff_ms: Option<u64>,
    /// The longest wait.
    pub max_backoff_ms: Option<u64>,
}

impl RetryRequest {
    /// What can be told before its topic is known.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        self.over(&RetryPolicy { max_attempts: 1, backoff_ms: 0, max_backoff_ms: 0 }).check()
    }

    /// This policy, completed by the topic's.
    pub fn over(&self, topic: &RetryPolicy) -> RetryPolicy {
        let backoff_ms = self.backoff_ms.unwrap_or(topic.backoff_ms);
        RetryPolicy {
            max_attempts: self.max_attempts,
            backoff_ms,
            max_backoff_ms: self.max_backoff_ms.unwrap_or(topic.max_backoff_ms.max(backoff_ms)),
        }
    }
}

/// What the router decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routing {
    /// Its word for the message.
    pub label: Text,
    /// Where it sent it.
    pub target_topic: Option<Text>,
    /// Which partition it chose.
    pub partition_override: Option<u32>,
    /// What else it said.
    pub meta: BTreeMap<Text, Text>,
}

impl Routing {
    fn text_bytes(&self) -> usize {
        let target = self.target_topic.as_ref().map_or(0, |topic| topic.len());
        let meta = self.meta.iter().map(|(name, value)| name.len() + value.len());
        self.label.len() + target + meta.sum::<usize>()
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

/// Why a message died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeathReason {
    /// Every attempt was used up.
    Exhausted,
    /// A worker said so.
    Final,
    /// Its deadline passed before it was done.
    Deadline,
    /// Its target would not have it.
    Undeliverable,
}

impl DeathReason {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            DeathReason::Exhausted => "exhausted",
            DeathReason::Final => "rejected",
            DeathReason::Deadline => "deadline",
            DeathReason::Undeliverable => "undeliverable",
        }
    }
}

/// How a dead letter came to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// Its number among the dead letters.
    pub seq: u64,
    /// The topic it died in.
    pub topic: Text,
    /// The message it was there.
    pub id: MessageId,
    /// The group it died in.
    pub group: Text,
    /// Why.
    pub reason: DeathReason,
    /// Deliveries that counted.
    pub attempts: u32,
    /// The last error.
    pub last_error: Text,
    /// Who had it last.
    pub last_owner: Text,
    /// When it was first delivered, if ever.
    pub first_delivered_at: Option<Timestamp>,
    /// When it died.
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
    /// Opaque.
    pub value: Bytes,
    /// What the producer said about it.
    pub envelope: Envelope,
    /// What the router said about it.
    pub routing: Option<Box<Routing>>,
    /// Trace context.
    pub trace: Option<Box<Trace>>,
    /// The id it had when it was first stored, if it was stored again since.
    pub origin: Option<MessageId>,
    /// How often it was redriven.
    pub redriven: u32,
    /// Only this group gets it.
    pub for_group: Option<Text>,
    /// On a dead letter: how it died.
    pub death: Option<Box<Death>>,
}

impl Message {
    /// Bytes that count against limits.
    pub fn size(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }

    /// Bytes of everything in it that a client chose the length of. What holds messages is bounded by this.
    pub(crate) fn content_bytes(&self) -> u64 {
        let beside = [
            self.envelope.text_bytes(),
            self.routing.as_deref().map_or(0, Routing::text_bytes),
            self.trace.as_deref().map_or(0, Trace::text_bytes),
            self.death.as_deref().map_or(0, |death| death.last_error.len()),
        ];
        self.size() + beside.into_iter().sum::<usize>() as u64
    }

    /// The tenant in force.
    pub fn tenant(&self) -> &str {
        tenant_of(&self.envelope)
    }
}

/// The tenant an envelope names.
pub(crate) fn tenant_of(envelope: &Envelope) -> &str {
    in_force(envelope.tenant_id.as_deref().unwrap_or_default())
}

/// The tenant that a name means: none is the default.
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
    /// Its place there.
    pub offset: Offset,
    /// It had been stored before.
    pub deduplicated: bool,
}

/// A message in memory.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// The lane's byte total before it.
    pub(crate) bytes_before: u64,
    pub(crate) message: Arc<Message>,
}
