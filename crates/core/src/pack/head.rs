//! Heads: the metadata of a commit, and the cursors, lanes and marks that it changed.

use serde::{Deserialize, Serialize};

use crate::change::LaneState;
use crate::id::{Generation, Lane, Offset, TopicId};

/// A cursor as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CursorItem {
    pub(crate) generation: Generation,
    pub(crate) lane: Lane,
    pub(crate) next: Offset,
    /// The lowest open offset, or `next` if there is none. Recovery reads blocks from here on.
    pub(crate) low: Offset,
    pub(crate) bytes: u64,
}

/// A lane as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaneItem {
    pub(crate) topic: TopicId,
    pub(crate) lane: Lane,
    pub(crate) state: LaneState,
}

/// A counter as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MarkItem {
    pub(crate) kind: u8,
    pub(crate) id: u64,
    pub(crate) value: u64,
}

/// The body of a head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeadBody {
    /// Next number of the id counter.
    pub(crate) ids: u64,
    pub(crate) cursors: Vec<CursorItem>,
    pub(crate) lanes: Vec<LaneItem>,
    pub(crate) marks: Vec<MarkItem>,
}
