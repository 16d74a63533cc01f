//! A delivery of a message.

use std::collections::BTreeMap;

use bytes::Bytes;
use data_encoding::BASE64;
use serde::Deserialize;

/// A message, leased to this worker for one attempt.
#[derive(Debug, Clone, Deserialize)]
pub struct Delivery {
    /// The id of the message.
    pub id: String,
    /// The id under which the message was first stored. It stays the same when it is redriven.
    pub origin_id: String,
    /// The topic.
    pub topic: String,
    /// The group.
    pub group: String,
    /// The partition.
    pub partition: u32,
    /// The offset in the partition.
    pub offset: u64,
    /// The number of attempts so far, this one included, that count against `max_attempts`.
    pub attempts: u32,
    /// The message key.
    #[serde(default)]
    pub key: String,
    #[serde(default)]
    value: Option<String>,
    #[serde(default)]
    value_base64: Option<String>,
    /// Why the last attempt failed. Empty on the first one.
    #[serde(default)]
    pub last_error: String,
    /// The tenant.
    pub tenant_id: String,
    /// When it was produced, as RFC 3339.
    pub produced_at: String,
    /// The lease.
    pub lease: Lease,
    /// The producer's metadata.
    #[serde(default)]
    pub envelope: Envelope,
    /// The trace context of the producer.
    #[serde(default)]
    pub trace: Option<Trace>,
}

/// A lease.
#[derive(Debug, Clone, Deserialize)]
pub struct Lease {
    /// The token that settles the delivery.
    pub token: String,
    /// The number of this attempt.
    pub attempt: u32,
    /// When it ends, as RFC 3339.
    pub expires_at: String,
}

/// The metadata that a producer set.
#[derive(Debug, Clone, Default, Deserialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Envelope {
    #[serde(default)]
    pub run_id: Option<String>,
    #[serde(default)]
    pub step_id: Option<String>,
    #[serde(default)]
    pub parent_step_id: Option<String>,
    #[serde(default)]
    pub idempotency_key: Option<String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// A W3C trace context.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the W3C recommendation says what each field is")]
pub struct Trace {
    pub traceparent: String,
    #[serde(default)]
    pub tracestate: Option<String>,
}

impl Delivery {
    /// The value. Fails if the server sent bytes that are not base64.
    pub fn value(&self) -> Result<Bytes, String> {
        match (&self.value, &self.value_base64) {
            (Some(text), _) => Ok(Bytes::from(text.clone())),
            (None, Some(digits)) => {
                let bytes = BASE64.decode(digits.as_bytes());
                bytes.map(Bytes::from).map_err(|error| format!("value_base64: {error}"))
            }
            (None, None) => Ok(Bytes::new()),
        }
    }
}
