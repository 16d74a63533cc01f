//! Topics, groups and consumers as a shard shows them.

use serde::{Deserialize, Serialize};

use crate::id::{ConsumerId, Generation, GroupId, Offset, Text, TopicId};
use crate::settings::{Settings, SettingsPatch};
use crate::time::Timestamp;

/// A topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopicView {
    /// Its id.
    pub id: TopicId,
    /// Its name.
    pub name: Text,
    /// When it was created.
    pub created_at: Timestamp,
    /// Settings in force.
    pub settings: Settings,
    /// The settings that were changed for this topic.
    pub changed: SettingsPatch,
    /// Whether it is a dead-letter topic.
    pub is_dlq: bool,
    /// One per partition.
    pub partitions: Vec<LaneView>,
    /// Its groups.
    pub groups: Vec<Text>,
    /// Dead letters of this topic that were not redriven.
    pub dead_letters: u64,
    /// Partitions that accept no message of a byte. Counted only in the view of all topics.
    #[serde(default)]
    pub full_partitions: u64,
    /// Messages stored in the last 15 s, in whole slots of 5 s. The first release does not send it.
    #[serde(default)]
    pub produced_15s: u64,
}

/// All topics and groups of a namespace, each sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllViews {
    /// The topics, dead-letter topics included.
    pub topics: Vec<TopicView>,
    /// The groups.
    pub groups: Vec<GroupView>,
}

/// One partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneView {
    /// The oldest offset kept.
    pub first: Offset,
    /// The offset of the next message.
    pub high: Offset,
    /// Bytes in between.
    pub bytes: u64,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupView {
    /// Its id.
    pub id: GroupId,
    /// Its topic's name.
    pub topic: Text,
    /// Its name.
    pub name: Text,
    /// When it was created.
    pub created_at: Timestamp,
    /// Set while paused.
    pub paused: Option<Paused>,
    /// One per partition.
    pub partitions: Vec<CursorView>,
    /// Its streams and polls.
    pub consumers: Vec<ConsumerView>,
    /// Owners that are present, if the view is of all topics: they have a stream or poll, hold a
    /// lease, or were seen just now. The first release does not send it.
    #[serde(default)]
    pub present: u64,
    /// Its owners, if the view is of one group. The first release does not send them.
    #[serde(default)]
    pub owners: Vec<OwnerView>,
    /// The earliest of its partitions.
    pub oldest_unsettled_at: Option<Timestamp>,
    /// What happened in the last 15 s. The first release does not send it.
    #[serde(default)]
    pub recent: RecentView,
}

/// What happened in a group in the last 15 s, in whole slots of 5 s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentView {
    /// Deliveries, repeated ones included.
    pub delivered: u64,
    /// Acks.
    pub acked: u64,
    /// Nacks, expired leases and dead letters.
    pub failed: u64,
}

/// An owner that a group has seen lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerView {
    /// Its name.
    pub owner: Text,
    /// Leases that it holds.
    pub leased: u64,
    /// When the first of them ends.
    pub next_expiry_at: Option<Timestamp>,
    /// Messages that it acked in the last minute.
    pub acked_1m: u64,
    /// Messages that it nacked in the last minute.
    pub failed_1m: u64,
    /// Leases that expired in the last minute.
    pub expired_1m: u64,
    /// The median of how long it held the leases that it settled in the last 5 to 10 minutes.
    pub hold_p50_ms: Option<u64>,
    /// The 95th percentile.
    pub hold_p95_ms: Option<u64>,
    /// When it last connected, disconnected, settled or extended.
    pub last_seen_at: Timestamp,
    /// When it last settled.
    pub last_settle_at: Option<Timestamp>,
    /// The worker that last connected under this name, if it named itself.
    #[serde(default)]
    pub worker: Option<Box<Worker>>,
}

/// A stream or poll of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerView {
    /// Its number.
    pub consumer: ConsumerId,
    /// Its name for itself.
    pub owner: Text,
    /// The lease of its deliveries.
    pub lease_ms: u32,
    /// Unsettled deliveries it may hold.
    pub credit: u32,
    /// Unsettled deliveries it holds.
    pub held: u32,
    /// How it is connected.
    pub peer: Peer,
    /// When it joined.
    pub since: Timestamp,
    /// When one of its deliveries was last settled.
    pub last_settle_at: Option<Timestamp>,
}

/// A group's position in one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorView {
    /// The generation of the cursor.
    pub generation: Generation,
    /// The first offset that was never delivered.
    pub next: Offset,
    /// The offset of the next message.
    pub high: Offset,
    /// All messages up to this offset are settled. `None` if none is settled.
    pub committed: Option<Offset>,
    /// Messages that are not settled.
    pub backlog: u64,
    /// Messages that are leased.
    pub leased: u64,
    /// Messages that wait for a retry.
    pub waiting: u64,
    /// When the first retry is due.
    pub next_retry_at: Option<Timestamp>,
    /// When the oldest message that is not settled was produced, delivered or not. `None` if all are
    /// settled, or if it is not known yet.
    #[serde(default)]
    pub oldest_unsettled_at: Option<Timestamp>,
    /// Why no new message is delivered, if none is.
    pub blocked: Option<Blocked>,
}

/// Why a partition delivers no new message to a group: the first reason that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blocked {
    /// The group is paused.
    Paused,
    /// No consumer is present: none has a stream or poll, holds a lease or has just polled.
    NoConsumers,
    /// Every stream has as many unsettled deliveries as it may hold, and no poll waits.
    NoCredit,
    /// `max_in_flight` is reached.
    InFlightLimit,
    /// `max_open` is reached.
    MaxOpen,
    /// The group has reached the shard's limit of open messages.
    OpenLimit,
    /// All messages were delivered.
    NothingNew,
    /// Messages are being loaded.
    Loading,
    /// Stored messages or open entries are damaged.
    Quarantined,
}

impl Blocked {
    /// Returns its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Blocked::Paused => "paused",
            Blocked::NoConsumers => "no_consumers",
            Blocked::NoCredit => "consumers_full",
            Blocked::InFlightLimit => "in_flight_limit",
            Blocked::MaxOpen => "max_open",
            Blocked::OpenLimit => "open_limit",
            Blocked::NothingNew => "nothing_new",
            Blocked::Loading => "loading",
            Blocked::Quarantined => "quarantined",
        }
    }
}

/// The pause of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// When it started.
    pub since: Timestamp,
    /// The person or program that paused the group.
    pub by: Text,
    /// The reason.
    pub reason: Text,
    /// When the pause ends by itself. `None` means never.
    pub until: Option<Timestamp>,
}

/// How a consumer is connected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// By a stream or by a poll.
    pub kind: PeerKind,
    /// Its remote address.
    pub remote: Text,
    /// The worker that it belongs to, if it named one. The first release does not send it.
    #[serde(default)]
    pub worker: Option<Box<Worker>>,
}

/// A worker process, as it describes itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Its id. `POST /v1/leave` names it.
    pub id: Text,
    /// The library that it uses.
    pub sdk: Option<Text>,
    /// The version of the library.
    pub version: Option<Text>,
    /// Its host.
    pub host: Option<Text>,
    /// Its process id.
    pub pid: Option<u32>,
    /// How many messages it handles at a time.
    pub concurrency: Option<u32>,
}

/// A stream stays connected until the consumer leaves. A poll receives the deliveries of one batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants are what their names say")]
pub enum PeerKind {
    #[default]
    Stream,
    Poll,
}

impl PeerKind {
    /// Returns its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            PeerKind::Stream => "stream",
            PeerKind::Poll => "poll",
        }
    }
}
