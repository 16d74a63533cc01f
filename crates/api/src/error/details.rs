//! The fields of each error code, in addition to those that every error has.

use serde::Serialize;
use utoipa::ToSchema;

use crate::effect::Doubt;
use crate::pointer::Pointer;
use crate::schema::GroupName;
use crate::topic::Topic;
use crate::words::{
    BeginDecision, ConflictField, DoubtAction, EffectState, ExhaustedReason, InvalidReason,
    MissingKind, Outcome, RedriveState, StaleLeaseState,
};

/// The request is malformed, or a value is unknown or out of range.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct InvalidArgument {
    /// The path of the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Set where the value was valid earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<InvalidReason>,
}

/// The request has no API key, or a wrong one.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Unauthenticated {}

/// The server does not allow requests from this web origin or for this host name.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PermissionDenied {}

/// An object that the request names does not exist.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NotFound {
    /// What does not exist.
    pub kind: MissingKind,
}

/// The path does not support this method.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MethodNotAllowed {}

/// The request body was not received in time.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RequestTimeout {
    /// Always `none`.
    pub outcome: Outcome,
}

/// The state of the system does not allow the request.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct FailedPrecondition {
    /// The number of matching messages, if the request must confirm it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// The state that does not allow the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PreconditionState>,
    /// Keys of effects that are not finished.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub effects: Vec<String>,
}

/// A state that does not allow a request.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(untagged)]
pub enum PreconditionState {
    /// The state of an effect to resolve.
    Effect(EffectState),
    /// The state of a message to redrive.
    Redrive(RedriveState),
}

/// The lease of the token has ended.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StaleLease {
    /// The state of the message.
    pub state: StaleLeaseState,
    /// The attempt of the token.
    pub attempt: u32,
    /// The attempt that has the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_attempt: Option<u32>,
}

/// The fence of the token is not the latest.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StaleFence {
    /// The state of the effect.
    pub state: EffectState,
    /// The fence of the request.
    pub fence: u64,
    /// The latest fence.
    pub current_fence: u64,
}

/// An object with this name already exists and differs.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct AlreadyExists {
    /// The existing object.
    pub current: Box<Existing>,
}

/// An existing object that a request would have created or set.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Existing {
    /// The topic, with other partitions or settings.
    Topic(Topic),
    /// The pointer, set by another message.
    Pointer(Pointer),
}

/// Another worker is executing the effect.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct InProgress {
    /// Always `IN_PROGRESS`.
    pub decision: BeginDecision,
    /// How long to wait before a retry.
    pub retry_after_ms: u64,
    /// The fence of the execution.
    pub fence: u64,
    /// The worker that executes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// The outcome of the effect is unknown and must be resolved by a person.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct InDoubt {
    /// Always `IN_DOUBT`.
    pub decision: BeginDecision,
    /// Always `park`.
    pub action: DoubtAction,
    /// How long to wait before a retry.
    pub retry_after_ms: u64,
    /// The execution whose outcome is unknown.
    pub doubt: Doubt,
}

/// A value exceeds a size limit. A retry cannot succeed.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct TooLarge {
    /// The path of the field, or `body`.
    pub field: String,
    /// The most bytes allowed.
    pub limit: u64,
    /// The bytes sent, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// The same key, token or fence was used before with different content.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Conflict {
    /// The part that differs.
    pub field: ConflictField,
}

/// A limit is reached for now.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ResourceExhausted {
    /// The limit that is reached.
    pub reason: ExhaustedReason,
    /// The limit, where `reason` is `overloaded`, as in DriftQ-Core v1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_reason: Option<ExhaustedReason>,
    /// How long to wait before a retry.
    pub retry_after_ms: u64,
    /// The group whose backlog fills the partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<GroupName>)]
    pub group: Option<String>,
    /// The limit, where it is fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// A bug in the server, or damaged data.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Internal {
    /// Whether the request may have changed something.
    pub outcome: Outcome,
}

/// The server cannot serve the request now.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Unavailable {
    /// Whether the request may have changed something.
    pub outcome: Outcome,
    /// How long to wait before a retry.
    pub retry_after_ms: u64,
}
