//! Topics.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::number::PartitionCount;
use crate::schema::{NewTopicName, PageCursor, TopicName};
use crate::settings::{Settings, SettingsPatch};
use crate::strict::{object, optional_object};
use crate::words::{DeletedStatus, TopicStatus};

/// `POST /v1/topics`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTopic {
    /// Its name.
    #[schema(value_type = NewTopicName)]
    pub name: String,
    /// The number of partitions. Defaults to 1. 0 means 1.
    #[schema(default = 1)]
    pub partitions: Option<PartitionCount>,
    /// The settings that differ from the defaults.
    #[serde(default, deserialize_with = "optional_object")]
    pub settings: Option<SettingsPatch>,
}

/// The response to `POST /v1/topics`.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedTopic {
    /// `created` or `exists`.
    pub status: TopicStatus,
    /// Its name.
    #[schema(value_type = TopicName)]
    pub name: String,
    /// The number of partitions.
    pub partitions: u32,
}

/// `PATCH /v1/topics/{topic}`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchTopic {
    /// The settings to change.
    #[serde(deserialize_with = "object")]
    pub settings: SettingsPatch,
    /// The name of the operator.
    pub by: Option<String>,
    /// The reason for the change.
    pub reason: Option<String>,
}

/// A topic.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Topic {
    #[schema(value_type = TopicName)]
    pub name: String,
    pub partitions: u32,
    pub created_at: Time,
    pub settings: Settings,
    pub changed_settings: Vec<String>,
    pub messages: u64,
    pub bytes: u64,
    pub dead_letters: u64,
    pub rates: TopicRates,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions_detail: Option<Vec<Partition>>,
    pub groups: Vec<String>,
}

/// Messages per second, averaged over 15 s.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct TopicRates {
    pub produced: f64,
}

/// One partition of a topic.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Partition {
    pub partition: u32,
    pub first_offset: u64,
    pub next_offset: u64,
    pub messages: u64,
    pub bytes: u64,
}

/// `GET /v1/topics`.
#[derive(Debug, Serialize, ToSchema)]
pub struct TopicNames {
    /// The names of all topics, sorted.
    #[schema(value_type = Vec<TopicName>)]
    pub topics: Vec<String>,
}

/// `GET /v1/topics?detail=true`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Topics {
    /// Topics, sorted by name, without `partitions_detail`.
    pub topics: Vec<Topic>,
    /// The cursor of the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PageCursor>)]
    pub next_cursor: Option<String>,
}

/// The response to `GET /v1/topics`, with or without `detail=true`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum TopicList {
    /// Without detail.
    Names(TopicNames),
    /// With detail.
    Topics(Topics),
}

/// `DELETE /v1/topics/{topic}`.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedTopic {
    /// `deleted`.
    pub status: DeletedStatus,
    /// The number of messages that were deleted.
    pub messages: u64,
    /// The number of dead letters that were deleted.
    pub dead_letters: u64,
}
