//! A call that has no answer, and whether it is sent again.

/// How long a call is held whose shard moves, in the hope that it is served again.
pub const HELD_MS: u64 = 3_000;

/// Why a call has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
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

impl CallError {
    /// Whether the node that took a call sends it again after so long: only what nobody has taken. What may have
    /// happened is for the caller to repeat, who knows by which key or token.
    pub fn should_retry(self, after_ms: u64) -> bool {
        self == CallError::NotServing && after_ms < HELD_MS
    }
}
