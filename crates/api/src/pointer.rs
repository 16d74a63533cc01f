//! Pointers: the location of a piece of a dataset.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::schema::{MessageId, PageCursor, PointerText, TopicName};

/// A pointer that a commit sets.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct SetPointer {
    #[schema(value_type = PointerText)]
    pub dataset: String,
    #[schema(value_type = PointerText)]
    pub version: String,
    #[schema(value_type = PointerText)]
    pub partition_key: String,
    #[schema(min_length = 1, max_length = 2048)]
    pub location: String,
    #[schema(max_length = 255)]
    pub checksum: Option<String>,
    pub replace: Option<bool>,
}

/// A pointer.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Pointer {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TopicName>)]
    pub topic: Option<String>,
    #[schema(value_type = PointerText)]
    pub dataset: String,
    #[schema(value_type = PointerText)]
    pub version: String,
    #[schema(value_type = PointerText)]
    pub partition_key: String,
    pub location: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    pub committed_at: Time,
    pub message: PointerSource,
}

/// The delivery that set a pointer.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct PointerSource {
    #[schema(value_type = MessageId)]
    pub id: String,
    pub attempt: u32,
}

/// Pointers of a version of a dataset, by partition key.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Pointers {
    pub pointers: Vec<Pointer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PageCursor>)]
    pub next_cursor: Option<String>,
}

/// `GET /v1/pointers`: one pointer, or a page of pointers.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum PointerResponse {
    /// One pointer.
    One(Pointer),
    /// A page of pointers.
    Page(Pointers),
}
