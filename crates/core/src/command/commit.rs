//! One atomic commit: settle a delivery, finish its effects, produce the next steps.

use crate::command::{Finish, Produce, SetPointer};
use crate::effect::EffectResult;
use crate::id::Text;
use crate::message::Receipt;
use crate::token::LeaseToken;
use serde::{Deserialize, Serialize};

/// Settle, finish and produce, all or nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Commit {
    /// The delivery.
    pub token: LeaseToken,
    /// How the delivery ends.
    pub ending: Ending,
    /// The outcomes of effects begun under it.
    pub effects: Vec<Finish>,
    /// The messages to produce.
    pub produce: Vec<Produce>,
    /// The pointers to set.
    pub pointers: Vec<SetPointer>,
    /// Shorthand for finishing the effect of the message's own key as succeeded.
    pub result: Option<EffectResult>,
}

/// How a delivery ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The message is acknowledged.
    Ack,
    /// The attempt failed and the message is retried.
    Nack {
        /// The reason.
        reason: Option<Text>,
        /// The wait before the next attempt. Defaults to the backoff of the retry policy.
        delay_ms: Option<u64>,
    },
    /// The message failed permanently, for this reason, and is dead-lettered.
    Final(Option<Text>),
}

/// A message of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitReceipt {
    /// The requested topic.
    pub topic: Text,
    /// Where it is stored. `None` while it is in transit to another shard.
    pub receipt: Option<Receipt>,
}

/// A list in a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Its messages.
    Produce,
    /// Its effects.
    Effects,
    /// Its pointers.
    Pointers,
}

impl Part {
    /// Returns its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Produce => "produce",
            Part::Effects => "effects",
            Part::Pointers => "pointers",
        }
    }
}
