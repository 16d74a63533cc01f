//! Effects: side effects recorded in the ledger, as stored and as shown.
//!
//! 1. An effect is named by (namespace, tenant, scope, key). The name of a delivery's effect also
//!    contains the topic's id and the group's name. A topic that is created again starts without
//!    effects. A group that is created again keeps them, because it must not charge again.
//! 2. A row stores only known facts. Whether a lease has expired, and what the policy does about
//!    doubt, follows from the row and the time: see [`crate::command::EffectView`].

use serde::{Deserialize, Serialize};

use crate::id::{Generation, Lane, LeaseId, MessageId, Text, TopicId};
use crate::name::{GroupName, TopicName};
use crate::settings::OnDoubt;
use crate::time::Timestamp;

/// Where a key is unique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// `op/<name>`: effects without a delivery.
    Op(Text),
    /// `effect/<topic>/<group>`: effects of deliveries.
    Delivery(GroupName),
    /// `produce/<topic>`: idempotency keys in use, read-only.
    Produce(TopicName),
}

/// The name of an effect, not hashed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EffectName {
    /// Isolation boundary.
    pub namespace: Text,
    /// Our user's customer.
    pub tenant: Text,
    /// The id of the topic, for effects of deliveries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<TopicId>,
    /// In the form that [`Scope::parse`] accepts.
    pub scope: Text,
    /// The effect's name in that scope.
    pub key: Text,
}

/// The state of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EffectState {
    /// The holder of the latest fence executes it.
    InProgress,
    /// The outcome is unknown.
    InDoubt,
    /// The outcome is unknown and must be resolved by a person.
    Parked,
    /// It happened.
    Succeeded,
    /// It did not happen, and must not be retried.
    FailedFinal,
    /// It did not happen, and may be retried.
    FailedRetryable,
}

impl EffectState {
    /// Returns its name in the API.
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

/// Why an outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoubtCause {
    /// The holder's lease expired.
    LeaseExpired,
    /// The holder reported that it does not know the outcome.
    Reported,
    /// Its delivery ended before the effect was finished.
    Abandoned,
}

impl DoubtCause {
    /// Returns its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            DoubtCause::LeaseExpired => "lease_expired",
            DoubtCause::Reported => "reported",
            DoubtCause::Abandoned => "abandoned",
        }
    }
}

/// An execution whose outcome is unknown. Kept while the next holder executes the effect, and
/// stored with that holder's outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct Doubt {
    pub fence: u64,
    pub owner: Text,
    pub began_at: Timestamp,
    pub since: Timestamp,
    pub cause: DoubtCause,
}

/// The result of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectResult {
    /// JSON text, unchanged.
    Json(Text),
    /// Bytes, as base64.
    Base64(Text),
}

impl EffectResult {
    /// Returns the bytes that count against the limit.
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
    /// A code that the caller chooses.
    pub code: i32,
    /// The result that is replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<EffectResult>,
    /// The error text.
    pub error: Text,
}

impl Outcome {
    /// Returns the bytes of the result.
    pub(crate) fn size(&self) -> usize {
        self.result.as_ref().map_or(0, EffectResult::size)
    }
}

/// How a person resolves an effect in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResolvedAs {
    /// It happened.
    Succeeded,
    /// It did not happen, and must not be retried.
    Failed,
    /// It did not happen, and may be retried.
    Retry,
}

impl ResolvedAs {
    /// Returns its name in the audit record of an act.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ResolvedAs::Succeeded => "succeeded",
            ResolvedAs::Failed => "failed",
            ResolvedAs::Retry => "retry",
        }
    }
}

/// The resolution of an effect by a person.
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
    /// The lease.
    pub hold: LeaseId,
    /// The message.
    pub message: MessageId,
}

impl DeliveryRef {
    /// Whether both are deliveries of the same message in the same generation of a cursor.
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
    /// The stored state, which is never [`EffectState::Parked`].
    pub state: EffectState,
    /// The latest fence. It grows with each right to execute the effect.
    pub fence: u64,
    /// When the effect was created. A key that is reused after it expired is another effect.
    pub born: Timestamp,
    /// When the latest fence was granted.
    pub began_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When the row expires. It never expires while the outcome is unknown or its message is open.
    #[serde(skip)]
    pub expires: Timestamp,
    /// How long an outcome is kept.
    pub ttl_ms: u64,
    /// Fingerprint of the request. `None` is compared like a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Text>,
    /// Identifies the holder when it repeats its begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Text>,
    /// The policy for an unknown outcome.
    pub on_doubt: OnDoubt,
    /// The lease as granted. 0 for an effect of a delivery.
    pub lease_ms: u64,
    /// The end of the holder's lease. Not used for an effect of a delivery.
    pub until: Timestamp,
    /// The delivery it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under: Option<DeliveryRef>,
    /// Open messages it was begun under. `ttl_ms` starts when all of them are settled.
    #[serde(default, skip_serializing_if = "is_none")]
    pub holders: u32,
    /// `holders` by cursor, so that the share of a deleted cursor can be subtracted. Rows of
    /// releases up to 0.1 lack it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<HeldBy>,
    /// The current or last holder.
    pub owner: Text,
    /// How long the provider remembers the downstream key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// When the downstream key was first issued.
    pub key_since: Timestamp,
    /// How often the downstream key was renewed.
    pub renewed: u32,
    /// Whether the next execution gets another downstream key.
    pub renew: bool,
    /// The outcome. Empty until the effect is finished.
    pub outcome: Outcome,
    /// The execution whose outcome is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// Set if a person resolved the effect.
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
    /// Returns the time until which the provider remembers the downstream key.
    pub fn downstream_until(&self) -> Option<Timestamp> {
        self.window_ms.map(|window_ms| self.key_since.after(window_ms))
    }
}
