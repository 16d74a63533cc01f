//! What clients hold after a server was killed: what it had answered, and what they still wait for.
//!
//! The format is read for as long as the sets are kept, so its names are its own: a field that is renamed in the API keeps
//! its name here. New fields are optional.

use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::storage::{pack, unpack};

/// Everything about one storage.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answers {
    /// Version and commit of the server, as it named them.
    pub(crate) server: Value,
    pub(crate) shards: u32,
    /// The machine's time at the kill, in Unix milliseconds.
    pub(crate) killed_at_ms: u64,
    /// Checks that the binary which made the set has passed.
    pub(crate) checks: u64,
    pub(crate) topics: Vec<Topic>,
    pub(crate) groups: Vec<Group>,
    pub(crate) produced: Vec<Produced>,
    /// Sent and not answered before the kill.
    pub(crate) unanswered: Vec<Message>,
    pub(crate) leases: Vec<Lease>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) commits: Vec<Commit>,
    pub(crate) pointers: Vec<Value>,
    pub(crate) dead_letters: Vec<DeadLetter>,
    pub(crate) histories: Vec<History>,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) leaked: Vec<Leaked>,
}

impl Answers {
    /// Writes them into a set.
    pub(crate) async fn write(&self, set: &Path) -> anyhow::Result<()> {
        let file = set.join("answers.json");
        std::fs::write(&file, serde_json::to_vec(self)?)?;
        pack(&file).await
    }

    /// Those of a set.
    pub(crate) async fn read(set: &Path) -> anyhow::Result<Answers> {
        let answers = unpack(&set.join("answers.json.xz")).await?;
        serde_json::from_slice(&answers).with_context(|| format!("answers of {}", set.display()))
    }
}

/// A topic as it was read.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) partitions: u64,
    pub(crate) created_at: Value,
    pub(crate) settings: Map<String, Value>,
    pub(crate) changed_settings: Value,
}

/// A group as it was read.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) created_at: Value,
    pub(crate) paused: Value,
    /// By partition.
    pub(crate) generations: Vec<Value>,
}

/// A message as a producer sends it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) topic: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) key: String,
    pub(crate) value: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) envelope: Map<String, Value>,
}

/// A message and its receipt.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Produced {
    pub(crate) message: Message,
    pub(crate) receipt: Receipt,
}

/// Where a message was stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    /// The topic that got it.
    pub(crate) topic: String,
    pub(crate) partition: u64,
    pub(crate) offset: u64,
    pub(crate) id: String,
}

/// A delivery whose consumer still has its token.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub(crate) fate: Fate,
    pub(crate) token: String,
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) partition: u64,
    pub(crate) offset: u64,
    pub(crate) owner: String,
    pub(crate) attempt: u64,
    pub(crate) value: String,
    /// Of its begin, for `BeginAgain`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) nonce: String,
    /// What the begin was answered, if it was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) effect: String,
}

/// What is done with a delivery after the restart, or was done before the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fate {
    Ack,
    AckByOwner,
    Nack,
    Release,
    FinalNack,
    ExtendThenAck,
    Commit,
    /// It may have an effect in progress: its consumer begins again with the same nonce, and commits.
    BeginAgain,
    /// Its lease has ended by the clock, not by the rule that leases last some seconds beyond a recovery.
    ExtendInGrace,
    /// Acked at the first attempt, before the kill.
    WasAcked,
    /// Acked at a later attempt, before the kill.
    WasAckedLate,
    /// Nacked before the kill, and due in an hour.
    WasNacked,
    /// Delivered again before the kill.
    WasRedelivered,
    /// Rejected for good before the kill.
    WasFinal,
    /// Its group has moved since.
    WasSought,
}

/// An effect as it was read, and the right to finish it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Effect {
    pub(crate) then: Then,
    pub(crate) scope: String,
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) token: String,
    /// Of the begin.
    #[serde(default)]
    pub(crate) nonce: String,
    /// Of the delivery under which it was begun.
    #[serde(default)]
    pub(crate) lease: String,
    pub(crate) view: Map<String, Value>,
}

/// What is done with an effect after the restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Then {
    /// In progress: others are rejected, its holder finishes.
    Finish,
    /// In progress: its holder extends and finishes.
    Extend,
    /// In progress: its holder repeats the begin.
    RepeatBegin,
    /// In progress under a delivery, which cannot be acked before it is finished.
    FinishUnderDelivery,
    /// In progress under a delivery: a commit ends both.
    CommitUnderDelivery,
    /// In doubt: the next begin probes.
    Probe,
    /// In doubt: the next begin executes again.
    Retry,
    /// In doubt: its holder finishes late.
    FinishLate,
    /// Parked: a person resolves it.
    Resolve,
    /// Succeeded or failed for good.
    Replay,
    /// Failed, and may run again.
    Reacquire,
}

/// A commit and its answer, if one came.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Commit {
    pub(crate) token: String,
    pub(crate) effects: Vec<(String, Value)>,
    pub(crate) produce: Vec<Message>,
    pub(crate) pointers: Vec<Value>,
    /// What it answered about the messages that it produced.
    #[serde(default)]
    pub(crate) produced: Option<Value>,
}

/// A dead letter as it was read.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeadLetter {
    pub(crate) topic: String,
    pub(crate) then: DeadThen,
    pub(crate) view: Map<String, Value>,
}

/// What is done with a dead letter after the restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DeadThen {
    /// It is redriven.
    Redrive,
    /// It was redriven before the kill; a repeat names the same place.
    Already,
    Purge,
    Leave,
}

/// What `explain` read as the history of a message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct History {
    pub(crate) topic: String,
    pub(crate) partition: u64,
    pub(crate) offset: u64,
    pub(crate) events: Value,
}

/// A message that a group has not settled, as its clients know it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) value: String,
    /// Unknown for a message that a commit sent to another shard.
    #[serde(default)]
    pub(crate) receipt: Option<Receipt>,
}

/// A key whose outcome ended with its message before the kill, although nothing may have counted that end.
///
/// After the lifetimes of key and outcome, the key is that of a new message and its effect must be executed again.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Leaked {
    /// How the delivery ended: `ack` is the control, in which nothing leaks.
    pub(crate) ended_by: String,
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) key: String,
}
