//! The commands of a shard, and its replies.

mod audit;
mod call;
mod commit;
mod dead;
mod effect;
mod explain;
mod format;
mod outbox;
mod peek;
mod place;
mod pointer;
mod produce;
mod rejection;

use serde::{Deserialize, Serialize};

use crate::audit::Tip;
use crate::id::{ConsumerId, GroupId, MessageId, Offset, ShardId, Text, TopicId};
use crate::message::Receipt;
use crate::retry::RetryRequest;
use crate::settings::{SettingsChange, SettingsPatch};
use crate::time::Timestamp;
use crate::token::{EffectToken, LeaseToken};
use crate::view::{AllViews, GroupView, TopicView};

pub use crate::act::{Act, StorageAct};
pub use crate::id::LeaseId;
pub use crate::name::{GroupName, TopicName};
pub use crate::view::{Peer, PeerKind, Worker};
pub use audit::{AuditSlice, ReadAudit};
pub use call::{
    Call, Committed, CreateGroup, Creation, DeleteGroup, DeleteTopic, DeletedTopic, Finished,
    GroupContents, LeaveWorker, ListGroups, ListTopics, NamedEffect, Recorded, RecordedCommand,
    RedrivenAs, Resume, TopicContents, ViewAll, ViewChain, ViewGroup, ViewTopic, WouldDeleteGroup,
    WouldDeleteTopic, WouldPurge,
};
pub use commit::{Commit, CommitReceipt, Ending, Part};
pub use dead::{DeadFilter, DeadLetter, DeadLetters, DeadState, ListDead, Purge};
pub use effect::{
    Began, Begin, BeginDecision, BeginOf, EffectQuery, EffectView, Effects, Finish, FinishStatus,
    ListEffects, Produced, Request, Resolve,
};
pub use explain::{
    Event, EventKind, Explain, ExplainState, Explained, ExplainedDeath, ExplainedMessage, InGroup,
};
pub use outbox::{Arrive, Arrived, Outgoing, Sender};
pub use peek::{Peek, PeekFilter, PeekState, Peeked, PeekedLease, PeekedMessage};
pub use place::{CommandTarget, merge_replies};
pub use pointer::{ListPointers, Pointer, PointerName, PointerQuery, Pointers, SetPointer};
pub use produce::{Produce, ProduceWithNonce, Routed, RoutedKey, Seen};
pub use rejection::{ContentField, Full, Missing, Rejection, Stale};

impl Command {
    /// Returns the command without the act that it belongs to.
    pub fn unrecorded(&self) -> &Command {
        if let Command::Recorded(recorded) = self { &recorded.command } else { self }
    }

    /// Returns the messages that the command would store.
    pub fn produces(&self) -> &[Produce] {
        match self {
            Command::Produce(produce) => std::slice::from_ref(produce),
            Command::ProduceWithNonce(part) => &part.messages,
            Command::Commit(commit) => &commit.produce,
            _ => &[],
        }
    }

    /// Like [`Command::produces`], to complete them before they are decided.
    pub fn produces_mut(&mut self) -> &mut [Produce] {
        match self {
            Command::Produce(produce) => std::slice::from_mut(produce),
            Command::ProduceWithNonce(part) => &mut part.messages,
            Command::Commit(commit) => &mut commit.produce,
            _ => &mut [],
        }
    }
}

/// A command for a shard to decide.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Command {
    /// Create a topic.
    CreateTopic(Box<CreateTopic>),
    /// Change settings of a topic.
    PatchTopic(Box<PatchTopic>),
    /// Delete a topic, its groups, messages and dead letters.
    DeleteTopic(TopicName),
    /// Count what [`Command::DeleteTopic`] would delete.
    WouldDeleteTopic(TopicName),
    /// Create a group.
    CreateGroup(GroupName, Start),
    /// Delete a group.
    DeleteGroup(GroupName),
    /// Count what [`Command::DeleteGroup`] would delete.
    WouldDeleteGroup(GroupName),
    /// Pause a group: no new leases are granted.
    Pause(Pause),
    /// End a pause.
    Resume(GroupName),
    /// Move cursors of a group.
    Seek(Seek),
    /// Store a message.
    Produce(Box<Produce>),
    /// Register a consumer.
    Join(Join),
    /// Remove a consumer. Its deliveries stay leased.
    Leave(ConsumerId),
    /// Acknowledge a delivery.
    Ack(Claim),
    /// End a delivery without settling its message as done.
    Nack(Nack),
    /// Extend the lease of a delivery.
    Extend(Extend),
    /// Return a lease that no consumer has seen. It does not count against `max_attempts`.
    GiveBack(LeaseId),
    /// Redrive a dead letter to the group it failed in.
    Redrive(Redrive),
    /// Stop deliveries to a worker, because it is about to end.
    LeaveWorker {
        /// Its id.
        worker: Text,
    },
    /// Show a topic.
    ViewTopic(TopicName),
    /// Show a group.
    ViewGroup(GroupName),
    /// Show all topics of a namespace, dead-letter topics included.
    ListTopics {
        /// Isolation boundary.
        namespace: Text,
    },
    /// Show all topics and groups of a namespace.
    ViewAll {
        /// Isolation boundary.
        namespace: Text,
    },
    /// Show all groups of a topic.
    ListGroups(TopicName),
    /// List messages of a partition.
    Peek(Box<Peek>),
    /// List dead letters of a topic.
    ListDead(Box<ListDead>),
    /// Explain the state of a message, a group or an effect.
    Explain(Box<Explain>),
    /// Delete dead letters.
    Purge(Box<Purge>),
    /// Count the dead letters that [`Command::Purge`] would delete.
    WouldPurge(Box<Purge>),
    /// Perform one step of the repair of a partition.
    Repair(Repair),
    /// Request the right to execute an effect.
    Begin(Box<Begin>),
    /// Report how an effect ended.
    Finish(Box<Finish>),
    /// Settle a delivery, finish its effects and produce messages, all or nothing.
    Commit(Box<Commit>),
    /// Extend the lease of an effect, and of the delivery it belongs to.
    ExtendEffect(Box<ExtendEffect>),
    /// Resolve an effect in doubt, on behalf of a person.
    Resolve(Box<Resolve>),
    /// Show an effect.
    ViewEffect(Box<EffectQuery>),
    /// Show a pointer.
    ViewPointer(Box<PointerQuery>),
    /// List pointers of a version of a dataset.
    ListPointers(Box<ListPointers>),
    /// Show an idempotency key of a topic on another shard whose message was routed here.
    ViewRouted(Box<RoutedKey>),
    /// List effects whose outcome is unknown.
    ListEffects(Box<ListEffects>),
    /// Show the tip of an audit chain.
    ViewChain {
        /// The shard of the chain.
        shard: ShardId,
        /// The namespace of the chain.
        namespace: Text,
    },
    /// Read records of an audit chain.
    ReadAudit(Box<ReadAudit>),
    /// Store messages that another shard has sent.
    Arrive(Box<Arrive>),
    /// Record what happened to messages sent to another shard.
    Arrived(Box<Arrived>),
    /// Record that the storage is nearly full, or that it has space again. While it is nearly full,
    /// no new messages are stored, so that commands that free space can still be written. The
    /// storage monitor sends this, and sends it again after every recovery.
    StorageLow(bool),
    /// Decide a command, and record the administrative act that it belongs to.
    Recorded(Box<RecordedCommand>),
    /// Store messages of a produce request that may be sent again.
    ProduceWithNonce(Box<ProduceWithNonce>),
}

/// Create a topic.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreateTopic {
    /// Its name.
    pub name: TopicName,
    /// The number of partitions. It never changes.
    pub partitions: u32,
    /// The settings that differ from the defaults.
    pub settings: SettingsPatch,
    /// Fields of the retry policy that differ from the defaults, if not all are set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryRequest>,
}

/// Change settings of a topic. The change applies to later decisions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PatchTopic {
    /// The topic.
    pub name: TopicName,
    /// The settings to set, and those to reset to their defaults.
    pub settings: SettingsChange,
}

/// Where a group or cursor starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// The oldest message that is kept.
    Earliest,
    /// Messages stored from now on.
    Latest,
    /// In every partition, the first message stored at or after that time. Not valid in [`Join`].
    Time(Timestamp),
}

/// Pause a group: no new leases are granted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pause {
    /// The group.
    pub name: GroupName,
    /// The person or program that pauses it.
    pub by: Text,
    /// The reason.
    pub reason: Text,
    /// When the pause ends by itself. `None` means never.
    pub until: Option<Timestamp>,
}

/// Move cursors of a group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Seek {
    /// The group.
    pub name: GroupName,
    /// The target.
    pub to: SeekTo,
    /// Report what would happen, and change nothing.
    pub dry_run: bool,
}

/// Repair a partition whose stored rows are damaged.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Repair {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: u32,
    /// Where the step starts: 0, then [`Repaired::next`] of the previous step.
    pub from: Offset,
    /// Report what would happen, and change nothing.
    pub dry_run: bool,
}

/// The target of a seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum SeekTo {
    /// Every partition to its oldest message.
    Earliest,
    /// Every partition to its end.
    Latest,
    /// Every partition to its first message stored at or after that time.
    Time(Timestamp),
    /// One partition to an offset, clamped to what is kept.
    Offset { partition: u32, offset: Offset },
}

/// Register a consumer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Join {
    /// Its number, new for each stream or poll.
    pub consumer: ConsumerId,
    /// Its group.
    pub name: GroupName,
    /// Its name for itself.
    pub owner: Text,
    /// Its lease, if not the topic's.
    pub lease_ms: Option<u64>,
    /// Unsettled deliveries it may hold.
    pub credit: u32,
    /// Unsettled bytes it may hold; one message always fits.
    pub credit_bytes: u64,
    /// Where the group starts if this command creates it.
    pub start: Start,
    /// How it is connected.
    pub peer: Peer,
}

/// How a caller names the delivery it means.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Claim {
    /// By its token, which is fenced. Other fields of the request must match the token.
    Token(LeaseToken, Option<Box<ExpectedDelivery>>),
    /// By position and owner, as in v1. Not fenced: a request meant for an older attempt of the
    /// same owner applies to the newer one.
    Owner { name: GroupName, partition: u32, offset: Offset, owner: Text },
}

/// Fields that a caller sent together with a token. A mismatch is rejected, because the caller has
/// mixed up two deliveries.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct ExpectedDelivery {
    pub topic: Option<Text>,
    pub group: Option<Text>,
    pub partition: Option<u32>,
    pub offset: Option<Offset>,
    pub owner: Option<Text>,
}

/// End a delivery without settling its message as done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Nack {
    /// The delivery.
    pub claim: Claim,
    /// The reason. It is stored as the last error.
    pub reason: Option<Text>,
    /// The wait before the next attempt. Defaults to the backoff of the retry policy.
    pub delay_ms: Option<u64>,
    /// The kind of nack.
    pub kind: NackKind,
}

/// The kind of nack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NackKind {
    /// The attempt failed.
    Failed,
    /// The message failed permanently and is dead-lettered.
    Final,
    /// Nothing failed. Another consumer should receive the message.
    Release,
}

/// Extend the lease of a delivery.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Extend {
    /// The delivery.
    pub claim: Claim,
    /// The new lease, from now. Defaults to the lease as granted.
    pub lease_ms: Option<u64>,
}

/// Extend the lease of an effect.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExtendEffect {
    /// The token of the execution.
    pub token: EffectToken,
    /// The new lease, from now. Defaults to the lease as granted.
    pub lease_ms: Option<u64>,
}

/// Redrive a dead letter.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Redrive {
    /// The topic it failed in.
    pub topic: TopicName,
    /// The dead letter.
    pub id: MessageId,
    /// Redrive it even if outcomes of its effects may have expired, so that they could run again.
    pub force: bool,
    /// The person or program that redrives it.
    pub by: Text,
    /// The reason.
    pub reason: Text,
}

/// The reply to an accepted command.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Reply {
    /// Success without data.
    Done,
    /// A topic was created.
    TopicCreated { topic: TopicId, partitions: u32 },
    /// The topic existed before, with the same partitions and settings.
    TopicExists { topic: TopicId, partitions: u32 },
    /// A topic was deleted, with these numbers of messages and dead letters.
    TopicDeleted { messages: u64, dead_letters: u64 },
    /// A group was created.
    GroupCreated { group: GroupId },
    /// The group existed before.
    GroupExists { group: GroupId },
    /// A group was deleted.
    GroupDeleted { backlog: u64, open: u64 },
    /// Cursors were moved, or would be.
    Sought(Sought),
    /// A step of a repair was done, or would be.
    Repaired(Repaired),
    /// A message is stored.
    Produced(Receipt),
    /// The consumer is registered, under this number on the node that serves its group.
    Joined {
        group: GroupId,
        #[serde(default)]
        consumer: ConsumerId,
    },
    /// The lease was extended to this time.
    Extended { until: Timestamp },
    /// The dead letter was stored again as `new`. `already`: an earlier redrive did it.
    Redriven { new: MessageId, already: bool },
    /// A topic.
    Topic(Box<TopicView>),
    /// A group.
    Group(Box<GroupView>),
    /// Topics by name.
    Topics(Vec<TopicView>),
    /// All topics and groups.
    All(Box<AllViews>),
    /// Groups by name.
    Groups(Vec<GroupView>),
    /// Messages of a partition.
    Peeked(Box<Peeked>),
    /// Dead letters of a topic.
    DeadLetters(Box<DeadLetters>),
    /// An explanation.
    Explained(Box<Explained>),
    /// The number of dead letters that were deleted, or would be.
    Purged { purged: u64 },
    /// Whether the caller should execute the effect.
    Began(Box<Began>),
    /// The effect is finished. `repeated`: the same finish was accepted before.
    Finished { effect: Box<EffectView>, repeated: bool },
    /// The commit was applied. `repeated`: the same commit was accepted before.
    Committed { produced: Vec<CommitReceipt>, repeated: bool },
    /// An effect.
    Effect(Box<EffectView>),
    /// An idempotency key that is in use.
    TakenKey(Box<Produced>),
    /// Effects whose outcome is unknown.
    Effects(Box<Effects>),
    /// A pointer.
    Pointer(Box<Pointer>),
    /// Pointers by their partition keys.
    Pointers(Box<Pointers>),
    /// The tip of an audit chain.
    Chain(Tip),
    /// Records of an audit chain.
    Audit(Box<AuditSlice>),
    /// What happened to messages that another shard has sent.
    Arrived(Arrived),
    /// Another shard decides. Send it this command.
    Elsewhere(Box<Command>),
    /// What deleting a topic would delete.
    WouldDeleteTopic { messages: u64, open: u64, groups: u64, dead_letters: u64 },
    /// What deleting a group would delete.
    WouldDeleteGroup { backlog: u64, open: u64 },
    /// One result for each message.
    Each(Vec<Result<Reply, Rejection>>),
}

/// What a step of a repair did or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repaired {
    /// Offsets whose messages are lost, as ranges.
    pub lost: Vec<(Offset, Offset)>,
    /// Offsets that are delivered to a group again, as ranges.
    pub reopened: Vec<(Text, Offset, Offset)>,
    /// Where the next step starts. `None` means that the partition is repaired.
    pub next: Option<Offset>,
}

/// What a seek did or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sought {
    /// (partition, from, to) of each cursor that moves.
    pub moved: Vec<(u32, Offset, Offset)>,
    /// Messages that will be delivered again.
    pub redelivers: u64,
    /// Messages that will not be delivered.
    pub skips: u64,
    /// Open messages that the group no longer tracks.
    pub dropped_open: u64,
}
