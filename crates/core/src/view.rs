//! What a shard shows of itself.

use serde::{Deserialize, Serialize};

use crate::id::{ConsumerId, Generation, GroupId, Offset, Text, TopicId};
use crate::settings::{Settings, SettingsPatch};
use crate::time::Timestamp;

/// A topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopicView {
    /// Its life.
    pub id: TopicId,
    /// Its name.
    pub name: Text,
    /// When it was made.
    pub created_at: Timestamp,
    /// Settings in force.
    pub settings: Settings,
    /// Those of them that the topic has of its own.
    pub changed: SettingsPatch,
    /// Whether its messages are the dead letters of another topic.
    pub is_dlq: bool,
    /// One per partition.
    pub partitions: Vec<LaneView>,
    /// Its groups.
    pub groups: Vec<Text>,
    /// Dead letters that came from it and are still dead.
    pub dead_letters: u64,
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
    /// Its life.
    pub id: GroupId,
    /// Its topic's name.
    pub topic: Text,
    /// Its name.
    pub name: Text,
    /// When it was made.
    pub created_at: Timestamp,
    /// Set while paused.
    pub paused: Option<Paused>,
    /// One per partition.
    pub partitions: Vec<CursorView>,
    /// Who takes part.
    pub consumers: Vec<ConsumerView>,
    /// When the lowest open message was produced, of all partitions the earliest.
    pub oldest_unsettled_at: Option<Timestamp>,
}

/// A consumer of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerView {
    /// Its number.
    pub consumer: ConsumerId,
    /// Its name for itself.
    pub owner: Text,
    /// The lease it is given.
    pub lease_ms: u32,
    /// Unsettled deliveries it may hold.
    pub credit: u32,
    /// Unsettled deliveries it holds.
    pub held: u32,
    /// How it takes part.
    pub peer: Peer,
    /// When it came.
    pub since: Timestamp,
    /// When one of its deliveries was last settled.
    pub last_settle_at: Option<Timestamp>,
}

/// A group's place in one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorView {
    /// The life of the cursor.
    pub generation: Generation,
    /// First offset never delivered.
    pub next: Offset,
    /// The offset the next message gets.
    pub high: Offset,
    /// Everything up to here is settled; `None`: nothing is.
    pub committed: Option<Offset>,
    /// Messages that are not settled.
    pub backlog: u64,
    /// With consumers.
    pub leased: u64,
    /// Waiting for a retry.
    pub waiting: u64,
    /// When the first of them is due.
    pub next_retry_at: Option<Timestamp>,
    /// Why no fresh message is going out, if none is.
    pub blocked: Option<Blocked>,
}

/// Why no fresh message is going out of a partition: the first that is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blocked {
    /// The group is paused.
    Paused,
    /// Nobody is there.
    NoConsumers,
    /// Everybody holds what they may.
    NoCredit,
    /// As many are leased as may be.
    InFlightLimit,
    /// As many are open as may be.
    MaxOpen,
    /// The group has as many open as the shard allows it.
    OpenLimit,
    /// Everything was delivered.
    NothingNew,
    /// Messages are being read.
    Loading,
    /// Stored messages or open entries are damaged.
    Quarantined,
}

impl Blocked {
    /// The word for it on the wire.
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

/// Who paused a group, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Since when.
    pub since: Timestamp,
    /// Who.
    pub by: Text,
    /// Why.
    pub reason: Text,
    /// Until when, if not for ever.
    pub until: Option<Timestamp>,
}

/// How a consumer takes part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// For as long as it likes, or for one answer.
    pub kind: PeerKind,
    /// Where it comes from.
    pub remote: Text,
}

/// For as long as it likes, or for one answer: what one batch has for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants are what their names say")]
pub enum PeerKind {
    #[default]
    Stream,
    Poll,
}

impl PeerKind {
    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            PeerKind::Stream => "stream",
            PeerKind::Poll => "poll",
        }
    }
}
