//! Calls that failed without a reply, and whether to retry them.

/// How long a call is retried while its shard is moving to another node.
pub const MAX_MOVE_WAIT_MS: u64 = 3_000;

/// Why a call has no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The shard was lost while it processed the call. The call may or may not have taken effect.
    #[error(
        "the outcome is unknown; repeat the request with its idempotency key or token; if it has neither, check first whether it was executed"
    )]
    Unknown,
    /// The shard is not served. Nothing was changed.
    #[error("the shard is not available now; nothing was changed")]
    NotServing,
    /// Too many calls are waiting. Nothing was changed.
    #[error("too many requests are waiting; nothing was changed")]
    Overloaded,
}

impl CallError {
    /// Whether the receiving node retries the call, `after_ms` after its first try. Only a call
    /// that no shard accepted is retried. If the call may have taken effect, the caller must retry
    /// it, because only the caller knows the key or token.
    pub fn should_retry(self, after_ms: u64) -> bool {
        self == CallError::NotServing && after_ms < MAX_MOVE_WAIT_MS
    }
}
