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
    /// How it ends.
    pub ending: Ending,
    /// How effects begun under it ended.
    pub effects: Vec<Finish>,
    /// What follows.
    pub produce: Vec<Produce>,
    /// Where what it made is.
    pub pointers: Vec<SetPointer>,
    /// Short for an effect of the message's own key that succeeded.
    pub result: Option<EffectResult>,
}

/// How a delivery ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// Done.
    Ack,
    /// Not done, for that reason, to be tried again then or by policy.
    Nack {
        /// Why.
        reason: Option<Text>,
        /// When again.
        delay_ms: Option<u64>,
    },
    /// Not done, for good, for that reason.
    Final(Option<Text>),
}

/// A message of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitReceipt {
    /// The topic that was asked for.
    pub topic: Text,
    /// Where it is; on its way to another shard if absent.
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
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Produce => "produce",
            Part::Effects => "effects",
            Part::Pointers => "pointers",
        }
    }
}
