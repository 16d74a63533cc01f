//! What can be asked of a shard, and what it answers.

mod audit;
mod call;
mod commit;
mod dead;
mod effect;
mod explain;
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
use crate::settings::{SettingsChange, SettingsPatch};
use crate::time::Timestamp;
use crate::token::{EffectToken, LeaseToken};
use crate::view::{GroupView, TopicView};

pub use crate::id::LeaseId;
pub use crate::name::{GroupName, TopicName};
pub use crate::view::{Peer, PeerKind};
pub use audit::{AuditSlice, ReadAudit};
pub use call::{
    Call, Committed, CreateGroup, Creation, DeleteGroup, DeleteTopic, DeletedTopic, Finished,
    GroupContents, ListGroups, ListTopics, NamedEffect, RedrivenAs, Resume, TopicContents,
    ViewChain, ViewGroup, ViewTopic, WouldDeleteGroup, WouldDeleteTopic, WouldPurge,
};
pub use commit::{Commit, CommitReceipt, Ending, Part};
pub use dead::{DeadFilter, DeadLetter, DeadLetters, DeadState, ListDead, Purge};
pub use effect::{
    Began, Begin, BeginDecision, BeginOf, EffectQuery, EffectView, Effects, Finish, FinishStatus,
    ListEffects, Produced, Request, Resolve,
};
pub use explain::{Event, EventKind, Explain, ExplainState, Explained, ExplainedMessage, InGroup};
pub use outbox::{Arrive, Arrived, Outgoing, Sender};
pub use peek::{Peek, PeekFilter, PeekState, Peeked, PeekedMessage};
pub use place::{Place, together};
pub use pointer::{ListPointers, Pointer, PointerName, PointerQuery, Pointers, SetPointer};
pub use produce::{Produce, Routed, RoutedKey, Seen};
pub use rejection::{Full, Missing, Rejection, Stale};

impl Command {
    /// The messages it would store.
    pub fn produces(&mut self) -> &mut [Produce] {
        if let Command::Produce(produce) = self {
            return std::slice::from_mut(produce);
        }
        if let Command::Commit(commit) = self {
            return &mut commit.produce;
        }
        &mut []
    }
}

/// Something to be decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Command {
    /// Make a topic.
    CreateTopic(Box<CreateTopic>),
    /// Change settings of a topic.
    PatchTopic(Box<PatchTopic>),
    /// Remove a topic, its groups, messages and dead letters.
    DeleteTopic(TopicName),
    /// Say what [`Command::DeleteTopic`] would remove.
    WouldDeleteTopic(TopicName),
    /// Make a group.
    CreateGroup(GroupName, Start),
    /// Remove a group.
    DeleteGroup(GroupName),
    /// Say what [`Command::DeleteGroup`] would remove.
    WouldDeleteGroup(GroupName),
    /// Lease nothing new to a group.
    Pause(Pause),
    /// Lease again.
    Resume(GroupName),
    /// Move cursors of a group.
    Seek(Seek),
    /// Store a message.
    Produce(Box<Produce>),
    /// A consumer comes.
    Join(Join),
    /// A consumer goes. What it holds stays leased.
    Leave(ConsumerId),
    /// Done.
    Ack(Claim),
    /// Not done.
    Nack(Nack),
    /// More time.
    Extend(Extend),
    /// A lease nobody ever saw goes back, uncounted.
    GiveBack(LeaseId),
    /// Bring dead letters back to the group they died in.
    Redrive(Redrive),
    /// Show a topic.
    ViewTopic(TopicName),
    /// Show a group.
    ViewGroup(GroupName),
    /// Show all topics of a namespace, those of dead letters too.
    ListTopics {
        /// Isolation boundary.
        namespace: Text,
    },
    /// Show all groups of a topic.
    ListGroups(TopicName),
    /// Look at messages of a partition.
    Peek(Box<Peek>),
    /// Look at dead letters of a topic.
    ListDead(Box<ListDead>),
    /// Say why a message or a group is where it is.
    Explain(Box<Explain>),
    /// Throw dead letters away.
    Purge(Box<Purge>),
    /// Say how many of them there are.
    WouldPurge(Box<Purge>),
    /// One step of repairing a partition.
    Repair(Repair),
    /// Ask for the right to execute an effect.
    Begin(Box<Begin>),
    /// Say how an effect ended.
    Finish(Box<Finish>),
    /// Settle a delivery, finish its effects and produce what follows, all or nothing.
    Commit(Box<Commit>),
    /// More time for an effect, and for the delivery it belongs to.
    ExtendEffect(Box<ExtendEffect>),
    /// A person says how a doubtful effect ended.
    Resolve(Box<Resolve>),
    /// Show an effect.
    ViewEffect(Box<EffectQuery>),
    /// Show a pointer.
    ViewPointer(Box<PointerQuery>),
    /// Look at pointers of a version of a dataset.
    ListPointers(Box<ListPointers>),
    /// Show a taken key of a topic on another shard.
    ViewRouted(Box<RoutedKey>),
    /// Look for effects whose outcome is not known.
    ListEffects(Box<ListEffects>),
    /// Say how far an audit chain goes.
    ViewChain {
        /// On which shard.
        shard: ShardId,
        /// Whose.
        namespace: Text,
    },
    /// Read records of an audit chain.
    ReadAudit(Box<ReadAudit>),
    /// Messages come from another shard.
    Arrive(Box<Arrive>),
    /// What became of messages that were sent.
    Arrived(Box<Arrived>),
    /// The storage is nearly full, or has room again: nothing new is stored meanwhile, so that what frees
    /// room can still be written. Comes from whoever watches it, again after every recovery.
    StorageLow(bool),
}

/// Make a topic.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreateTopic {
    /// Its name.
    pub name: TopicName,
    /// Its partitions, for ever.
    pub partitions: u32,
    /// What differs from the defaults.
    pub settings: SettingsPatch,
}

/// Change settings of a topic. What it says holds for what is decided from then on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PatchTopic {
    /// Which.
    pub name: TopicName,
    /// What is set, and what goes back to its default.
    pub settings: SettingsChange,
}

/// Where a group or cursor begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// The oldest message that is kept.
    Earliest,
    /// What comes after now.
    Latest,
    /// In every partition the first message stored at or after that time. Not for [`Join`].
    Time(Timestamp),
}

/// Lease nothing new to a group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pause {
    /// Which.
    pub name: GroupName,
    /// Who.
    pub by: Text,
    /// Why.
    pub reason: Text,
    /// Until when, if not for ever.
    pub until: Option<Timestamp>,
}

/// Move cursors of a group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Seek {
    /// Which group.
    pub name: GroupName,
    /// Where to.
    pub to: SeekTo,
    /// Only say what would happen.
    pub dry_run: bool,
}

/// Repair a partition whose stored rows are damaged.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Repair {
    /// Which topic.
    pub topic: TopicName,
    /// Which partition.
    pub partition: u32,
    /// Where the step begins: 0, then what the step before said.
    pub from: Offset,
    /// Only say what would happen.
    pub dry_run: bool,
}

/// Where a seek goes.
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

/// A consumer comes.
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
    /// Where the group starts, should this make it.
    pub start: Start,
    /// How it takes part.
    pub peer: Peer,
}

/// How a caller names the delivery it means.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Claim {
    /// By its token: fenced. What was said beside it must agree with it.
    Token(LeaseToken, Option<Box<ExpectedDelivery>>),
    /// By position and owner, as v1 did: the same owner on an older attempt is taken for the newer.
    Owner { name: GroupName, partition: u32, offset: Offset, owner: Text },
}

/// What a caller said beside a token: one that mixed up two deliveries is told so.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct ExpectedDelivery {
    pub topic: Option<Text>,
    pub group: Option<Text>,
    pub partition: Option<u32>,
    pub offset: Option<Offset>,
    pub owner: Option<Text>,
}

/// Not done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Nack {
    /// Which delivery.
    pub claim: Claim,
    /// Why; becomes the last error.
    pub reason: Option<Text>,
    /// When again, if not by policy.
    pub delay_ms: Option<u64>,
    /// What kind of "not done".
    pub kind: NackKind,
}

/// What kind of "not done".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NackKind {
    /// It failed.
    Failed,
    /// It failed for good.
    Final,
    /// Nothing failed: somebody else should take it.
    Release,
}

/// More time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Extend {
    /// Which delivery.
    pub claim: Claim,
    /// From now; as granted if absent.
    pub lease_ms: Option<u64>,
}

/// More time for an effect.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExtendEffect {
    /// The right to it.
    pub token: EffectToken,
    /// From now; as granted if absent.
    pub lease_ms: Option<u64>,
}

/// Bring dead letters back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Redrive {
    /// The topic they died in.
    pub topic: TopicName,
    /// The dead letter.
    pub id: MessageId,
    /// Also where its effects may be forgotten, so that they would be executed again.
    pub force: bool,
    /// Who.
    pub by: Text,
    /// Why.
    pub reason: Text,
}

/// What a shard answers when it does what was asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Reply {
    /// Nothing to add.
    Done,
    /// A topic was made.
    TopicCreated { topic: TopicId, partitions: u32 },
    /// It was there before, alike.
    TopicExists { topic: TopicId, partitions: u32 },
    /// A topic is gone, with so much in it.
    TopicDeleted { messages: u64, dead_letters: u64 },
    /// A group was made.
    GroupCreated { group: GroupId },
    /// It was there before.
    GroupExists { group: GroupId },
    /// A group is gone.
    GroupDeleted { backlog: u64, open: u64 },
    /// Cursors were moved, or would be.
    Sought(Sought),
    /// A step of a repair was done, or would be.
    Repaired(Repaired),
    /// A message is stored.
    Produced(Receipt),
    /// The consumer takes part, under this number where its group is served.
    Joined {
        group: GroupId,
        #[serde(default)]
        consumer: ConsumerId,
    },
    /// The lease ends then.
    Extended { until: Timestamp },
    /// The dead letter lives again as `new`; `already`: since an earlier redrive.
    Redriven { new: MessageId, already: bool },
    /// A topic.
    Topic(Box<TopicView>),
    /// A group.
    Group(Box<GroupView>),
    /// Topics by name.
    Topics(Vec<TopicView>),
    /// Groups by name.
    Groups(Vec<GroupView>),
    /// Messages of a partition.
    Peeked(Box<Peeked>),
    /// Dead letters of a topic.
    DeadLetters(Box<DeadLetters>),
    /// Why it is where it is.
    Explained(Box<Explained>),
    /// So many dead letters are gone.
    Purged { purged: u64 },
    /// Whether the effect is to be executed.
    Began(Box<Began>),
    /// The effect ended so; `repeated`: it had been said before.
    Finished { effect: Box<EffectView>, repeated: bool },
    /// Everything of a commit is done; `repeated`: it had been before.
    Committed { produced: Vec<CommitReceipt>, repeated: bool },
    /// An effect.
    Effect(Box<EffectView>),
    /// A taken idempotency key.
    TakenKey(Box<Produced>),
    /// Effects whose outcome is not known.
    Effects(Box<Effects>),
    /// A pointer.
    Pointer(Box<Pointer>),
    /// Pointers by their partition keys.
    Pointers(Box<Pointers>),
    /// So far an audit chain goes.
    Chain(Tip),
    /// Records of an audit chain.
    Audit(Box<AuditSlice>),
    /// So far messages of another shard have arrived.
    Arrived(Arrived),
    /// Another shard answers, if it is asked this.
    Elsewhere(Box<Command>),
    /// So much would go with a topic.
    WouldDeleteTopic { messages: u64, open: u64, groups: u64, dead_letters: u64 },
    /// So much would go with a group.
    WouldDeleteGroup { backlog: u64, open: u64 },
}

/// What a step of a repair did or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repaired {
    /// Offsets whose messages are lost, as ranges.
    pub lost: Vec<(Offset, Offset)>,
    /// Offsets that a group is given again, as ranges.
    pub reopened: Vec<(Text, Offset, Offset)>,
    /// Where the next step begins; None: the partition is repaired.
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
    /// Open messages the group no longer knows.
    pub dropped_open: u64,
}
