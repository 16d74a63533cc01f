//! Reading the audit chain, to export and verify it.

use serde::{Deserialize, Serialize};

use crate::audit::Tip;
use crate::id::{ShardId, Text};

/// Read one slice of a chain. The next slice starts at [`AuditSlice::next`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadAudit {
    /// The shard of the chain.
    pub shard: ShardId,
    /// The namespace of the chain.
    pub namespace: Text,
    /// The number of the first record.
    pub from: u64,
    /// The number of the last record.
    pub to: u64,
}

/// One slice of a chain, without a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditSlice {
    /// Each record's text, and the chain's tip at it.
    pub records: Vec<(String, Tip)>,
    /// Where the next slice starts. `None` at the end of the chain.
    pub next: Option<u64>,
}
