//! The history of a run: what clients asked for and were told, what consumers saw, and, where the
//! harness can see it, what the node committed.
//!
//! One event a line as JSON. The simulator hands events over in memory, real processes write files
//! that a harness merges by `seq`. Everything the checker knows, it knows from here.
//!
//! 1. `seq` orders events as the harness observed them: a reply has a greater `seq` than its
//!    invocation, and an event that could have caused another has a smaller one.
//! 2. A call is invoked once and ends at most once: `Done`, `Refused` (definite: nothing happened) or
//!    `Unknown` (it may or may not have happened). A call without an end is `Unknown`.
//! 3. `body` is unique to one logical message: producers repeat it only when they repeat a call.
//! 4. `Committed` events come in commit order of their shard, those that happened and only those,
//!    whether or not the node that sent them ever learned it. A history without any is legal: then
//!    only what clients saw is judged.
//! 5. `topic` names one life of a topic: a harness that creates a topic again gives it another name.

mod operator;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use operator::{Pointer, Settings, Shown, ShownState, Start};

/// A topic, group, consumer or key.
pub type Name = Arc<str>;

/// One observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The harness's order of observations.
    pub seq: u64,
    /// When it was observed, in milliseconds of the harness's clock. Never compared with times of
    /// the authority clock, which are named `now`, `until`, `due` and `deadline`.
    pub at: u64,
    /// Who observed it.
    pub process: u32,
    /// What was observed.
    pub what: What,
}

/// What was observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variant says what its fields are")]
pub enum What {
    /// A client sent a request.
    Invoked { call: u64, op: Op },
    /// It was answered: it happened.
    Done { call: u64, reply: Reply },
    /// It was refused: nothing happened. `code` is the error, `state` its further word, if any
    /// (`STALE_LEASE`, `generation`).
    Refused { call: u64, code: Name, state: Option<Name> },
    /// Nobody knows: a time-out, a lost connection, an answer that says so.
    Unknown { call: u64 },
    /// A consumer read a delivery.
    Delivered(Delivery),
    /// The engine made a batch durable. `now` is the authority clock of the batch.
    Committed { shard: u32, epoch: u64, batch: u64, now: u64, facts: Vec<Fact> },
    /// A node claimed a shard: `epoch` is the number of the claim.
    Claimed { node: u64, shard: u32, epoch: u64 },
    /// The database was told that a node lives. The others may take it for gone `lease_ms` later.
    Renewed { node: u64, lease_ms: u64 },
    /// The process of a node is stopped until then, by the harness's clock.
    Stopped { node: u64, until: u64 },
    /// A node decided a batch, whatever became of it.
    Decided { node: u64, shard: u32, epoch: u64, batch: u64 },
    /// A node found rows missing, or other than they were written.
    Damaged { shard: u32, why: Name },
    /// The harness damaged the stored messages of a partition from `from` up to `to`. A repair may lose these.
    Corrupted { shard: u32, topic: Name, partition: u32, from: u64, to: u64 },
    /// How many messages of a shard may be leased or waiting at a time. No group takes more than half of what
    /// the others leave.
    Limits { open_max: u64 },
    /// A delivery was written to the connection of its consumer.
    Written { lease: Lease },
    /// The connection of a consumer ended.
    Left { consumer: u64 },
    /// The storage was replaced by a backup that was taken at `to`, a `seq`. Nothing of what was committed
    /// in between exists any more, and nothing issued in between is valid.
    Restored { to: u64 },
    /// Rows that belong to no topic and no generation that exists, and that no garbage row lists. Counted
    /// at the end of the run.
    Leaked { shard: u32, rows: u64, example: Name },
    /// A node showed the counters of a group, as of `batch` where the harness knows it.
    Counted { batch: Option<u64>, counters: Counters },
    /// The authority clock may be followed from here on, and shows `now`. A forward jump that is to be held back is
    /// left out until it is confirmed. The one event whose `at` is compared with times of the authority clock.
    Clock { now: u64 },
    /// A fault was injected (`fault` such as `crash`, `point` such as `committing`).
    Fault { fault: Name, point: Name },
    /// No more faults. From here on everything must drain.
    Healed,
    /// A dead letter that is there at the end of the run.
    DeadLetter(DeadLetter),
    /// The run is over and drained. Without this event the promises about the end are not judged.
    Ended,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variant says what its fields are")]
pub enum Op {
    /// Store a message.
    Produce(Produce),
    /// Settle, give back or renew a delivery.
    Settle { lease: Lease, verb: Verb, by_owner: bool },
    /// Make a group that starts at the first (`false`) or behind the last message (`true`).
    CreateGroup { topic: Name, group: Name, latest: bool },
    /// Create a group that starts at the first message stored at or after this time (authority clock).
    CreateGroupAt { topic: Name, group: Name, since: u64 },
    /// Remove a group.
    DeleteGroup { topic: Name, group: Name },
    /// Remove a topic with its groups.
    DeleteTopic { topic: Name },
    /// Stop or go.
    Pause { topic: Name, group: Name, paused: bool },
    /// Move the cursor of one partition.
    Seek { topic: Name, group: Name, partition: u32, offset: u64 },
    /// Move the cursors of all partitions.
    SeekAll { topic: Name, group: Name, to: Start },
    /// Change the settings of a topic.
    Patch { topic: Name },
    /// Delete dead letters, or (`dry_run`) only count them.
    Purge { topic: Name, ids: Vec<Name>, dry_run: bool },
    /// Ask where messages of a partition are in each group.
    Inspect { topic: Name, partition: u32 },
    /// Ask where a pointer of a topic leads.
    ReadPointer { topic: Name, name: Name },
    /// Present a lease that was issued before the storage was restored.
    Outdated,
    /// Commit under such a lease. If the backup has the commit, it is answered as it was.
    OutdatedCommit(Box<Commit>),
    /// Bring a dead letter back. `id` is the dead letter's.
    Redrive { topic: Name, id: Name },
    /// Ask for the right to execute an effect.
    Begin(Box<Begin>),
    /// Say how an execution ended.
    Finish { right: Box<Right>, status: Status, outcome: Name },
    /// More time for an execution.
    ExtendEffect { right: Box<Right> },
    /// A person says how a doubtful execution ended.
    Resolve { effect: Box<Effect>, fence: u64, status: Status, outcome: Name },
    /// Settle a delivery, say how its effects ended and produce what follows, all or nothing.
    Commit(Box<Commit>),
    /// Anything that only looks.
    Look,
}

/// The end of a delivery with everything that comes with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// Which delivery.
    pub lease: Lease,
    /// How it ends: done, failed or failed for good.
    pub verb: Verb,
    /// How effects begun under it ended.
    pub finishes: Vec<Finish>,
    /// What follows. Each body belongs to one attempt: only a repeat says it again.
    pub produce: Vec<Produce>,
    /// Pointers to be set.
    #[serde(default)]
    pub pointers: Vec<Pointer>,
}

/// How an execution ended, as its holder says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct Finish {
    pub right: Right,
    pub status: Status,
    pub outcome: Name,
}

/// A message to be stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Produce {
    /// Where to.
    pub topic: Name,
    /// Its content.
    pub message: Content,
    /// The idempotency key.
    pub idem: Option<Name>,
    /// The topic that the message names as its own, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Name>,
    /// Length of key and value.
    pub size: u64,
}

/// What must arrive as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Fingerprint of the value; unique to one logical message.
    pub body: u64,
    /// The message key.
    pub key: Name,
    /// The tenant; `default` when none was given.
    pub tenant: Name,
}

/// How a delivery is settled or renewed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variant says what its fields are")]
pub enum Verb {
    /// It is done.
    Ack,
    /// It failed; try again, after `delay_ms` if given.
    Nack { delay_ms: Option<u64> },
    /// It failed for good.
    Final,
    /// Nothing failed, somebody else should take it, after `delay_ms`.
    Release { delay_ms: u64 },
    /// More time.
    Extend { lease_ms: u64 },
}

/// What a client is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variant says what its fields are")]
pub enum Reply {
    /// The message is stored there, now or (`deduplicated`) before; in `topic`, if that is not the one that
    /// was asked for.
    Produced { id: Name, topic: Option<Name>, partition: u32, offset: u64, deduplicated: bool },
    /// Settled or renewed.
    Settled,
    /// So many dead letters were deleted, or would be.
    Purged { count: u64 },
    /// Where messages are in their groups.
    Inspected(Vec<Shown>),
    /// Where a pointer leads.
    Pointer { location: Name },
    /// The settings of a topic, as text.
    Topic { settings: Name },
    /// The dead letter is on its way again, now or (`already`) before, as message `new`.
    Redriven { new: Name, already: bool },
    /// What the caller is to do with the effect that is shown. `outcome` is that of a decision that has
    /// one.
    Began { decision: Decision, right: Box<Right>, outcome: Name },
    /// Everything of a commit is done, now or (`repeated`) before. For each of its messages the id, or that
    /// it is on its way to another shard.
    Committed { produced: Vec<Option<Name>>, repeated: bool },
    /// Anything else.
    Ok,
}

/// Names one attempt of one message in one group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The topic's life.
    pub topic: Name,
    /// The group.
    pub group: Name,
    /// The generation of its cursor: grows when the group is created again or moved.
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
    /// Which attempt of which message.
    pub lease: Lease,
    /// The message's id.
    pub id: Name,
    /// Deliveries that count against the limit, this one included.
    pub spent: u32,
    /// What came.
    pub message: Content,
}

/// Something that became true with a commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variant says what its fields are")]
pub enum Fact {
    /// A message is stored.
    Stored(Stored),
    /// A produce found its key taken: `id` is the message that has it. `topic` is the one asked for.
    Deduplicated { topic: Name, tenant: Name, idem: Name, id: Name },
    /// A message for `topic` goes to a topic on another shard, and nowhere else under this key, until then.
    Pinned { topic: Name, tenant: Name, idem: Name, until: u64 },
    /// A group exists; one entry per partition: (generation, first offset it reads).
    GroupMade { topic: Name, group: Name, cursors: Vec<(u64, u64)> },
    /// A topic has these settings from now on.
    Set(Box<Settings>),
    /// A group is given no new leases, until then if that is known.
    Paused { topic: Name, group: Name, until: Option<u64> },
    /// A group is given leases again.
    Resumed { topic: Name, group: Name },
    /// A consumer takes part in a group.
    Joined { consumer: u64, topic: Name, group: Name },
    /// A dead letter was deleted.
    Dropped { id: Name },
    /// A message is lost: a repair found it damaged.
    Lost { topic: Name, partition: u32, offset: u64 },
    /// A pointer of a topic was set.
    Pointed { topic: Name, name: Name, location: Name },
    /// A group is gone.
    GroupGone { topic: Name, group: Name },
    /// A topic is gone, with its groups.
    TopicGone { topic: Name },
    /// A cursor was moved: everything of its older generation is over.
    Moved { topic: Name, group: Name, partition: u32, generation: u64, offset: u64 },
    /// A lease was given.
    Granted(Granted),
    /// The group passes a message by that is meant for another group.
    Passed { topic: Name, group: Name, generation: u64, partition: u32, offset: u64 },
    /// The lease now ends at `until`.
    Extended { lease: Lease, until: u64 },
    /// The lease is over.
    Ended { lease: Lease, how: How },
    /// The message is dead in that group. `attempt` 0: it was never delivered.
    Died { lease: Lease, reason: Name, id: Name },
    /// Dead letter `id` was sent again as message `new` for `group`.
    Redriven { id: Name, new: Name, group: Name },
    /// Messages below `first` are no longer kept, but for those that are open.
    Trimmed { topic: Name, partition: u32, first: u64 },
    /// The ledger says this of an effect from now on.
    Recorded(Box<Record>),
    /// These calls, to the ledger or to commit, were decided in this batch, on what was recorded before or
    /// in it.
    Decided { calls: Vec<u64> },
    /// The commit of this call is done with this batch. A repeat is told so until then, by the authority
    /// clock.
    Committed { call: u64, until: u64 },
    /// A message of a commit is on its way to a topic of shard `to`, as the `number`-th that goes there.
    Sent { to: u32, number: u64, topic: Name, message: Content },
    /// Of what shard `from` sends everything below this number has arrived, or was turned away.
    Arrived { from: u32, through: u64 },
    /// What shard `from` sent under this number is turned away for good.
    TurnedAway { from: u32, number: u64 },
    /// What was sent to shard `to` under this number is no longer kept to be sent again.
    Left { to: u32, number: u64 },
    /// Dead letter `id` is a message that was turned away.
    CameBack { id: Name },
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Where.
    pub topic: Name,
    /// Partition.
    pub partition: u32,
    /// Offset.
    pub offset: u64,
    /// Its id.
    pub id: Name,
    /// What.
    pub message: Content,
    /// Length of key and value.
    pub size: u64,
    /// The topic that was asked for, if it is another.
    pub asked: Option<Name>,
    /// Its idempotency key in the topic that was asked for, and until when (authority clock) it is taken.
    pub idem: Option<(Name, u64)>,
    /// Only for this group.
    pub for_group: Option<Name>,
    /// Not to be delivered afresh at or after this time.
    pub deadline: Option<u64>,
    /// The retry policy in force for it.
    pub retry: Retry,
    /// The policy is that of its topic, and changes with it.
    #[serde(default)]
    pub follows_topic: bool,
    /// A dead letter: a message of a `dlq.` topic.
    pub dead_letter: bool,
}

/// A retry policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Deliveries in all; `None` = for ever.
    pub max_attempts: Option<u32>,
    /// First wait.
    pub backoff_ms: u64,
    /// Longest wait.
    pub max_backoff_ms: u64,
}

/// A lease that was given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Granted {
    /// Which attempt of which message.
    pub lease: Lease,
    /// Deliveries that count, this one included.
    pub spent: u32,
    /// Its end, by the authority clock.
    pub until: u64,
    /// The consumer that has it: one stream or poll, not the owner's name.
    pub consumer: u64,
    /// How many that consumer may hold.
    pub credit: u32,
    /// How many the group may have leased in this partition.
    pub max_in_flight: u32,
}

/// How a lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variant says what its fields are")]
pub enum How {
    /// Done.
    Acked,
    /// Failed; not before `due`. `asked`: the worker named the delay, else the policy did.
    Nacked { due: u64, asked: bool },
    /// Its time ran out; not before `due`.
    Expired { due: u64 },
    /// Given back, uncounted; not before `due`.
    Returned { due: u64 },
    /// Dead in this commit; a `Died` fact says why. `asked`: by a final nack.
    Dead { asked: bool },
    /// A dead letter that was deleted while a group had it.
    Purged,
}

/// What a node says of one partition of a group.
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
    /// First offset never delivered.
    pub next: u64,
    /// First offset not yet stored.
    pub high: u64,
    /// Leased.
    pub leased: u64,
    /// Waiting for a retry.
    pub waiting: u64,
    /// Not settled.
    pub backlog: u64,
    /// Why no fresh message is delivered, if the node says so.
    #[serde(default)]
    pub blocked: Option<Name>,
}

/// A dead letter as read at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Its own id.
    pub id: Name,
    /// The topic it comes from.
    pub topic: Name,
    /// The group in which it died.
    pub group: Name,
    /// Partition and offset it had there.
    pub partition: u32,
    /// Offset it had there.
    pub offset: u64,
    /// Id it had there.
    pub origin: Name,
    /// Why.
    pub reason: Name,
    /// Counted deliveries.
    pub attempts: u32,
    /// The last error.
    pub last_error: Name,
    /// Its content.
    pub message: Content,
    /// Its idempotency key.
    pub idem: Option<Name>,
    /// Sent again as this message.
    pub redriven: Option<Name>,
}

/// The name of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Effect {
    /// Whose; `default` when none was given.
    pub tenant: Name,
    /// Where the key is unique. Under a delivery it names the topic's life and the group.
    pub scope: Name,
    /// The name within all that.
    pub key: Name,
}

/// A right to execute an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Right {
    /// To which.
    pub effect: Effect,
    /// In which life of its name: a key that is used again after its time is another effect. Grows. A
    /// harness that cannot see it says 0 and uses no key again.
    pub life: u64,
    /// Grows with each right given in that life.
    pub fence: u64,
}

/// A begin, or with `again` a reacquire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// Which effect.
    pub effect: Effect,
    /// The delivery it is begun under.
    pub lease: Option<Lease>,
    /// What it is asked to do. None is a value too, but for `again`, where it is not compared.
    pub request: Option<Name>,
    /// What the caller is known by.
    pub nonce: Option<Name>,
    /// Only what is known, never a new effect.
    pub again: bool,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It happened.
    Succeeded,
    /// It did not happen, and is not to.
    FailedFinal,
    /// It did not happen, and may be tried again.
    FailedRetryable,
    /// The caller does not know.
    Unknown,
}

impl Status {
    /// It is replayed and never executed again.
    pub fn is_final(self) -> bool {
        matches!(self, Status::Succeeded | Status::FailedFinal)
    }
}

/// What the caller of a begin is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Execute it.
    Execute,
    /// Find out whether it happened.
    Probe,
    /// Take the outcome.
    Replay(Status),
    /// It failed; ask again to take it again.
    Retryable,
}

/// What becomes of doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDoubt {
    /// Executed again.
    Retry,
    /// Given to somebody who finds out.
    Probe,
    /// Left alone until a person has said.
    Park,
}

/// How far an effect is, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// The right is out, or was and nobody noticed its end.
    InProgress,
    /// Nobody knows.
    InDoubt,
    /// It ended so.
    Known(Status),
}

/// An effect, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The latest right.
    pub right: Right,
    /// How far it is.
    pub progress: Progress,
    /// What it was first asked to do.
    pub request: Option<Name>,
    /// What the holder of the latest right is known by.
    pub nonce: Option<Name>,
    /// What the first begin said.
    pub on_doubt: OnDoubt,
    /// From then on (authority clock) it is not retried: the provider has forgotten its key.
    pub window_until: Option<u64>,
    /// The delivery it was last begun under, whose lease is the right's.
    pub under: Option<Lease>,
    /// Without a delivery: the end of the right, by the authority clock, or later.
    pub until: u64,
    /// How it ended, in words.
    pub outcome: Name,
    /// How long an outcome is kept.
    pub ttl_ms: u64,
    /// When it is forgotten, by the authority clock; `None` = not yet.
    pub kept_until: Option<u64>,
    /// The outcome is a person's word.
    pub resolved: bool,
}
