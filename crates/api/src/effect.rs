//! The effect ledger.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::Time;
use crate::number::{EffectTtlMs, Integer, LeaseMs, ProviderWindowMs};
use crate::schema::{
    AnyJson, DownstreamKey, EffectKey, EffectToken, LeaseToken, Nonce, Owner, PageCursor,
    RequestHash, ScopeName, Tenant,
};
use crate::words::{
    BeginDecision, DoubtAction, DoubtCause, EffectState, EffectStatus, ExtendedStatus,
    FinishStatus, Keep, OnDoubt, ResolvedAs,
};

/// `POST /v1/effects/begin`.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Begin {
    #[schema(value_type = Option<ScopeName>)]
    pub scope: Option<String>,
    #[schema(value_type = Option<EffectKey>)]
    pub key: Option<String>,
    #[schema(value_type = Option<LeaseToken>)]
    pub lease_token: Option<String>,
    #[schema(value_type = Option<Tenant>)]
    pub tenant_id: Option<String>,
    pub request: Option<String>,
    #[schema(value_type = Option<RequestHash>)]
    pub request_hash: Option<String>,
    pub on_doubt: Option<OnDoubt>,
    pub lease_ms: Option<LeaseMs>,
    pub ttl_ms: Option<EffectTtlMs>,
    pub provider_window_ms: Option<ProviderWindowMs>,
    #[schema(value_type = Option<Owner>)]
    pub owner: Option<String>,
    #[schema(value_type = Option<Nonce>)]
    pub nonce: Option<String>,
}

/// `POST /v1/effects/reacquire`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Reacquire {
    #[schema(value_type = ScopeName)]
    pub scope: String,
    #[schema(value_type = Option<EffectKey>)]
    pub key: Option<String>,
    #[schema(value_type = Option<Tenant>)]
    pub tenant_id: Option<String>,
    pub request: Option<String>,
    #[schema(value_type = Option<RequestHash>)]
    pub request_hash: Option<String>,
    pub lease_ms: Option<LeaseMs>,
    #[schema(value_type = Option<Owner>)]
    pub owner: Option<String>,
    #[schema(value_type = Option<Nonce>)]
    pub nonce: Option<String>,
}

/// The decision about an effect, and what is recorded about it.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Began {
    pub decision: BeginDecision,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<DoubtAction>,
    #[schema(value_type = ScopeName)]
    pub scope: String,
    #[schema(value_type = EffectKey)]
    pub key: String,
    #[schema(value_type = Tenant)]
    pub tenant_id: String,
    pub fence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EffectToken>)]
    pub token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DownstreamKey>)]
    pub downstream_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downstream_until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<EffectState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<EffectStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AnyJson>)]
    pub result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_until: Option<Time>,
}

/// An execution whose outcome is unknown.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Doubt {
    pub fence: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner: String,
    pub began_at: Time,
    pub since: Time,
    pub cause: DoubtCause,
}

/// `POST /v1/effects/finish`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Finish {
    #[schema(value_type = EffectToken)]
    pub token: String,
    pub status: FinishStatus,
    #[schema(default = 0)]
    pub code: Option<i32>,
    #[schema(value_type = Option<AnyJson>)]
    pub result: Option<Box<RawValue>>,
    pub result_base64: Option<String>,
    pub error: Option<String>,
    #[schema(default = "keep")]
    pub downstream_key: Option<Keep>,
}

/// The response to `POST /v1/effects/finish`.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Finished {
    pub state: EffectState,
    pub status: EffectStatus,
    pub fence: u64,
    pub repeated: bool,
}

/// `POST /v1/effects/extend`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[schema(as = ExtendEffect)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Extend {
    #[schema(value_type = EffectToken)]
    pub token: String,
    pub lease_ms: Option<LeaseMs>,
}

/// The response to `POST /v1/effects/extend`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EffectExtended)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Extended {
    pub status: ExtendedStatus,
    pub expires_at: Time,
}

/// `POST /v1/effects/resolve`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Resolve {
    #[schema(value_type = ScopeName)]
    pub scope: String,
    #[schema(value_type = EffectKey)]
    pub key: String,
    #[schema(value_type = Option<Tenant>)]
    pub tenant_id: Option<String>,
    pub fence: Integer,
    #[serde(rename = "as")]
    pub resolve_as: ResolvedAs,
    #[schema(default = 0)]
    pub code: Option<i32>,
    #[schema(value_type = Option<AnyJson>)]
    pub result: Option<Box<RawValue>>,
    pub result_base64: Option<String>,
    pub error: Option<String>,
    #[schema(min_length = 1)]
    pub by: String,
    #[schema(min_length = 1)]
    pub reason: String,
}

/// The resolution of an effect by a person.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Resolution {
    #[serde(rename = "as")]
    pub resolved_as: ResolvedAs,
    pub by: String,
    pub reason: String,
    pub at: Time,
}

/// An effect.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Effect {
    #[schema(value_type = Tenant)]
    pub tenant_id: String,
    #[schema(value_type = ScopeName)]
    pub scope: String,
    #[schema(value_type = EffectKey)]
    pub key: String,
    pub state: EffectState,
    pub status: EffectStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AnyJson>)]
    pub result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_doubt: Option<OnDoubt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DownstreamKey>)]
    pub downstream_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downstream_until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<EffectMessage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
}

/// The message an effect belongs to.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct EffectMessage {
    #[schema(value_type = crate::schema::MessageId)]
    pub id: String,
    #[schema(value_type = crate::schema::TopicName)]
    pub topic: String,
    pub partition: u32,
    pub offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// `GET /v1/effects` without a key.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Effects {
    pub effects: Vec<Effect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PageCursor>)]
    pub next_cursor: Option<String>,
}

/// `GET /v1/effects`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum EffectResponse {
    /// One effect.
    Effect(Box<Effect>),
    /// A page of effects.
    Effects(Effects),
}
