//! Messages: how they come in, and how they go out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::group::Start;

/// What a producer says of a message beside its key and value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Envelope {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_step_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_override: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
}

/// How often and how late a message is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct RetryPolicy {
    pub max_attempts: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_backoff_ms: Option<u64>,
}

/// `POST /v1/produce`, and an item of `POST /v1/produce/batch`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Produce {
    pub topic: String,
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub value: Option<String>,
    #[serde(default)]
    pub value_base64: Option<String>,
    #[serde(default)]
    pub envelope: Option<Envelope>,
}

/// `POST /v1/produce/batch`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProduceBatch {
    /// 1 to 1 000 of them.
    pub messages: Vec<Produce>,
}

/// Where a message was stored.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Receipt {
    pub status: &'static str,
    pub topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_topic: Option<String>,
    pub partition: u32,
    pub offset: u64,
    pub id: String,
    pub deduplicated: bool,
}

/// One answer of many: what was done, or why not.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Item<T> {
    /// Done.
    Done(T),
    /// Refused or failed.
    Error(crate::Error),
}

/// The answer to `POST /v1/produce/batch`.
#[derive(Debug, Serialize)]
pub struct ProducedBatch {
    /// In the order of the request.
    pub results: Vec<Item<Receipt>>,
    /// How many are stored.
    pub accepted: usize,
    /// How many are not.
    pub refused: usize,
}

/// `GET` or `POST /v1/consume`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Consume {
    pub topic: String,
    pub group: String,
    pub owner: String,
    #[serde(default)]
    pub lease_ms: Option<u64>,
    #[serde(default)]
    pub credit: Option<u32>,
    #[serde(default)]
    pub start: Option<Start>,
}

/// `POST /v1/receive`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Receive {
    pub topic: String,
    pub group: String,
    pub owner: String,
    #[serde(default)]
    pub lease_ms: Option<u64>,
    #[serde(default)]
    pub max: Option<u32>,
    #[serde(default)]
    pub wait_ms: Option<u64>,
    #[serde(default)]
    pub start: Option<Start>,
}

/// A value: text where it is text.
#[derive(Debug, Serialize)]
pub enum Value<'a> {
    /// UTF-8.
    #[serde(rename = "value")]
    Text(&'a str),
    /// Other bytes.
    #[serde(rename = "value_base64")]
    Base64(String),
}

/// One hand-over of a message to a consumer.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Delivery<'a> {
    pub id: String,
    pub topic: &'a str,
    pub group: &'a str,
    pub partition: u32,
    pub offset: u64,
    pub attempts: u32,
    pub key: std::borrow::Cow<'a, str>,
    #[serde(flatten)]
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
    pub dlq: Option<crate::dlq::Death>,
}

/// Proof of the lease.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Lease {
    pub token: String,
    pub attempt: u32,
    pub expires_at: Time,
}

/// What the router said.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Routing<'a> {
    pub label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_topic: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub meta: BTreeMap<&'a str, &'a str>,
}

/// W3C trace context of the produce.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Trace<'a> {
    pub traceparent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<&'a str>,
}

/// A message that came back from the dead letters.
#[derive(Debug, Serialize)]
pub struct Redriven {
    /// The id it had when it was first stored.
    pub origin_id: String,
    /// How often it came back.
    pub times: u32,
}

/// The answer to `POST /v1/receive`.
#[derive(Debug, Serialize)]
pub struct Received<'a> {
    /// Empty if none came in time.
    pub messages: Vec<Delivery<'a>>,
}
