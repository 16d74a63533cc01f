//! Pointers: where a piece of a dataset is, set by the commit of the message that made it.

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
    /// Also if another message has set it otherwise.
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
    /// Whose commit it was, in which group and attempt.
    pub message: MessageId,
    pub group: Text,
    pub attempt: u32,
}

/// A pointer of a topic.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct PointerQuery {
    pub topic: TopicName,
    pub name: PointerName,
}

/// Pointers of a version of a dataset, by partition key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct ListPointers {
    pub topic: TopicName,
    pub dataset: Text,
    pub version: Text,
    /// Those behind this partition key.
    pub after: Option<Text>,
    pub limit: u32,
}

/// Pointers in order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pointers {
    /// The pointers.
    pub pointers: Vec<Pointer>,
    /// There may be more.
    pub more: bool,
}
