//! Enumerations of requests and responses.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident in $case:tt { $($(#[$attribute:meta])* $word:ident),* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = $case)]
        #[expect(missing_docs, reason = "the API reference explains each word")]
        pub enum $name { $($(#[$attribute])* $word),* }
    )*};
}

words! {
    /// What happens to an effect whose outcome is unknown.
    OnDoubt in "snake_case" { Retry, Probe, Park }
    /// How an execution of an effect ended.
    FinishStatus in "SCREAMING_SNAKE_CASE" { Succeeded, FailedFinal, FailedRetryable, Unknown }
    /// What an operator should look at.
    AttentionKind in "snake_case" {
        NotReady, Clock, EffectsInDoubt, Node, Quarantined, PartitionFull, NoConsumers, OpenLimit, Paused, Failing,
        DeadLetters
    }
    /// The state of an effect.
    EffectState in "SCREAMING_SNAKE_CASE" {
        InProgress, InDoubt, Parked, Succeeded, FailedFinal, FailedRetryable
    }
    /// Whether the next execution gets another downstream key.
    Keep in "snake_case" { Keep, Renew }
    /// How a person resolves an effect.
    ResolvedAs in "snake_case" { Succeeded, Failed, Retry }
    /// How a commit settles its delivery.
    CommitSettle in "snake_case" { Ack, Nack }
    /// Why a message was dead-lettered.
    DeathReason in "snake_case" {
        Exhausted,
        #[serde(rename = "rejected", alias = "final")]
        Final,
        Deadline, Undeliverable
    }
    /// The state of a dead letter.
    DeadLetterState in "snake_case" { Dead, Redriven }
    /// Which dead letters a list shows.
    DeadLetterStates in "snake_case" { Dead, Redriven, All }
    /// The state of a message in a group.
    PeekState in "snake_case" { Ready, Leased, Waiting, Settled }
    /// What a worker should do with an effect.
    BeginDecision in "SCREAMING_SNAKE_CASE" { Execute, Replay, Retryable, InDoubt, InProgress }
    /// What happens next to an effect in doubt.
    DoubtAction in "snake_case" { Probe, Park }
    /// The list of a commit that an item is in.
    CommitPart in "snake_case" { Effects, Produce, Pointers }
    /// How a server routes messages.
    RouterKind in "snake_case" { None, Rules, Hook }
    /// Why a valid value is rejected.
    InvalidReason in "snake_case" { Deadline }
    /// What does not exist.
    MissingKind in "snake_case" { Route, Topic, Group, Message, Effect, Pointer, Node, Shard }
    /// Whether a failed request may have changed something.
    Outcome in "snake_case" { Unknown, None }
    /// Why a message is not redriven.
    RedriveState in "snake_case" { EffectsExpired }
    /// The state of a message whose lease has ended.
    StaleLeaseState in "snake_case" { Leased, Waiting, Settled, Dead, Generation, Gone }
    /// What differs from the first request.
    ConflictField in "snake_case" {
        Key, Value,
        #[serde(rename = "envelope.target_topic")]
        TargetTopic,
        #[serde(rename = "envelope.partition_override")]
        PartitionOverride,
        Message, Request, Outcome, Commit
    }
    /// Which limit is reached.
    ExhaustedReason in "snake_case" {
        PartitionBufferFull, PartitionBufferBytesFull, StorageLow, Connections, OutboxFull, Topics, Cursors, Memory,
        Overloaded
    }
    /// Whether a topic was created.
    TopicStatus in "snake_case" { Created, Exists }
    /// A topic or group was deleted.
    DeletedStatus in "snake_case" { Deleted }
    /// A message was stored.
    ProducedStatus in "snake_case" { Produced }
    /// A message will be stored on another shard.
    QueuedStatus in "snake_case" { Queued }
    /// A commit was applied.
    CommittedStatus in "snake_case" { Committed }
    /// The lease of an effect was extended.
    ExtendedStatus in "snake_case" { Extended }
    /// A group was moved by a seek.
    MovedStatus in "snake_case" { Moved }
    /// Whether a topic was repaired. A dry run is `checked`.
    RepairedStatus in "snake_case" { Repaired, Checked }
    /// How a delivery was settled.
    SettledStatus in "snake_case" { Acked, Nacked, Extended }
    /// Whether a dead letter was redriven.
    RedrivenStatus in "snake_case" { Redriven, Already, Would }
    /// Whether the server is alive and ready.
    HealthStatus in "snake_case" { Ok, Ready, NotReady }
    /// Why a partition delivers no new message to a group.
    Blocked in "snake_case" {
        Paused, NoConsumers,
        #[serde(rename = "consumers_full")]
        NoCredit,
        InFlightLimit, MaxOpen, NothingNew, OpenLimit, Loading, Quarantined
    }
    /// The state of a message in a group, also after it is settled.
    ExplainState in "snake_case" { Ready, Leased, Waiting, Settled, Dead, Trimmed }
    /// What happened to a message.
    EventKind in "snake_case" {
        Delivered, Extended, Expired, Nacked, Returned, Acked, Dead, Purged
    }
    /// Whether a node serves shards.
    NodeState in "snake_case" { Active, Stopping, Drained, DuplicateAddress, Gone }
    /// Whether a node serves a shard.
    ShardState in "snake_case" { Held, Free, Lost }
    /// The state of an effect in the words of v1.
    EffectStatus in "SCREAMING_SNAKE_CASE" { Pending, Committed, Failed }
    /// Why the outcome of an effect is unknown.
    DoubtCause in "snake_case" { LeaseExpired, Reported, Abandoned }
    /// The partition of messages without a key.
    Unkeyed in "snake_case" { First, Spread }
    /// What a message with a known idempotency key is compared by.
    DedupeCompare in "snake_case" { Key, Content }
}
