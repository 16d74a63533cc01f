//! The server's clock.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

/// `POST /v1/clock/confirm`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfirmClock {
    /// The name of the operator.
    pub by: Option<String>,
    /// The reason, for the audit record.
    pub reason: Option<String>,
}

/// A forward jump of the clock that was confirmed and is followed from now on.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct ConfirmedClock {
    pub ahead_ms: u64,
    pub now: Time,
}

/// A forward jump of the clock that is not followed until it is confirmed.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct HeldClock {
    pub ahead_ms: u64,
    pub since: Time,
    pub summary: String,
}
