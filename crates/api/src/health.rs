//! Is it alive, is it ready, what is it?

use serde::Serialize;

use crate::Time;

/// `GET /v1/healthz`, and `GET /v1/readyz`.
#[derive(Debug, Serialize)]
pub struct Health {
    /// `ok`, `ready` or `not_ready`.
    pub status: &'static str,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// `GET /v1/version`.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Version {
    pub version: &'static str,
    pub commit: &'static str,
    pub wal_enabled: bool,
    pub engine: &'static str,
    pub durability: &'static str,
    pub api: &'static str,
    pub features: &'static [&'static str],
    pub started_at: Time,
}
