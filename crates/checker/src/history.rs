//! The history of a run: requests and replies of clients, deliveries that consumers read, and, if
//! the harness can observe it, what was committed.
//!
//! The format is one JSON event per line. The simulator passes events in memory. Real processes
//! write files that a harness merges by `seq`. The checker has no other source of information.
//!
//! 1. `seq` orders events as the harness observed them: a reply has a greater `seq` than its
//!    invocation, and an event that could have caused another has a smaller one.
//! 2. A call is invoked once and ends at most once: `Done`, `Refused` (nothing happened) or
//!    `Unknown` (it may or may not have happened). A call without an end is `Unknown`.
//! 3. `body` is unique to one logical message: producers repeat it only when they repeat a call.
//! 4. `Committed` events are in the commit order of their shard. They contain exactly the batches
//!    that became durable, whether or not the node received the confirmation. A history without any
//!    is valid; then only what clients saw is checked.
//! 5. `topic` names one life of a topic: a harness that creates a topic again gives it another
//!    name.

mod operator;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use operator::{MessageStatus, MessageStatusKind, Pointer, Settings, Start};

/// A topic, group, consumer or key.
pub type Name = Arc<str>;

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The position in the order of observations.
    pub seq: u64,
    /// The time of the observation, in milliseconds of the harness clock. Not compared with times
    /// of the authority clock, which are named `now`, `until`, `due` and `deadline`.
    pub at: u64,
    /// The process that observed it.
    pub process: u32,
    /// The observation.
    pub what: What,
}

/// An observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variant says what its fields are")]
pub enum What {
    /// A client sent a request.
    Invoked { call: u64, op: Op },
    /// The call succeeded.
    Done { call: u64, reply: Reply },
    /// The call was rejected: nothing happened. `code` is the error code, `state` its detail, if
    /// any (`STALE_LEASE`, `generation`).
    Refused { call: u64, code: Name, state: Option<Name> },
    /// The outcome is unknown: a timeout, a lost connection, or a reply that reports an unknown
    /// outcome.
    Unknown { call: u64 },
    /// A consumer read a delivery.
    Delivered(Delivery),
    /// The engine made a batch durable. `now` is the authority clock of the batch.
    Committed { shard: u32, epoch: u64, batch: u64, now: u64, facts: Vec<Fact> },
    /// A node claimed a shard under `epoch`.
    Claimed { node: u64, shard: u32, epoch: u64 },
    /// A node of an older release is alive, so acts on this shard are not recorded under `epoch`.
    OlderNodes { shard: u32, epoch: u64 },
    /// A node renewed its lease in the database. Other nodes may consider it dead `lease_ms` later.
    Renewed { node: u64, lease_ms: u64 },
    /// The process of a node is stopped until `until`, by the harness clock.
    Stopped { node: u64, until: u64 },
    /// A node decided a batch. The batch may or may not have been committed.
    Decided { node: u64, shard: u32, epoch: u64, batch: u64 },
    /// A node read a row that is missing or differs from what was written.
    Damaged { shard: u32, why: Name },
    /// The harness damaged the stored messages of a partition from `from` up to `to`. A repair may
    /// lose them.
    Corrupted { shard: u32, topic: Name, partition: u32, from: u64, to: u64 },
    /// The maximum number of leased or waiting messages of a shard. A group uses at most half of
    /// what the other groups leave.
    Limits { open_max: u64 },
    /// A delivery was written to the connection of its consumer.
    Written { lease: Lease },
    /// The connection of a consumer ended.
    Left { consumer: u64 },
    /// The storage was replaced by a backup taken at the event `to`. Everything committed since
    /// then no longer exists, and everything issued since then is invalid.
    Restored { to: u64 },
    /// Rows that belong to no existing topic or generation and that no garbage row lists. Counted
    /// at the end of the run.
    Leaked { shard: u32, rows: u64, example: Name },
    /// A node reported the counters of a group, as of `batch` if the harness knows it.
    Counted { batch: Option<u64>, counters: Counters },
    /// The authority clock shows `now` and may be followed from here on. A forward jump that must
    /// be held back is reported only after it is confirmed. This is the only event whose `at` is
    /// compared with times of the authority clock.
    Clock { now: u64 },
    /// A fault was injected (`fault` such as `crash`, `point` such as `committing`).
    Fault { fault: Name, point: Name },
    /// The end of the faults. From here on everything must drain.
    Healed,
    /// A dead letter that exists at the end of the run.
    DeadLetter(DeadLetter),
    /// The run has ended and is drained. Without this event, invariants about the end of a run are
    /// not checked.
    Ended,
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variant says what its fields are")]
pub enum Op {
    /// Store a message.
    Produce(Produce),
    /// Settle, release or renew a delivery.
    Settle { lease: Lease, verb: Verb, by_owner: bool },
    /// Create a group that starts at the first message, or behind the last one if `latest`.
    CreateGroup { topic: Name, group: Name, latest: bool },
    /// Create a group that starts at the first message stored at or after this time (authority
    /// clock).
    CreateGroupAt { topic: Name, group: Name, since: u64 },
    /// Delete a group.
    DeleteGroup { topic: Name, group: Name },
    /// Delete a topic and its groups.
    DeleteTopic { topic: Name },
    /// Pause or resume a group.
    Pause { topic: Name, group: Name, paused: bool },
    /// Move the cursor of one partition.
    Seek { topic: Name, group: Name, partition: u32, offset: u64 },
    /// Move the cursors of all partitions.
    SeekAll { topic: Name, group: Name, to: Start },
    /// Change the settings of a topic.
    Patch { topic: Name },
    /// Delete dead letters, or only count them if `dry_run`.
    Purge { topic: Name, ids: Vec<Name>, dry_run: bool },
    /// Read the state of the messages of a partition in each group.
    Inspect { topic: Name, partition: u32 },
    /// Ask why a group is delivered nothing.
    ExplainGroup { topic: Name, group: Name },
    /// Read a pointer of a topic.
    ReadPointer { topic: Name, name: Name },
    /// Present a lease that was issued before the storage was restored.
    Outdated,
    /// Commit under a lease issued before the restore. If the backup contains the commit, its
    /// result is returned.
    OutdatedCommit(Box<Commit>),
    /// Redrive a dead letter. `id` is the id of the dead letter.
    Redrive { topic: Name, id: Name },
    /// Request the right to execute an effect.
    Begin(Box<Begin>),
    /// Report the outcome of an execution.
    Finish { right: Box<Right>, status: Status, outcome: Name },
    /// Extend the right to execute an effect.
    ExtendEffect { right: Box<Right> },
    /// An operator resolves an effect in doubt.
    Resolve { effect: Box<Effect>, fence: u64, status: Status, outcome: Name },
    /// Settle a delivery, report the outcomes of its effects and produce messages, all or nothing.
    Commit(Box<Commit>),
    /// Any read that is not checked.
    Look,
}

/// A commit: the end of a delivery with its outcomes, messages and pointers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// The delivery.
    pub lease: Lease,
    /// How it ends: ack, nack or final nack.
    pub verb: Verb,
    /// Outcomes of the effects begun under the delivery.
    pub finishes: Vec<Finish>,
    /// Messages to produce. Each body belongs to one attempt: only a repeat of the commit sends it
    /// again.
    pub produce: Vec<Produce>,
    /// Pointers to set.
    #[serde(default)]
    pub pointers: Vec<Pointer>,
}

/// The outcome of an execution, as reported by its holder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct Finish {
    pub right: Right,
    pub status: Status,
    pub outcome: Name,
}

/// A message to produce.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Produce {
    /// The topic.
    pub topic: Name,
    /// Its content.
    pub message: Content,
    /// The idempotency key.
    pub idem: Option<Name>,
    /// The nonce of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Name>,
    /// The topic that the message names in its envelope, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Name>,
    /// Length of key, value, labels and headers.
    pub size: u64,
}

/// The content that must arrive unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Fingerprint of the value; unique to one logical message.
    pub body: u64,
    /// The message key.
    pub key: Name,
    /// The tenant; `default` when none was given.
    pub tenant: Name,
    /// Labels and headers; empty when none were given.
    #[serde(default)]
    pub extension: Name,
}

/// How a delivery is settled or renewed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variant says what its fields are")]
pub enum Verb {
    /// Done.
    Ack,
    /// Failed: retry, after `delay_ms` if given.
    Nack { delay_ms: Option<u64> },
    /// Failed permanently: dead-letter it.
    Final,
    /// Not failed: deliver it to another consumer, after `delay_ms`.
    Release { delay_ms: u64 },
    /// Extend the lease.
    Extend { lease_ms: u64 },
}

/// A reply to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variant says what its fields are")]
pub enum Reply {
    /// The message is stored, now or, if `deduplicated`, before. `topic` is set if it differs from
    /// the requested one.
    Produced { id: Name, topic: Option<Name>, partition: u32, offset: u64, deduplicated: bool },
    /// Settled or renewed.
    Settled,
    /// The number of dead letters that were deleted, or would be in a dry run.
    Purged { count: u64 },
    /// The states of messages in their groups.
    Inspected(Vec<MessageStatus>),
    /// The counters of a group, one per partition.
    Group(Vec<Counters>),
    /// The location of a pointer.
    Pointer { location: Name },
    /// The settings of a topic, as text.
    Topic { settings: Name },
    /// The dead letter was redriven as message `new`, now or, if `already`, before.
    Redriven { new: Name, already: bool },
    /// The decision about the effect. `outcome` is set if the decision includes one.
    Began { decision: Decision, right: Box<Right>, outcome: Name },
    /// The commit succeeded, now or, if `repeated`, before. `produced` has the id of each message,
    /// or `None` for a message that was sent to another shard.
    Committed { produced: Vec<Option<Name>>, repeated: bool },
    /// Anything else.
    Ok,
}

/// Names one attempt of one message in one group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The topic.
    pub topic: Name,
    /// The group.
    pub group: Name,
    /// The generation of its cursor: grows when the group is created again or its cursor is moved.
    pub generation: u64,
    /// Partition.
    pub partition: u32,
    /// Offset.
    pub offset: u64,
    /// The fence.
    pub attempt: u32,
}

/// A delivery as its consumer read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// The attempt of the message.
    pub lease: Lease,
    /// The message's id.
    pub id: Name,
    /// Counted deliveries, including this one.
    pub spent: u32,
    /// The content.
    pub message: Content,
}

/// A change that became durable with a commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variant says what its fields are")]
pub enum Fact {
    /// A message is stored.
    Stored(Stored),
    /// A produce was deduplicated: message `id` has the key. `topic` is the requested topic.
    Deduplicated { topic: Name, tenant: Name, idem: Name, id: Name },
    /// Until `until`, a message for `topic` with this key goes to a topic on another shard and
    /// nowhere else.
    Pinned { topic: Name, tenant: Name, idem: Name, until: u64 },
    /// A group was created. One entry per partition: (generation, first offset to read).
    GroupMade { topic: Name, group: Name, cursors: Vec<(u64, u64)> },
    /// The settings of a topic changed.
    Set(Box<Settings>),
    /// A group is paused, until `until` if given.
    Paused { topic: Name, group: Name, until: Option<u64> },
    /// A group was resumed.
    Resumed { topic: Name, group: Name },
    /// A consumer joined a group, by a poll or by a stream. It may have `credit` unsettled
    /// deliveries; 0 if the harness does not know how many.
    Joined {
        consumer: u64,
        topic: Name,
        group: Name,
        #[serde(default)]
        poll: bool,
        #[serde(default)]
        credit: u32,
        #[serde(default)]
        worker: Option<Name>,
    },
    /// A worker is about to end. Its consumers are disconnected, and it gets nothing more before
    /// `until`, unless the shard is claimed again.
    WorkerLeft { worker: Name, until: u64 },
    /// A dead letter was deleted.
    Dropped { id: Name },
    /// A repair gave up a damaged message.
    Lost { topic: Name, partition: u32, offset: u64 },
    /// A pointer of a topic was set.
    Pointed { topic: Name, name: Name, location: Name },
    /// A group was deleted.
    GroupGone { topic: Name, group: Name },
    /// A topic was deleted, with its groups.
    TopicGone { topic: Name },
    /// A cursor was moved: its older generation has ended.
    Moved { topic: Name, group: Name, partition: u32, generation: u64, offset: u64 },
    /// A lease was granted.
    Granted(Granted),
    /// The group skipped a message that is for another group.
    Passed { topic: Name, group: Name, generation: u64, partition: u32, offset: u64 },
    /// The lease now ends at `until`.
    Extended { lease: Lease, until: u64 },
    /// The lease ended.
    Ended { lease: Lease, how: How },
    /// The wait for a retry ended early: the message is due at `due`, because the last unknown
    /// outcome of its effects was resolved.
    WaitEnded { lease: Lease, due: u64 },
    /// The message was dead-lettered in the group. `attempt` 0: it was never delivered.
    Died { lease: Lease, reason: Name, id: Name },
    /// Dead letter `id` was redriven as message `new` for `group`.
    Redriven { id: Name, new: Name, group: Name },
    /// Messages below `first` are no longer kept, except open ones.
    Trimmed { topic: Name, partition: u32, first: u64 },
    /// The ledger record of an effect changed.
    Recorded(Box<Record>),
    /// These calls, to the ledger or to commit, were decided in this batch, based on records
    /// committed before or in it.
    Decided { calls: Vec<u64> },
    /// The act that this call is part of is recorded.
    Acted { call: u64 },
    /// The commit of this call is done with this batch. A repeat returns the same result until
    /// `until`, by the authority clock.
    Committed { call: u64, until: u64 },
    /// A message of a commit was added to the outbox for a topic of shard `to`, under this number.
    Sent { to: u32, number: u64, topic: Name, message: Content },
    /// Every message from shard `from` below `through` has been stored or rejected.
    Arrived { from: u32, through: u64 },
    /// The message from shard `from` with this number was rejected permanently.
    TurnedAway { from: u32, number: u64 },
    /// The message to shard `to` with this number was removed from the outbox.
    Left { to: u32, number: u64 },
    /// Dead letter `id` is a message that its target shard rejected.
    CameBack { id: Name },
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// The topic.
    pub topic: Name,
    /// Partition.
    pub partition: u32,
    /// Offset.
    pub offset: u64,
    /// Its id.
    pub id: Name,
    /// Its content.
    pub message: Content,
    /// Length of key, value, labels and headers.
    pub size: u64,
    /// The requested topic, if it is another one.
    pub asked: Option<Name>,
    /// Its idempotency key in the requested topic, and the end of its dedupe window (authority
    /// clock).
    pub idem: Option<(Name, u64)>,
    /// Only for this group.
    pub for_group: Option<Name>,
    /// The message is not delivered for the first time at or after this time.
    pub deadline: Option<u64>,
    /// The retry policy of the message.
    pub retry: Retry,
    /// The policy is that of the topic and changes with it.
    #[serde(default)]
    pub follows_topic: bool,
    /// A dead letter: a message of a `dlq.` topic.
    pub dead_letter: bool,
}

/// A retry policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Maximum number of deliveries; `None` = unlimited.
    pub max_attempts: Option<u32>,
    /// The first backoff.
    pub backoff_ms: u64,
    /// The longest backoff.
    pub max_backoff_ms: u64,
}

/// A granted lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Granted {
    /// The attempt of the message.
    pub lease: Lease,
    /// Counted deliveries, including this one.
    pub spent: u32,
    /// Its end, by the authority clock.
    pub until: u64,
    /// The consumer that holds it: one stream or poll, not the owner's name.
    pub consumer: u64,
    /// The maximum number of unsettled deliveries of that consumer.
    pub credit: u32,
    /// The maximum number of leases of the group in this partition.
    pub max_in_flight: u32,
}

/// How a lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variant says what its fields are")]
pub enum How {
    /// The worker acked it.
    Acked,
    /// The worker nacked it; not granted before `due`. `asked`: the worker gave the delay, not the
    /// policy.
    Nacked { due: u64, asked: bool },
    /// It expired; not granted before `due`.
    Expired { due: u64 },
    /// Given back, uncounted; not granted before `due`.
    Returned { due: u64 },
    /// The message was dead-lettered in this commit; a `Died` fact has the reason. `asked`: by a
    /// final nack.
    Dead { asked: bool },
    /// Its dead letter was deleted while a group had it open.
    Purged,
}

/// The counters of one partition of a group, as reported by a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Topic.
    pub topic: Name,
    /// Group.
    pub group: Name,
    /// Partition.
    pub partition: u32,
    /// Generation of the cursor.
    pub generation: u64,
    /// The first offset that was never delivered.
    pub next: u64,
    /// The first offset that is not stored yet.
    pub high: u64,
    /// Number of leased messages.
    pub leased: u64,
    /// Number of messages that wait for a retry.
    pub waiting: u64,
    /// Number of messages that are not settled.
    pub backlog: u64,
    /// Why no new message is delivered, if the node reports it.
    #[serde(default)]
    pub blocked: Option<Name>,
}

/// A dead letter as read at the end of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Its own id.
    pub id: Name,
    /// The topic it comes from.
    pub topic: Name,
    /// The group in which it failed.
    pub group: Name,
    /// The partition it had there.
    pub partition: u32,
    /// The offset it had there.
    pub offset: u64,
    /// The id it had there.
    pub origin: Name,
    /// The reason.
    pub reason: Name,
    /// Counted deliveries.
    pub attempts: u32,
    /// The last error.
    pub last_error: Name,
    /// Its content.
    pub message: Content,
    /// Its idempotency key.
    pub idem: Option<Name>,
    /// The message it was redriven as.
    pub redriven: Option<Name>,
}

/// The name of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Effect {
    /// The tenant; `default` when none was given.
    pub tenant: Name,
    /// The scope in which the key is unique. Under a delivery, it names the topic's life and the
    /// group.
    pub scope: Name,
    /// The key within tenant and scope.
    pub key: Name,
}

/// A right to execute an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Right {
    /// The effect.
    pub effect: Effect,
    /// The life of its name: a key that is reused after its retention is another effect. Grows. A
    /// harness that cannot observe it uses 0 and reuses no key.
    pub life: u64,
    /// Grows with each right granted in that life.
    pub fence: u64,
}

/// A begin, or with `again` a reacquire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// The effect.
    pub effect: Effect,
    /// The delivery it is begun under.
    pub lease: Option<Lease>,
    /// The request. `None` is compared like a value, except with `again`, where it is not compared.
    pub request: Option<Name>,
    /// The nonce that identifies the caller.
    pub nonce: Option<Name>,
    /// Never creates an effect.
    pub again: bool,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It happened.
    Succeeded,
    /// It did not happen and will not be retried.
    FailedFinal,
    /// It did not happen and may be retried.
    FailedRetryable,
    /// The caller does not know.
    Unknown,
}

impl Status {
    /// Whether the outcome is replayed and the effect is never executed again.
    pub fn is_final(self) -> bool {
        matches!(self, Status::Succeeded | Status::FailedFinal)
    }
}

/// The decision that a begin returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Execute the effect.
    Execute,
    /// Determine whether it happened.
    Probe,
    /// Use the recorded outcome.
    Replay(Status),
    /// It failed; reacquire it to retry.
    Retryable,
}

/// The policy for an effect in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDoubt {
    /// Execute it again.
    Retry,
    /// Grant it to a caller that determines whether it happened.
    Probe,
    /// Wait until an operator resolves it.
    Park,
}

/// The stored progress of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// The right is granted; it may have ended unnoticed.
    InProgress,
    /// The outcome is unknown.
    InDoubt,
    /// The outcome is known.
    Known(Status),
}

/// The stored record of an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The latest right.
    pub right: Right,
    /// Its progress.
    pub progress: Progress,
    /// The request of the first begin.
    pub request: Option<Name>,
    /// The nonce of the holder of the latest right.
    pub nonce: Option<Name>,
    /// The policy of the first begin.
    pub on_doubt: OnDoubt,
    /// It is not retried at or after this time (authority clock), because the provider no longer
    /// knows its key.
    pub window_until: Option<u64>,
    /// The delivery it was last begun under. Its lease is the lease of the right.
    pub under: Option<Lease>,
    /// Without a delivery: the end of the right, by the authority clock, or a later time.
    pub until: u64,
    /// The outcome, as text.
    pub outcome: Name,
    /// How long an outcome is kept.
    pub ttl_ms: u64,
    /// When the record expires, by the authority clock; `None` = not yet known.
    pub kept_until: Option<u64>,
    /// The outcome was set by an operator.
    pub resolved: bool,
}
