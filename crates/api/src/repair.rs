//! Repairing the partitions of a topic.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema::GroupName;
use crate::words::RepairedStatus;

/// `POST …/repair`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Repair {
    /// Report what a repair would do, and change nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// The name of the operator.
    pub by: Option<String>,
    /// The reason for the repair.
    pub reason: Option<String>,
}

/// The result of a repair.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Repaired {
    pub status: RepairedStatus,
    pub dry_run: bool,
    pub lost: Vec<LostMessages>,
    pub redelivered: Vec<RedeliveredMessages>,
    pub messages_lost: u64,
    pub messages_redelivered: u64,
}

/// Messages that are lost: offsets `from` up to, not including, `to`.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct LostMessages {
    pub partition: u32,
    pub from: u64,
    pub to: u64,
}

/// Messages that are delivered to a group again: offsets `from` up to, not including, `to`.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct RedeliveredMessages {
    #[schema(value_type = GroupName)]
    pub group: String,
    pub partition: u32,
    pub from: u64,
    pub to: u64,
}
