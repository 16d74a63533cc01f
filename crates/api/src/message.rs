//! Producing and receiving messages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::Ref;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use crate::Time;
use crate::group::{SeekEnd, Start};
use crate::limits::{HEADERS_MAX, ITEMS_MAX, LABELS_MAX};
use crate::number::{BackoffMs, LeaseMs, Limit, MaxAttempts, PartitionNumber, Prefetch, WaitMs};
use crate::schema::{
    Base64, EnvelopeText, GroupName, Headers, IdempotencyKey, Labels, LeaseToken, MessageId,
    MessageKey, Nonce, Owner, Tenant, TopicName,
};
use crate::strict::{objects, optional_map, optional_object};
use crate::words::ProducedStatus;
use crate::worker::Worker;

/// Metadata that a producer sets in addition to key and value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Envelope {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EnvelopeText>)]
    pub run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EnvelopeText>)]
    pub step_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EnvelopeText>)]
    pub parent_step_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Tenant>)]
    pub tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<IdempotencyKey>)]
    pub idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EnvelopeText>)]
    pub target_topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_override: Option<PartitionNumber>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "optional_object")]
    pub retry_policy: Option<RetryPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "optional_map::<_, LABELS_MAX>")]
    #[schema(value_type = Option<Labels>)]
    pub labels: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "optional_map::<_, HEADERS_MAX>")]
    #[schema(value_type = Option<Headers>)]
    pub headers: Option<BTreeMap<String, String>>,
}

/// How often, and after which waits, a message is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct RetryPolicy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<MaxAttempts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<BackoffMs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_backoff_ms: Option<BackoffMs>,
}

/// `POST /v1/produce`, and an item of `POST /v1/produce/batch`.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Produce {
    #[schema(value_type = TopicName)]
    pub topic: String,
    #[serde(default)]
    #[schema(value_type = Option<MessageKey>)]
    pub key: Option<String>,
    #[serde(default)]
    #[schema(min_length = 1, max_length = 1048576)]
    pub value: Option<String>,
    #[serde(default)]
    #[schema(value_type = Option<Base64>)]
    pub value_base64: Option<String>,
    #[serde(default, deserialize_with = "optional_object")]
    pub envelope: Option<Envelope>,
    /// Not allowed in an item of a batch.
    #[serde(default)]
    #[schema(value_type = Option<Nonce>)]
    pub nonce: Option<String>,
}

/// `POST /v1/produce/batch`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProduceBatch {
    #[serde(default)]
    #[schema(value_type = Option<Nonce>)]
    #[expect(missing_docs, reason = "the API reference says what it is")]
    pub nonce: Option<String>,
    /// 1 to 1 000 messages.
    #[serde(deserialize_with = "objects::<_, _, 1, ITEMS_MAX>")]
    #[schema(min_items = 1, max_items = 1000)]
    pub messages: Vec<Produce>,
}

/// Where a message was stored.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Receipt {
    pub status: ProducedStatus,
    #[schema(value_type = TopicName)]
    pub topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TopicName>)]
    pub final_topic: Option<String>,
    pub partition: u32,
    pub offset: u64,
    #[schema(value_type = MessageId)]
    pub id: String,
    pub deduplicated: bool,
}

/// One result of a batch: success, or an error.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Item<T> {
    /// The item succeeded.
    Done(T),
    /// The item was rejected or failed.
    Error(crate::Error),
}

/// The response to `POST /v1/produce/batch`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProducedBatch {
    /// In the order of the request.
    pub results: Vec<Item<Receipt>>,
    /// The number of messages that were stored.
    pub accepted: usize,
    /// The number of messages that were not stored.
    pub refused: usize,
}

/// `GET` or `POST /v1/consume`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Consume {
    #[schema(value_type = TopicName)]
    pub topic: String,
    #[schema(value_type = GroupName)]
    pub group: String,
    #[schema(value_type = Owner)]
    pub owner: String,
    #[serde(default)]
    pub lease_ms: Option<LeaseMs>,
    #[serde(default, alias = "credit")]
    #[schema(default = 2)]
    pub prefetch: Option<Prefetch>,
    #[serde(default)]
    #[schema(value_type = Option<SeekEnd>)]
    pub start: Option<Start>,
    #[serde(default, deserialize_with = "optional_object")]
    pub worker: Option<Worker>,
}

/// `POST /v1/receive`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Receive {
    #[schema(value_type = TopicName)]
    pub topic: String,
    #[schema(value_type = GroupName)]
    pub group: String,
    #[schema(value_type = Owner)]
    pub owner: String,
    #[serde(default)]
    pub lease_ms: Option<LeaseMs>,
    #[serde(default)]
    #[schema(default = 1)]
    pub max: Option<Limit>,
    #[serde(default)]
    #[schema(default = 20000)]
    pub wait_ms: Option<WaitMs>,
    #[serde(default)]
    #[schema(value_type = Option<SeekEnd>)]
    pub start: Option<Start>,
    #[serde(default, deserialize_with = "optional_object")]
    pub worker: Option<Worker>,
}

/// A message value, as text if it is valid UTF-8.
#[derive(Debug, Serialize)]
pub enum Value<'a> {
    /// UTF-8.
    #[serde(rename = "value")]
    Text(&'a str),
    /// Other bytes.
    #[serde(rename = "value_base64")]
    Base64(String),
}

/// The schema of a value: text or bytes, in one of two fields.
pub(crate) fn value_shape() -> Object {
    ObjectBuilder::new()
        .property("value", Object::with_type(Type::String))
        .property("value_base64", Ref::from_schema_name(Base64::name()))
        .build()
}

/// One delivery of a message to a consumer.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Delivery<'a> {
    #[schema(value_type = MessageId)]
    pub id: String,
    /// The id under which the message was first stored. It stays the same when the message is
    /// redriven.
    #[schema(value_type = MessageId)]
    pub origin_id: String,
    #[schema(value_type = TopicName)]
    pub topic: &'a str,
    #[schema(value_type = GroupName)]
    pub group: &'a str,
    pub partition: u32,
    pub offset: u64,
    pub attempts: u32,
    #[schema(value_type = String)]
    pub key: std::borrow::Cow<'a, str>,
    #[serde(flatten)]
    #[schema(schema_with = value_shape)]
    pub value: Value<'a>,
    pub last_error: &'a str,
    pub tenant_id: &'a str,
    pub produced_at: Time,
    pub lease: Lease,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Envelope>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redriven: Option<Redriven>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dlq: Option<crate::death::Death>,
}

/// The lease of a delivery.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Lease {
    #[schema(value_type = LeaseToken)]
    pub token: String,
    pub attempt: u32,
    pub expires_at: Time,
}

/// The router's decision.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Routing<'a> {
    pub label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_override: Option<u32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub meta: BTreeMap<&'a str, &'a str>,
}

/// W3C trace context of the produce.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Trace<'a> {
    pub traceparent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<&'a str>,
}

/// Set on a message that was redriven from the dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub struct Redriven {
    /// The id it had when it was first stored.
    #[schema(value_type = MessageId)]
    pub origin_id: String,
    /// How often it was redriven.
    pub times: u32,
}

/// The response to `POST /v1/receive`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Received<'a> {
    /// Empty if none arrived within `wait_ms`.
    pub messages: Vec<Delivery<'a>>,
}
