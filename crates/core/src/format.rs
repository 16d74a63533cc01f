//! Which releases can read what is stored and sent between nodes.
//!
//! A node that is alive may take over any shard, so nothing is stored that one of them cannot read.

/// What a release reads, of rows and of commands between nodes. A format includes all lower ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// The first release.
    #[default]
    V1 = 1,
    /// Envelopes may have an [`crate::Extension`], and retry policies without `max_attempts`. Audit
    /// records have the delivery. Produce requests may have a nonce.
    V2 = 2,
}

impl Format {
    /// The format that this release reads.
    pub const NEWEST: Format = Format::V2;
}
