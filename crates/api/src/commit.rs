//! One atomic commit.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::effect::Finish;
use crate::limits::{COMMIT_EFFECTS_MAX, COMMIT_MESSAGES_MAX, COMMIT_POINTERS_MAX};
use crate::message::{Produce, Receipt};
use crate::number::DelayMs;
use crate::pointer::SetPointer;
use crate::schema::{AnyJson, LeaseToken, TopicName};
use crate::strict::objects;
use crate::words::{CommitSettle, CommittedStatus, QueuedStatus};

/// `POST /v1/commit`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Commit {
    #[schema(value_type = LeaseToken)]
    pub token: String,
    #[schema(default = "ack")]
    pub settle: Option<CommitSettle>,
    pub reason: Option<String>,
    pub delay_ms: Option<DelayMs>,
    #[serde(alias = "final")]
    pub dead_letter: Option<bool>,
    #[serde(default, deserialize_with = "objects::<_, _, 0, COMMIT_EFFECTS_MAX>")]
    #[schema(max_items = 32)]
    pub effects: Vec<Finish>,
    #[serde(default, deserialize_with = "objects::<_, _, 0, COMMIT_MESSAGES_MAX>")]
    #[schema(max_items = 100)]
    pub produce: Vec<Produce>,
    #[serde(default, deserialize_with = "objects::<_, _, 0, COMMIT_POINTERS_MAX>")]
    #[schema(max_items = 100)]
    pub pointers: Vec<SetPointer>,
    #[schema(value_type = Option<AnyJson>)]
    pub result: Option<Box<RawValue>>,
}

/// The response to `POST /v1/commit`.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Committed {
    pub status: CommittedStatus,
    pub repeated: bool,
    pub produced: Vec<Produced>,
}

/// A message of a commit.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Produced {
    /// The message was stored.
    Stored(Receipt),
    /// The message is in transit to another shard.
    Queued(Queued),
}

/// A message in transit to another shard. It is durable and is stored there exactly once.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Queued {
    pub status: QueuedStatus,
    #[schema(value_type = TopicName)]
    pub topic: String,
    pub deduplicated: bool,
}
