//! Effects: side effects under the ledger, as they are stored and as they are shown.
//!
//! 1. An effect is named by (namespace, tenant, scope, key). Under a delivery the topic is part of its
//!    name by its life and the group by its name: a topic made again starts clean, a group made again
//!    must not charge again.
//! 2. What is stored never says more than is known: that a lease has run out, and what the policy makes
//!    of doubt, follows from the row and the time ([`crate::command::EffectView`] says it).

use serde::{Deserialize, Serialize};

use crate::id::{Generation, Lane, LeaseId, MessageId, Text, TopicId};
use crate::name::{GroupName, TopicName};
use crate::settings::OnDoubt;
use crate::time::Timestamp;

/// Where a key is unique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// `op/<name>`: free.
    Op(Text),
    /// `effect/<topic>/<group>`: effects under deliveries.
    Delivery(GroupName),
    /// `produce/<topic>`: taken idempotency keys, to look at.
    Produce(TopicName),
}

/// The name of an effect, in clear.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EffectName {
    /// Isolation boundary.
    pub namespace: Text,
    /// Our user's customer.
    pub tenant: Text,
    /// Of effects under deliveries: the life of the topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<TopicId>,
    /// As [`Scope::parse`] takes it.
    pub scope: Text,
    /// The name within all that.
    pub key: Text,
}

/// What is stored about how far an effect is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EffectState {
    /// Held by the latest fence.
    InProgress,
    /// Nobody knows.
    InDoubt,
    /// Nobody knows, and a person has to say.
    Parked,
    /// Done.
    Succeeded,
    /// Not done, for good.
    FailedFinal,
    /// Not done, and may be tried again.
    FailedRetryable,
}

impl EffectState {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            EffectState::InProgress => "IN_PROGRESS",
            EffectState::InDoubt => "IN_DOUBT",
            EffectState::Parked => "PARKED",
            EffectState::Succeeded => "SUCCEEDED",
            EffectState::FailedFinal => "FAILED_FINAL",
            EffectState::FailedRetryable => "FAILED_RETRYABLE",
        }
    }

    /// Whether an outcome is known.
    pub fn is_known(self) -> bool {
        match self {
            EffectState::InProgress | EffectState::InDoubt | EffectState::Parked => false,
            EffectState::Succeeded | EffectState::FailedFinal | EffectState::FailedRetryable => {
                true
            }
        }
    }

    /// Whether the outcome is replayed.
    pub fn is_over(self) -> bool {
        matches!(self, EffectState::Succeeded | EffectState::FailedFinal)
    }
}

/// Why nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoubtCause {
    /// Its holder did not come back in time.
    LeaseExpired,
    /// Its holder said so.
    Reported,
    /// Its delivery was given up before it was finished.
    Abandoned,
}

impl DoubtCause {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            DoubtCause::LeaseExpired => "lease_expired",
            DoubtCause::Reported => "reported",
            DoubtCause::Abandoned => "abandoned",
        }
    }
}

/// Whose outcome is not known. Kept while the next holder is at work, and with the outcome of that one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct Doubt {
    pub fence: u64,
    pub owner: Text,
    pub began_at: Timestamp,
    pub since: Timestamp,
    pub cause: DoubtCause,
}

/// What a result is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectResult {
    /// JSON, as it was written.
    Json(Text),
    /// Bytes, as base64.
    Base64(Text),
}

impl EffectResult {
    /// Bytes that count against the limit.
    pub(crate) fn size(&self) -> usize {
        match self {
            EffectResult::Json(text) => text.len(),
            EffectResult::Base64(text) => text.trim_end_matches('=').len() * 3 / 4,
        }
    }
}

/// How an effect ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The caller's number.
    pub code: i32,
    /// What is replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<EffectResult>,
    /// What went wrong.
    pub error: Text,
}

impl Outcome {
    /// Bytes of what is replayed.
    pub(crate) fn size(&self) -> usize {
        self.result.as_ref().map_or(0, EffectResult::size)
    }
}

/// What a person says of a doubtful effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResolvedAs {
    /// It happened.
    Succeeded,
    /// It did not happen, and is not to.
    Failed,
    /// It did not happen, and may be tried again.
    Retry,
}

/// Who said so, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct Resolution {
    #[serde(rename = "as")]
    pub resolved_as: ResolvedAs,
    pub by: Text,
    pub reason: Text,
    pub at: Timestamp,
}

/// The delivery an effect was last begun under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryRef {
    /// The lease, by numbers.
    pub hold: LeaseId,
    /// The message.
    pub message: MessageId,
}

impl DeliveryRef {
    /// Whether both are deliveries of one message to one life of a cursor.
    pub(crate) fn is_of_same_entry(&self, hold: &LeaseId) -> bool {
        let LeaseId { group, lane, generation, offset, attempt: _ } = self.hold;
        (group, lane, generation, offset) == (hold.group, hold.lane, hold.generation, hold.offset)
    }
}

/// An effect as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRow {
    /// Its name.
    pub name: EffectName,
    /// What is stored; [`EffectState::Parked`] never is.
    pub state: EffectState,
    /// Grows with each right to execute it.
    pub fence: u64,
    /// When this life of the name began: a key used again after its time is another effect.
    pub born: Timestamp,
    /// When the latest fence was granted.
    pub began_at: Timestamp,
    /// The last change.
    pub updated_at: Timestamp,
    /// When the row is over; never while no outcome is known or its message is open.
    #[serde(skip)]
    pub expires: Timestamp,
    /// How long an outcome is kept.
    pub ttl_ms: u64,
    /// Fingerprint of what was asked for; `None` is a value too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Text>,
    /// What the holder said to be known by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Text>,
    /// What becomes of doubt.
    pub on_doubt: OnDoubt,
    /// The lease as granted; 0 under a delivery.
    pub lease_ms: u64,
    /// The end of the holder's lease; of no use under a delivery.
    pub until: Timestamp,
    /// The delivery it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under: Option<DeliveryRef>,
    /// Open messages it was begun under: its time does not begin before they are over.
    #[serde(default, skip_serializing_if = "is_none")]
    pub holders: u32,
    /// The same by cursor, so that a cursor that ends takes its share along. Rows of releases up to 0.1 lack it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<HeldBy>,
    /// Who holds it, or held it last.
    pub owner: Text,
    /// How long the provider remembers the downstream key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// When the downstream key was first given out.
    pub key_since: Timestamp,
    /// How often the downstream key was renewed.
    pub renewed: u32,
    /// The next execution gets another downstream key.
    pub renew: bool,
    /// How it ended; empty until it has.
    pub outcome: Outcome,
    /// Whose outcome is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// Who ended the doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
}

/// How many open messages of one cursor an effect was begun under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct HeldBy {
    pub generation: Generation,
    pub lane: Lane,
    pub count: u32,
}

fn is_none(holders: &u32) -> bool {
    *holders == 0
}

impl EffectRow {
    /// Until when the provider remembers the downstream key.
    pub fn downstream_until(&self) -> Option<Timestamp> {
        self.window_ms.map(|window_ms| self.key_since.after(window_ms))
    }
}
