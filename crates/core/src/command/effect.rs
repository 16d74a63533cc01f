//! The effect ledger: who may execute a side effect, how it ended, and what becomes of doubt.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::effect::{EffectRow, EffectState, Outcome, ResolvedAs, Scope};
use crate::id::{ShardId, Text};
use crate::message::{Receipt, in_force};
use crate::row::Place;
use crate::settings::OnDoubt;
use crate::time::Timestamp;
use crate::token::{EffectToken, LeaseToken};

/// Ask for the right to execute an effect.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Begin {
    /// Which effect.
    pub of: BeginOf,
    /// What is asked for: the same name with another request is refused.
    pub request: Option<Request>,
    /// What becomes of doubt. Stored by the first.
    pub on_doubt: Option<OnDoubt>,
    /// How long an outcome is kept, if not as the topic says.
    pub ttl_ms: Option<u64>,
    /// How long the provider remembers the downstream key.
    pub window_ms: Option<u64>,
    /// Who asks.
    pub owner: Option<Text>,
    /// What the caller is known by, should it ask again because the answer was lost.
    pub nonce: Option<Text>,
}

/// Which effect is begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum BeginOf {
    /// One under a delivery: the lease is the delivery's, the key its message's unless named.
    Delivery { token: LeaseToken, key: Option<Text> },
    /// One by itself. `again`: only what failed or is in doubt, never a new one.
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
    /// The tenant in force.
    pub fn tenant(&self) -> &str {
        in_force(&self.tenant)
    }
}

/// What an effect is asked to do, to be told from another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// Hashed here.
    Content(Bytes),
    /// The caller's own hash.
    Hash(Text),
}

/// How an execution ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finish {
    /// The right to say so.
    pub token: EffectToken,
    /// How.
    pub status: FinishStatus,
    /// With what.
    pub outcome: Outcome,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum FinishStatus {
    /// It happened.
    Succeeded,
    /// It did not happen, and is not to.
    FailedFinal,
    /// It did not happen, and may be tried again. `renew`: under another downstream key.
    FailedRetryable { renew: bool },
    /// The caller does not know.
    Unknown,
}

/// A person says how a doubtful effect ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resolve {
    /// Which.
    pub name: EffectQuery,
    /// The fence whose outcome is not known.
    pub fence: u64,
    /// How it ended.
    pub resolve_as: ResolvedAs,
    /// With what.
    pub outcome: Outcome,
    /// Who says so.
    pub by: Text,
    /// Why.
    pub reason: Text,
}

/// Look for effects whose outcome is not known. One slice: whoever wants more goes on at
/// [`Effects::next`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListEffects {
    /// On which shard.
    pub shard: ShardId,
    /// Isolation boundary.
    pub namespace: Text,
    /// In which state.
    pub state: EffectState,
    /// Only of this scope.
    pub scope: Option<Scope>,
    /// Only of this tenant.
    pub tenant: Option<Text>,
    /// The first place to look at.
    pub from: Place,
    /// How many to show at most; at least one.
    pub limit: u32,
}

/// What [`Begin`] comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Began {
    /// What the caller is to do.
    pub decision: BeginDecision,
    /// The effect.
    pub effect: EffectView,
    /// The right to finish, if it was given.
    pub token: Option<EffectToken>,
}

/// What the caller of [`Begin`] is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BeginDecision {
    /// Execute it, then finish.
    Execute,
    /// Nobody knows whether it happened: ask the provider, then finish, or execute it and finish.
    Probe,
    /// It is over: take the outcome.
    Replay,
    /// It failed and may be taken again.
    Retryable,
}

/// An effect as it is at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectView {
    /// What is stored.
    #[serde(with = "row_and_end")]
    pub row: EffectRow,
    /// What that means now.
    pub state: EffectState,
    /// End of the holder's lease.
    pub held_until: Option<Timestamp>,
    /// What the provider is to deduplicate by.
    pub downstream_key: Text,
}

/// A row's end is no part of its body: it is stored beside it, and so it travels.
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

/// One slice of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effects {
    /// In the order of their hashes: none that people know.
    pub effects: Vec<EffectView>,
    /// How many were looked at.
    pub scanned: u64,
    /// Where to go on; `None`: that was the end.
    pub next: Option<Place>,
}

/// A taken idempotency key of a topic, as an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Produced {
    /// Where the message is.
    pub receipt: Receipt,
    /// Until when the key is taken.
    pub expires: Timestamp,
}
