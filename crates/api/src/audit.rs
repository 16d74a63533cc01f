//! The audit chains: decisions of the effect ledger, and administrative acts.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::schema::{
    Accepted, ChainHash, EffectKey, GroupName, MessageId, PageCursor, ScopeName, Tenant, TopicName,
};
use crate::words::EffectState;

/// `GET /v1/audit`.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Chains {
    pub chains: Vec<Chain>,
}

/// The last record of a chain: its number and hash.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Chain {
    pub namespace: String,
    pub shard: u32,
    pub seq: u64,
    #[schema(value_type = ChainHash)]
    pub hash: String,
}

/// `GET /v1/audit/records`.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Records {
    pub records: Vec<Link>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// A record and its hash.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Link {
    /// The record as it was hashed, byte for byte.
    #[schema(value_type = Record)]
    pub record: Box<RawValue>,
    #[schema(value_type = ChainHash)]
    pub hash: String,
}

// Only for the OpenAPI document and never instantiated: the core writes the text of a record.
/// A record of an accepted decision.
#[derive(Debug, ToSchema)]
#[schema(as = AuditRecord)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Record {
    pub seq: u64,
    pub at_ms: u64,
    pub decision: Accepted,
    pub tenant: Tenant,
    pub scope: ScopeName,
    pub topic: Option<u64>,
    pub key: EffectKey,
    pub born_ms: u64,
    pub fence: u64,
    pub message: Option<MessageId>,
    pub attempt: Option<u32>,
    pub by: Option<String>,
    pub reason: Option<String>,
    pub request: Option<String>,
    pub state: Option<EffectState>,
    pub outcome: Option<ChainHash>,
}

/// `GET /v1/audit/admin`.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Acts {
    /// Newest first.
    pub acts: Vec<ActLink>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PageCursor>)]
    pub next_cursor: Option<String>,
}

/// The record of an administrative act.
#[derive(Debug, Serialize, ToSchema)]
pub struct ActLink {
    /// The shard whose chain it is in. Absent for acts that no shard commits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
    /// The record as it was hashed, byte for byte.
    #[schema(value_type = ActRecord)]
    pub record: Box<RawValue>,
    /// Its hash in the chain of its shard.
    #[schema(value_type = Option<ChainHash>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

// Only for the OpenAPI document and never instantiated: the core writes the text of a record.
/// A record of an administrative act.
#[derive(Debug, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct ActRecord {
    pub seq: Option<u64>,
    pub at_ms: u64,
    pub act: ActName,
    pub topic: Option<TopicName>,
    pub group: Option<GroupName>,
    pub by: Option<String>,
    pub reason: Option<String>,
    pub request_id: Option<String>,
    pub act_id: String,
    pub counts: Option<BTreeMap<String, u64>>,
    pub details: Option<BTreeMap<String, String>>,
}

/// The name of an act.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants are what their names say")]
pub enum ActName {
    CreateTopic,
    PatchTopic,
    DeleteTopic,
    CreateGroup,
    DeleteGroup,
    PauseGroup,
    ResumeGroup,
    SeekGroup,
    Redrive,
    Purge,
    Repair,
    ResolveEffect,
    ConfirmClock,
    DrainNode,
    UndrainNode,
    MoveShard,
    MarkRestored,
}
