//! The audit chain, for whoever wants to take it away and check it.

use serde::{Deserialize, Serialize};

use crate::audit::Tip;
use crate::id::{ShardId, Text};

/// Read records of a chain. One slice: whoever wants more goes on at [`AuditSlice::next`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadAudit {
    /// On which shard.
    pub shard: ShardId,
    /// Whose chain.
    pub namespace: Text,
    /// The number of the first record.
    pub from: u64,
    /// The number of the last.
    pub to: u64,
}

/// One slice of a chain, without a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditSlice {
    /// Each record's text, and the chain's tip at it.
    pub records: Vec<(String, Tip)>,
    /// Where to go on; `None`: that was the end.
    pub next: Option<u64>,
}
