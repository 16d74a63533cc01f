//! The configuration, faults and counters of a cluster.

/// The configuration of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct ClusterConfig {
    /// Number of shards.
    pub shards: u32,
    /// How long a node is alive after a renewal.
    pub lease_ms: u64,
    /// The time that the database needs for a claim and the recovery after it.
    pub claim_ms: u64,
    /// How many claims the database processes concurrently. The others wait.
    pub cores: usize,
    /// Connections of a node for claims.
    pub connections: usize,
}

/// Probabilities of faults, per 1 000.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// A request does not reach the database.
    pub requests: u32,
    /// A reply is lost.
    pub answers: u32,
    /// A request or a reply takes up to 3 s.
    pub late: u32,
    /// A commit has an unknown outcome, or is rejected although the ownership is current.
    pub commits: u32,
}

/// Counters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Actions of the state machines, except renewals.
    pub actions: u64,
    /// Renewals requested.
    pub renewals: u64,
    /// Claims requested.
    pub claims: u64,
    /// Claims rejected because another node claimed the shard first.
    pub refused: u64,
    /// Shards abandoned.
    pub abandoned: u64,
    /// Commits that were fenced.
    pub fenced: u64,
}
