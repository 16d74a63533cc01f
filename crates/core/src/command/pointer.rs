//! Pointers: the location of a piece of a dataset, set by the commit of a message.

use serde::{Deserialize, Serialize};

use crate::command::TopicName;
use crate::id::{MessageId, Text};
use crate::time::Timestamp;

/// Names a pointer within the topic whose message set it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct PointerName {
    pub dataset: Text,
    pub version: Text,
    pub partition_key: Text,
}

/// Set a pointer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct SetPointer {
    pub name: PointerName,
    pub location: Text,
    pub checksum: Option<Text>,
    /// Replace the pointer even if another message has set it to another value.
    pub replace: bool,
}

/// A pointer, as stored and as shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct Pointer {
    pub name: PointerName,
    pub location: Text,
    pub checksum: Option<Text>,
    pub committed_at: Timestamp,
    /// The message whose commit set it, with its group and attempt.
    pub message: MessageId,
    pub group: Text,
    pub attempt: u32,
}

/// Show a pointer of a topic.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct PointerQuery {
    pub topic: TopicName,
    pub name: PointerName,
}

/// List pointers of a version of a dataset, by partition key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct ListPointers {
    pub topic: TopicName,
    pub dataset: Text,
    pub version: Text,
    /// Only pointers after this partition key.
    pub after: Option<Text>,
    pub limit: u32,
}

/// Pointers, by partition key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pointers {
    /// The pointers.
    pub pointers: Vec<Pointer>,
    /// Whether there may be more.
    pub more: bool,
}
