//! A call that has no answer.

/// Why a call has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The shard was lost while it had the call: it may have happened or not.
    #[error("the outcome is unknown: repeat with the same key or token")]
    Unknown,
    /// The shard does not serve: nothing happened.
    #[error("the shard does not serve now; nothing happened")]
    NotServing,
    /// More calls wait than there is room for: nothing happened.
    #[error("too many calls wait; nothing happened")]
    Overloaded,
}
