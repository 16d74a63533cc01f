//! Topics.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Time;

/// `POST /v1/topics`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateTopic {
    /// Its name.
    pub name: String,
    /// 1 if absent or 0.
    #[serde(default)]
    pub partitions: Option<i64>,
    /// What differs from the defaults.
    #[serde(default)]
    pub settings: Option<Box<RawValue>>,
}

/// The answer to `POST /v1/topics`.
#[derive(Debug, Serialize)]
pub struct CreatedTopic {
    /// `created` or `exists`.
    pub status: &'static str,
    /// Its name.
    pub name: String,
    /// Its partitions.
    pub partitions: u32,
}

/// `PATCH /v1/topics/{topic}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchTopic {
    /// What is to change; null puts a setting back to its default.
    pub settings: Box<RawValue>,
}

/// A topic.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Topic {
    pub name: String,
    pub partitions: u32,
    pub created_at: Time,
    pub settings: Value,
    pub changed_settings: Vec<String>,
    pub messages: u64,
    pub bytes: u64,
    pub dead_letters: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions_detail: Option<Vec<Partition>>,
    pub groups: Vec<String>,
}

/// One partition of a topic.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Partition {
    pub partition: u32,
    pub first_offset: u64,
    pub next_offset: u64,
    pub messages: u64,
    pub bytes: u64,
}

/// `GET /v1/topics`.
#[derive(Debug, Serialize)]
pub struct TopicNames {
    /// Sorted.
    pub topics: Vec<String>,
}

/// `GET /v1/topics?detail=true`.
#[derive(Debug, Serialize)]
pub struct Topics {
    /// Sorted by name, without their partitions.
    pub topics: Vec<Topic>,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// `DELETE /v1/topics/{topic}`.
#[derive(Debug, Serialize)]
pub struct DeletedTopic {
    /// `deleted`.
    pub status: &'static str,
    /// Messages that went with it.
    pub messages: u64,
    /// Dead letters that went with it.
    pub dead_letters: u64,
}
