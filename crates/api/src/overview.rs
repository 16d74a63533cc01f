//! The state of the whole server on one page.

use serde::Serialize;
use utoipa::ToSchema;

use crate::Time;
use crate::cluster::Node;
use crate::words::AttentionKind;

/// `GET /v1/overview`.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Overview {
    pub at: Time,
    pub version: &'static str,
    pub engine: &'static str,
    pub started_at: Time,
    pub ready: bool,
    pub topics: u64,
    pub groups: u64,
    pub stored_messages: u64,
    pub stored_bytes: u64,
    pub backlog: u64,
    pub leased: u64,
    pub waiting: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_unsettled_at: Option<Time>,
    pub dead_letters: u64,
    pub effects_in_doubt: u64,
    pub effects_parked: u64,
    pub rates: Rates,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_free_bytes: Option<u64>,
    /// Absent on a single node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<Node>>,
    /// What an operator should look at, worst first: at most 50.
    pub attention: Vec<Attention>,
}

/// Messages per second of all topics and groups, averaged over 15 s.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Rates {
    pub produced: f64,
    pub delivered: f64,
    pub acked: f64,
    pub failed: f64,
}

/// Something that an operator should look at.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Attention {
    pub kind: AttentionKind,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}
