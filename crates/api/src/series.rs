//! Short time series.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::Time;

/// `GET /v1/series`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Series {
    /// The length of a slot.
    pub step_ms: u64,
    /// When the first slot begins.
    pub from: Time,
    /// The values by name. `null`: nothing was counted in that slot.
    pub series: BTreeMap<String, Vec<Option<u64>>>,
    /// When nodes began or ended to serve the shard.
    pub breaks: Vec<SeriesBreak>,
}

/// When a node began or ended to serve the shard.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct SeriesBreak {
    pub at: Time,
    pub shard: u32,
    pub reason: String,
}
