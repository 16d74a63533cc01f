//! Commands that clients send, each with the type of its reply.

use serde::{Deserialize, Serialize};

use crate::audit::Tip;
use crate::command::{
    Act, AuditSlice, Began, Begin, Command, Commit, CommitReceipt, CreateTopic, DeadLetters,
    EffectQuery, EffectView, Effects, Explain, Explained, ExtendEffect, Finish, GroupName,
    ListDead, ListEffects, ListPointers, PatchTopic, Pause, Peek, Peeked, Pointer, PointerQuery,
    Pointers, Produce, Produced, Purge, ReadAudit, Redrive, Repair, Repaired, Reply, Resolve, Seek,
    Sought, Start, TopicName,
};
use crate::id::{MessageId, ShardId, Text};
use crate::message::Receipt;
use crate::time::Timestamp;
use crate::view::{AllViews, GroupView, TopicView};

/// A command whose reply has one type.
pub trait Call {
    /// The type of its reply.
    type Reply;

    /// Converts the call into the command that a shard decides.
    fn into_command(self) -> Command;

    /// Returns the reply, if it is one to this command.
    fn reply(reply: Reply) -> Option<Self::Reply>;
}

/// Whether a create command created something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// The object was created.
    Created,
    /// The same object existed before.
    Existed,
}

/// A command that is recorded if it changes something.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecordedCommand {
    /// Who performs it, and why.
    pub act: Act,
    /// The command.
    pub command: Command,
}

/// A call that is part of an administrative act, and recorded if it changes something.
#[derive(Debug, Clone)]
pub struct Recorded<C> {
    /// Who does it, and why.
    pub act: Act,
    /// The call.
    pub call: C,
}

impl<C: Call> Call for Recorded<C> {
    type Reply = C::Reply;

    fn into_command(self) -> Command {
        let Recorded { act, call } = self;
        Command::Recorded(Box::new(RecordedCommand { act, command: call.into_command() }))
    }

    fn reply(reply: Reply) -> Option<C::Reply> {
        C::reply(reply)
    }
}

/// Create a group.
#[derive(Debug, Clone)]
pub struct CreateGroup {
    /// Its name.
    pub name: GroupName,
    /// Where it starts.
    pub start: Start,
}

/// Delete a topic.
#[derive(Debug, Clone)]
pub struct DeleteTopic(pub TopicName);

/// The contents of a deleted topic.
#[derive(Debug, Clone, Copy)]
pub struct DeletedTopic {
    /// Messages.
    pub messages: u64,
    /// Dead letters.
    pub dead_letters: u64,
}

/// Count what [`DeleteTopic`] would delete.
#[derive(Debug, Clone)]
pub struct WouldDeleteTopic(pub TopicName);

/// The contents of a topic.
#[derive(Debug, Clone, Copy)]
pub struct TopicContents {
    /// Messages.
    pub messages: u64,
    /// Messages that are open in some group.
    pub open: u64,
    /// Groups.
    pub groups: u64,
    /// Dead letters.
    pub dead_letters: u64,
}

/// Delete a group.
#[derive(Debug, Clone)]
pub struct DeleteGroup(pub GroupName);

/// Count what [`DeleteGroup`] would delete.
#[derive(Debug, Clone)]
pub struct WouldDeleteGroup(pub GroupName);

/// The contents of a group.
#[derive(Debug, Clone, Copy)]
pub struct GroupContents {
    /// Messages that are not settled.
    pub backlog: u64,
    /// The part of the backlog that is open.
    pub open: u64,
}

/// End a pause.
#[derive(Debug, Clone)]
pub struct Resume(pub GroupName);

/// Show a topic.
#[derive(Debug, Clone)]
pub struct ViewTopic(pub TopicName);

/// Show a group.
#[derive(Debug, Clone)]
pub struct ViewGroup(pub GroupName);

/// Show all topics of a namespace, dead-letter topics included.
#[derive(Debug, Clone)]
pub struct ListTopics {
    /// The namespace.
    pub namespace: Text,
}

/// Show all topics and groups of a namespace.
#[derive(Debug, Clone)]
pub struct ViewAll {
    /// The namespace.
    pub namespace: Text,
}

/// Stop deliveries to a worker, because it is about to end.
#[derive(Debug, Clone)]
pub struct LeaveWorker {
    /// Its id.
    pub worker: Text,
}

/// Show all groups of a topic.
#[derive(Debug, Clone)]
pub struct ListGroups(pub TopicName);

/// Count the dead letters that a [`Purge`] would delete.
#[derive(Debug, Clone)]
pub struct WouldPurge(pub Purge);

/// Show how long an audit chain is.
#[derive(Debug, Clone)]
pub struct ViewChain {
    /// The shard of the chain.
    pub shard: ShardId,
    /// The namespace of the chain.
    pub namespace: Text,
}

/// A message that was redriven.
#[derive(Debug, Clone, Copy)]
pub struct RedrivenAs {
    /// Its new id.
    pub new: MessageId,
    /// Whether an earlier redrive did it.
    pub already: bool,
}

/// An effect that has finished.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The effect.
    pub effect: EffectView,
    /// Whether the same finish was accepted before.
    pub repeated: bool,
}

/// A commit that was applied.
#[derive(Debug, Clone)]
pub struct Committed {
    /// One receipt for each message.
    pub produced: Vec<CommitReceipt>,
    /// Whether the same commit was accepted before.
    pub repeated: bool,
}

/// The effect, or the message, with the given name.
#[derive(Debug, Clone)]
pub enum NamedEffect {
    /// An effect.
    Effect(Box<EffectView>),
    /// A message that was produced with this idempotency key.
    Produced(Box<Produced>),
}

macro_rules! calls {
    ($($call:ty, $command:expr => $answer:ty, $pattern:pat => $value:expr;)*) => {$(
        impl Call for $call {
            type Reply = $answer;

            fn into_command(self) -> Command {
                let command: fn($call) -> Command = $command;
                command(self)
            }

            fn reply(reply: Reply) -> Option<$answer> {
                if let $pattern = reply { Some($value) } else { None }
            }
        }
    )*};
}

calls! {
    PatchTopic, |call| Command::PatchTopic(Box::new(call)) => Box<TopicView>, Reply::Topic(view) => view;
    DeleteTopic, |call| Command::DeleteTopic(call.0) => DeletedTopic,
        Reply::TopicDeleted { messages, dead_letters } => DeletedTopic { messages, dead_letters };
    WouldDeleteTopic, |call| Command::WouldDeleteTopic(call.0) => TopicContents,
        Reply::WouldDeleteTopic { messages, open, groups, dead_letters } =>
            TopicContents { messages, open, groups, dead_letters };
    ViewTopic, |call| Command::ViewTopic(call.0) => Box<TopicView>, Reply::Topic(view) => view;
    ListTopics, |call| Command::ListTopics { namespace: call.namespace } => Vec<TopicView>, Reply::Topics(views) => views;
    LeaveWorker, |call| Command::LeaveWorker { worker: call.worker } => (), Reply::Done => ();
    ViewAll, |call| Command::ViewAll { namespace: call.namespace } => Box<AllViews>, Reply::All(views) => views;

    DeleteGroup, |call| Command::DeleteGroup(call.0) => GroupContents,
        Reply::GroupDeleted { backlog, open } => GroupContents { backlog, open };
    WouldDeleteGroup, |call| Command::WouldDeleteGroup(call.0) => GroupContents,
        Reply::WouldDeleteGroup { backlog, open } => GroupContents { backlog, open };
    Pause, Command::Pause => (), Reply::Done => ();
    Resume, |call| Command::Resume(call.0) => (), Reply::Done => ();
    Seek, Command::Seek => Sought, Reply::Sought(sought) => sought;
    ViewGroup, |call| Command::ViewGroup(call.0) => Box<GroupView>, Reply::Group(view) => view;
    ListGroups, |call| Command::ListGroups(call.0) => Vec<GroupView>, Reply::Groups(views) => views;

    Produce, |call| Command::Produce(Box::new(call)) => Receipt, Reply::Produced(receipt) => receipt;
    Peek, |call| Command::Peek(Box::new(call)) => Box<Peeked>, Reply::Peeked(peeked) => peeked;
    Explain, |call| Command::Explain(Box::new(call)) => Box<Explained>, Reply::Explained(explained) => explained;
    Repair, Command::Repair => Repaired, Reply::Repaired(repaired) => repaired;

    Commit, |call| Command::Commit(Box::new(call)) => Committed,
        Reply::Committed { produced, repeated } => Committed { produced, repeated };

    ListDead, |call| Command::ListDead(Box::new(call)) => Box<DeadLetters>, Reply::DeadLetters(letters) => letters;
    Redrive, Command::Redrive => RedrivenAs, Reply::Redriven { new, already } => RedrivenAs { new, already };
    Purge, |call| Command::Purge(Box::new(call)) => u64, Reply::Purged { purged } => purged;
    WouldPurge, |call| Command::WouldPurge(Box::new(call.0)) => u64, Reply::Purged { purged } => purged;

    Begin, |call| Command::Begin(Box::new(call)) => Box<Began>, Reply::Began(began) => began;
    Finish, |call| Command::Finish(Box::new(call)) => Finished,
        Reply::Finished { effect, repeated } => Finished { effect: *effect, repeated };
    ExtendEffect, |call| Command::ExtendEffect(Box::new(call)) => Timestamp, Reply::Extended { until } => until;
    Resolve, |call| Command::Resolve(Box::new(call)) => Box<EffectView>, Reply::Effect(effect) => effect;
    ListEffects, |call| Command::ListEffects(Box::new(call)) => Box<Effects>, Reply::Effects(effects) => effects;

    PointerQuery, |call| Command::ViewPointer(Box::new(call)) => Box<Pointer>, Reply::Pointer(pointer) => pointer;
    ListPointers, |call| Command::ListPointers(Box::new(call)) => Box<Pointers>, Reply::Pointers(page) => page;
    ViewChain, |call| Command::ViewChain { shard: call.shard, namespace: call.namespace } => Tip, Reply::Chain(tip) => tip;
    ReadAudit, |call| Command::ReadAudit(Box::new(call)) => Box<AuditSlice>, Reply::Audit(slice) => slice;
}

impl Call for CreateTopic {
    type Reply = Creation;

    fn into_command(self) -> Command {
        Command::CreateTopic(Box::new(self))
    }

    fn reply(reply: Reply) -> Option<Creation> {
        if let Reply::TopicCreated { .. } = reply {
            return Some(Creation::Created);
        }
        matches!(reply, Reply::TopicExists { .. }).then_some(Creation::Existed)
    }
}

impl Call for CreateGroup {
    type Reply = Creation;

    fn into_command(self) -> Command {
        Command::CreateGroup(self.name, self.start)
    }

    fn reply(reply: Reply) -> Option<Creation> {
        if let Reply::GroupCreated { .. } = reply {
            return Some(Creation::Created);
        }
        matches!(reply, Reply::GroupExists { .. }).then_some(Creation::Existed)
    }
}

impl Call for EffectQuery {
    type Reply = NamedEffect;

    fn into_command(self) -> Command {
        Command::ViewEffect(Box::new(self))
    }

    fn reply(reply: Reply) -> Option<NamedEffect> {
        match reply {
            Reply::Effect(effect) => Some(NamedEffect::Effect(effect)),
            Reply::TakenKey(produced) => Some(NamedEffect::Produced(produced)),
            _ => None,
        }
    }
}
