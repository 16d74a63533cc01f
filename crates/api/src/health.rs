//! Health, readiness and version.

use serde::Serialize;
use utoipa::ToSchema;

use crate::Time;
use crate::schema::EngineName;
use crate::words::HealthStatus;

/// `GET /v1/healthz`, and `GET /v1/readyz`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok` for `healthz`; `ready` or `not_ready` for `readyz`.
    pub status: HealthStatus,
    /// Why the server is not ready, or what needs attention although it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// `GET /v1/version`.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Version {
    pub version: &'static str,
    pub commit: &'static str,
    pub wal_enabled: bool,
    #[schema(value_type = EngineName)]
    pub engine: &'static str,
    pub durability: &'static str,
    pub api: &'static str,
    #[schema(value_type = Vec<String>)]
    pub features: &'static [&'static str],
    pub started_at: Time,
}
