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
    /// 1 if absent or 0.
    #[schema(default = 1)]
    pub partitions: Option<PartitionCount>,
    /// The settings that differ from the defaults.
    #[serde(default, deserialize_with = "optional_object")]
    pub settings: Option<SettingsPatch>,
}

/// The answer to `POST /v1/topics`.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedTopic {
    /// `created` or `exists`.
    pub status: TopicStatus,
    /// Its name.
    #[schema(value_type = TopicName)]
    pub name: String,
    /// Its partitions.
    pub partitions: u32,
}

/// `PATCH /v1/topics/{topic}`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchTopic {
    /// The settings to change.
    #[serde(deserialize_with = "object")]
    pub settings: SettingsPatch,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions_detail: Option<Vec<Partition>>,
    pub groups: Vec<String>,
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
    /// Sorted.
    #[schema(value_type = Vec<TopicName>)]
    pub topics: Vec<String>,
}

/// `GET /v1/topics?detail=true`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Topics {
    /// Sorted by name, without their partitions.
    pub topics: Vec<Topic>,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PageCursor>)]
    pub next_cursor: Option<String>,
}

/// Either of them.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum TopicList {
    /// Without detail.
    Names(TopicNames),
    /// With it.
    Topics(Topics),
}

/// `DELETE /v1/topics/{topic}`.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedTopic {
    /// `deleted`.
    pub status: DeletedStatus,
    /// Messages that went with it.
    pub messages: u64,
    /// Dead letters that went with it.
    pub dead_letters: u64,
}
