//! What clients hold after a server was killed: its answers, and their open requests.
//!
//! The format is read for as long as the sets are kept, so its names are its own: a field that is
//! renamed in the API keeps its name here. New fields are optional.

use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::storage::{pack, unpack};

/// The answers of one storage.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answers {
    /// Version and commit of the server, from its API.
    pub(crate) server: Value,
    pub(crate) shards: u32,
    /// The machine's time at the kill, in Unix milliseconds.
    pub(crate) killed_at_ms: u64,
    /// Number of checks that the binary which created the set has passed.
    pub(crate) checks: u64,
    pub(crate) topics: Vec<Topic>,
    pub(crate) groups: Vec<Group>,
    pub(crate) produced: Vec<Produced>,
    /// Messages sent before the kill without a response.
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
    /// Writes the answers into a set.
    pub(crate) async fn write(&self, set: &Path) -> anyhow::Result<()> {
        let file = set.join("answers.json");
        std::fs::write(&file, serde_json::to_vec(self)?)?;
        pack(&file).await
    }

    /// Reads the answers of a set.
    pub(crate) async fn read(set: &Path) -> anyhow::Result<Answers> {
        let answers = unpack(&set.join("answers.json.xz")).await?;
        serde_json::from_slice(&answers).with_context(|| format!("answers of {}", set.display()))
    }
}

/// A topic, as the API returned it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) partitions: u64,
    pub(crate) created_at: Value,
    pub(crate) settings: Map<String, Value>,
    pub(crate) changed_settings: Value,
}

/// A group, as the API returned it.
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
    /// The topic that stored it.
    pub(crate) topic: String,
    pub(crate) partition: u64,
    pub(crate) offset: u64,
    pub(crate) id: String,
}

/// A delivery whose consumer still holds its token.
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
    /// The nonce of its begin, for `BeginAgain`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) nonce: String,
    /// The effect token from its begin, if there was a response.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) effect: String,
}

/// What happens to a delivery after the restart, or happened before the kill.
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
    /// An effect may be in progress. Its consumer begins again with the same nonce, and commits.
    BeginAgain,
    /// Its lease has expired by the clock, but leases are honoured for some seconds after a
    /// recovery.
    ExtendInGrace,
    /// Acked at the first attempt, before the kill.
    WasAcked,
    /// Acked at a later attempt, before the kill.
    WasAckedLate,
    /// Nacked before the kill, and due in an hour.
    WasNacked,
    /// Redelivered before the kill.
    WasRedelivered,
    /// Dead-lettered by its consumer before the kill.
    WasFinal,
    /// Its group was moved by a seek.
    WasSought,
}

/// An effect, as the API returned it, and the token to finish it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Effect {
    pub(crate) then: Then,
    pub(crate) scope: String,
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) token: String,
    /// The nonce of the begin.
    #[serde(default)]
    pub(crate) nonce: String,
    /// The lease token of the delivery under which it was begun.
    #[serde(default)]
    pub(crate) lease: String,
    pub(crate) view: Map<String, Value>,
}

/// What happens to an effect after the restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Then {
    /// In progress: other workers are rejected, and its holder finishes it.
    Finish,
    /// In progress: its holder extends and finishes it.
    Extend,
    /// In progress: its holder repeats the begin.
    RepeatBegin,
    /// In progress under a delivery, which cannot be acked before the effect is finished.
    FinishUnderDelivery,
    /// In progress under a delivery. A commit ends both.
    CommitUnderDelivery,
    /// In doubt: the next begin probes.
    Probe,
    /// In doubt: the next begin executes again.
    Retry,
    /// In doubt: its holder finishes it late.
    FinishLate,
    /// Parked: an operator resolves it.
    Resolve,
    /// Succeeded or permanently failed.
    Replay,
    /// Failed, and may be executed again.
    Reacquire,
}

/// A commit and its response, if there was one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Commit {
    pub(crate) token: String,
    pub(crate) effects: Vec<(String, Value)>,
    pub(crate) produce: Vec<Message>,
    pub(crate) pointers: Vec<Value>,
    /// The `produced` field of the response.
    #[serde(default)]
    pub(crate) produced: Option<Value>,
}

/// A dead letter, as the API returned it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeadLetter {
    pub(crate) topic: String,
    pub(crate) then: DeadThen,
    pub(crate) view: Map<String, Value>,
}

/// What happens to a dead letter after the restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DeadThen {
    /// It is redriven.
    Redrive,
    /// It was redriven before the kill. A repeat returns the same position.
    Already,
    Purge,
    Leave,
}

/// The history of a message, from `explain`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct History {
    pub(crate) topic: String,
    pub(crate) partition: u64,
    pub(crate) offset: u64,
    pub(crate) events: Value,
}

/// A message that a group has not settled, as far as its clients know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) value: String,
    /// Unknown for messages that a commit sent to another shard.
    #[serde(default)]
    pub(crate) receipt: Option<Receipt>,
}

/// A key whose message ended before the kill. The server may not have counted that end, so the
/// outcome may never expire.
///
/// After the lifetimes of key and outcome, the key may be used for a new message, and its effect
/// must be executed again.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Leaked {
    /// How the delivery ended. `ack` is the control, which leaks nothing.
    pub(crate) ended_by: String,
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) key: String,
}
