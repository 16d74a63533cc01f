//! What a cluster is like, what goes wrong in it, and what is counted.

/// What a cluster is like.
#[derive(Debug, Clone, Copy)]
pub struct ClusterConfig {
    /// How many shards there are.
    pub shards: u32,
    /// How long a node is alive after a renewal.
    pub lease_ms: u64,
    /// How long the database works for a claim and the recovery after it.
    pub claim_ms: u64,
    /// For how many it works at a time. The others wait.
    pub cores: usize,
    /// Connections of a node for that.
    pub connections: usize,
}

/// How often something goes wrong, of 1 000 times.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// A request does not reach the database.
    pub requests: u32,
    /// An answer does not come back.
    pub answers: u32,
    /// A request or an answer takes up to 3 s.
    pub late: u32,
    /// A commit has an unknown outcome, or is refused though the ownership stands.
    pub commits: u32,
}

/// What happened so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Everything the machines said but to renew.
    pub actions: u64,
    /// Renewals asked for.
    pub renewals: u64,
    /// Claims asked for.
    pub claims: u64,
    /// Claims that another node had overtaken.
    pub refused: u64,
    /// Shards dropped at once.
    pub abandoned: u64,
    /// Commits that were fenced.
    pub fenced: u64,
}
