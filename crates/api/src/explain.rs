//! Why is it where it is?

use serde::Serialize;

use crate::Time;
use crate::group::{Consumer, Cursor};

/// A message, in every group of its topic.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Message {
    pub what: &'static str,
    pub id: String,
    pub topic: String,
    pub partition: u32,
    pub offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub produced_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    pub groups: Vec<InGroup>,
    pub history: &'static str,
}

/// A message in one group.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct InGroup {
    pub group: String,
    pub state: &'static str,
    pub says: String,
    pub attempts: u32,
    pub max_attempts: i32,
    pub last_error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<String>,
}

/// A lease that somebody has.
#[derive(Debug, Serialize)]
pub struct Lease {
    /// When it ends.
    pub expires_at: Time,
}

/// A group.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Group {
    pub what: &'static str,
    pub topic: String,
    pub group: String,
    pub says: String,
    pub partitions: Vec<Cursor>,
    pub consumers: Vec<Consumer>,
}
