//! Groups.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::number::{Integer, PartitionNumber};
use crate::schema::{GroupName, PageCursor, TopicName};
use crate::strict::{object, short};
use crate::words::{Blocked, DeletedStatus, MovedStatus};
use crate::worker::Worker;

/// Where a group starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// The oldest message that is kept.
    Earliest,
    /// Messages stored from now on.
    Latest,
    /// In every partition, the first message stored at or after that time.
    Time(Time),
}

/// `PUT /v1/topics/{topic}/groups/{group}`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateGroup {
    /// Where the group starts. Defaults to `earliest`.
    #[serde(default)]
    pub start: Option<Start>,
}

/// `POST …/pause`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Pause {
    pub reason: Option<String>,
    pub by: Option<String>,
    pub until: Option<Time>,
}

/// `POST …/resume`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Resume {
    pub by: Option<String>,
    pub reason: Option<String>,
}

/// The target of a seek.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(untagged)]
#[serde(
    expecting = r#"must be "earliest", "latest", {"time": "…"} or {"partition": 0, "offset": 900}"#
)]
pub enum SeekTo {
    /// `earliest` or `latest`.
    End(SeekEnd),
    /// In every partition, the first message stored at or after that time.
    #[serde(deserialize_with = "object")]
    Time(AtTime),
    /// An offset in one partition.
    #[serde(deserialize_with = "object")]
    Offset(AtOffset),
}

/// An end of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words say it")]
pub enum SeekEnd {
    Earliest,
    Latest,
}

/// A time in every partition.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AtTime {
    /// The time.
    pub time: Time,
}

/// An offset in one partition.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AtOffset {
    /// The partition.
    pub partition: PartitionNumber,
    /// The offset.
    pub offset: Integer,
}

/// `POST …/seek`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Seek {
    /// The target.
    #[serde(deserialize_with = "short")]
    pub to: SeekTo,
    /// Report what a seek would do, and change nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// The name of the operator.
    pub by: Option<String>,
    /// The reason for the seek.
    pub reason: Option<String>,
}

/// The result of a seek.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Sought {
    pub status: MovedStatus,
    pub dry_run: bool,
    pub partitions: Vec<Moved>,
    pub redelivers: u64,
    pub skips: u64,
    pub dropped_open: u64,
}

/// The old and new position of a cursor.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Moved {
    pub partition: u32,
    pub from: u64,
    pub to: u64,
}

/// A group.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Group {
    #[schema(value_type = TopicName)]
    pub topic: String,
    #[schema(value_type = GroupName)]
    pub group: String,
    pub created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    pub backlog: u64,
    pub open: u64,
    pub leased: u64,
    pub waiting: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_unsettled_at: Option<Time>,
    pub rates: GroupRates,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<Cursor>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumers: Option<Vec<Consumer>>,
}

/// Messages per second, averaged over 15 s. `failed` counts nacks, expired leases and dead letters.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct GroupRates {
    pub delivered: f64,
    pub acked: f64,
    pub failed: f64,
}

/// The pause of a group.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Paused {
    pub since: Time,
    pub by: String,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// A group's position in one partition.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Cursor {
    pub partition: u32,
    pub generation: u64,
    pub next_to_deliver: u64,
    /// All messages up to this offset are settled. −1 if none is settled.
    #[schema(minimum = -1)]
    pub settled_through: i64,
    pub backlog: u64,
    pub leased: u64,
    pub waiting: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_unsettled_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
}

/// A consumer of a group: all that one owner does.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Consumer {
    pub owner: String,
    pub leased: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_expiry_at: Option<Time>,
    pub settled_1m: u64,
    pub failed_1m: u64,
    pub expired_1m: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_p50_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_p95_ms: Option<u64>,
    pub last_seen_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_settle_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<Worker>,
    pub connections: Vec<Connection>,
}

/// A stream or poll of a consumer.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Connection {
    pub consumer: String,
    pub kind: &'static str,
    pub remote: String,
    pub since: Time,
    pub prefetch: u32,
    pub outstanding: u32,
    pub lease_ms: u64,
}

/// `GET /v1/topics/{topic}/groups`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Groups {
    /// Groups, sorted by name, without partitions and consumers.
    pub groups: Vec<Group>,
    /// The cursor of the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PageCursor>)]
    pub next_cursor: Option<String>,
}

/// `DELETE /v1/topics/{topic}/groups/{group}`.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedGroup {
    /// `deleted`.
    pub status: DeletedStatus,
    /// The number of messages it had not settled.
    pub backlog: u64,
    /// The part of the backlog that was open.
    pub open: u64,
}
