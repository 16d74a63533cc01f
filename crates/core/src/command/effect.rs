//! Commands of the effect ledger: begin, finish, resolve and list effects.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::effect::{EffectRow, EffectState, Outcome, ResolvedAs, Scope};
use crate::id::{ShardId, Text};
use crate::message::{Receipt, in_force};
use crate::row::Place;
use crate::settings::OnDoubt;
use crate::time::Timestamp;
use crate::token::{EffectToken, LeaseToken};

/// Request the right to execute an effect.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Begin {
    /// The effect.
    pub of: BeginOf,
    /// What the effect does. A begin with the same name and another request is rejected.
    pub request: Option<Request>,
    /// The policy for an unknown outcome. The first begin stores it.
    pub on_doubt: Option<OnDoubt>,
    /// How long an outcome is kept. Defaults to the topic's setting.
    pub ttl_ms: Option<u64>,
    /// How long the provider remembers the downstream key.
    pub window_ms: Option<u64>,
    /// The caller's name for itself.
    pub owner: Option<Text>,
    /// Identifies the caller if it repeats the begin because the reply was lost.
    pub nonce: Option<Text>,
}

/// The effect that is begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum BeginOf {
    /// An effect of a delivery, under the delivery's lease. The key defaults to the message's key.
    Delivery { token: LeaseToken, key: Option<Text> },
    /// An effect without a delivery. `again`: only an effect that failed or is in doubt, never a
    /// new one.
    Scope { name: EffectQuery, lease_ms: Option<u64>, again: bool },
}

/// An effect by scope and key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct EffectQuery {
    pub namespace: Text,
    /// Empty is the default tenant.
    pub tenant: Text,
    pub scope: Scope,
    pub key: Text,
}

impl EffectQuery {
    /// Returns the tenant, `default` if none is named.
    pub fn tenant(&self) -> &str {
        in_force(&self.tenant)
    }
}

/// What an effect does, to distinguish it from a different request with the same name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// The content, which the shard hashes.
    Content(Bytes),
    /// The caller's own hash.
    Hash(Text),
}

/// Report how an execution ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finish {
    /// The token of the execution.
    pub token: EffectToken,
    /// How it ended.
    pub status: FinishStatus,
    /// The outcome.
    pub outcome: Outcome,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum FinishStatus {
    /// It happened.
    Succeeded,
    /// It did not happen, and must not be retried.
    FailedFinal,
    /// It did not happen, and may be retried. `renew`: under another downstream key.
    FailedRetryable { renew: bool },
    /// The caller does not know the outcome.
    Unknown,
}

/// Resolve an effect in doubt, on behalf of a person.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resolve {
    /// The effect.
    pub name: EffectQuery,
    /// The fence whose outcome is unknown.
    pub fence: u64,
    /// How it ended.
    pub resolve_as: ResolvedAs,
    /// The outcome.
    pub outcome: Outcome,
    /// The person who resolves it.
    pub by: Text,
    /// The reason.
    pub reason: Text,
}

/// List one slice of the effects whose outcome is unknown. The next slice starts at
/// [`Effects::next`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListEffects {
    /// The shard to read.
    pub shard: ShardId,
    /// Isolation boundary.
    pub namespace: Text,
    /// Only effects in this state.
    pub state: EffectState,
    /// Only effects of this scope.
    pub scope: Option<Scope>,
    /// Only effects of this tenant.
    pub tenant: Option<Text>,
    /// The first place to read.
    pub from: Place,
    /// The maximum number to return, at least 1.
    pub limit: u32,
}

/// The result of a [`Begin`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Began {
    /// What the caller should do.
    pub decision: BeginDecision,
    /// The effect.
    pub effect: EffectView,
    /// The right to finish the effect, if it was granted.
    pub token: Option<EffectToken>,
}

/// What the caller of [`Begin`] should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BeginDecision {
    /// Execute it, then finish.
    Execute,
    /// The outcome is unknown. Query the provider first, then finish it, or execute it and finish.
    Probe,
    /// It has ended. Use the recorded outcome.
    Replay,
    /// It failed and may be acquired again.
    Retryable,
}

/// An effect at a point in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectView {
    /// The stored row.
    #[serde(with = "row_and_end")]
    pub row: EffectRow,
    /// The state now.
    pub state: EffectState,
    /// End of the holder's lease.
    pub held_until: Option<Timestamp>,
    /// The key by which the provider should deduplicate.
    pub downstream_key: Text,
}

/// The expiry of a row is not part of its body: it is stored and sent next to it.
mod row_and_end {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{EffectRow, Timestamp};

    pub(super) fn serialize<S: Serializer>(row: &EffectRow, to: S) -> Result<S::Ok, S::Error> {
        (row, row.expires).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<EffectRow, D::Error> {
        let (row, expires): (EffectRow, Timestamp) = Deserialize::deserialize(from)?;
        Ok(EffectRow { expires, ..row })
    }
}

/// One slice of the effects of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effects {
    /// In the order of their hashes, which has no meaning to people.
    pub effects: Vec<EffectView>,
    /// How many were examined.
    pub scanned: u64,
    /// Where the next slice starts. `None` at the end.
    pub next: Option<Place>,
}

/// An idempotency key of a topic that is in use, shown as an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Produced {
    /// Where the message is.
    pub receipt: Receipt,
    /// When the key expires.
    pub expires: Timestamp,
}
