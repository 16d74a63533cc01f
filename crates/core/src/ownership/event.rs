//! What happens to the ownerships of a node, and what is to be done about them.

use super::Shown;
use crate::id::{Epoch, ShardId};

/// Something happened. Each [`Action`] that asks for an answer gets one, in bounded time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The renewal was done: this node is alive for a lease from when it was asked for.
    Renewed(Shown),
    /// It was not, or nobody knows.
    RenewFailed,
    /// A claim was done and the shard recovered: it is served from now on, unless the answer is to
    /// abandon it.
    Claimed {
        /// The shard.
        shard: ShardId,
        /// The number of the claim.
        epoch: Epoch,
    },
    /// A claim was refused or failed, or nobody knows; or the shard could not be recovered.
    ClaimFailed(ShardId),
    /// The shard is not served any more: a commit or a read failed.
    Lost {
        /// The shard.
        shard: ShardId,
        /// Which ownership of it.
        epoch: Epoch,
        /// Because that ownership is over. Otherwise the outcome is unknown.
        fenced: bool,
    },
    /// The shard is not served any more, and the database has been told so, or it was tried.
    GivenUp(ShardId),
    /// The process is to stop.
    Drain,
    /// Time has passed.
    Time,
}

/// Something is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Renew the row of this node and look. Answered by `Renewed` or `RenewFailed`, the latter after
    /// [`RENEW_WAIT_MS`](super::RENEW_WAIT_MS).
    Renew {
        /// What the row says of it.
        draining: bool,
    },
    /// Claim the shard if its epoch is still this one, recover it, serve it. Answered by `Claimed` or
    /// `ClaimFailed`.
    Claim {
        /// The shard.
        shard: ShardId,
        /// Its epoch before the claim.
        epoch: Epoch,
    },
    /// Stop serving the shard, if it is served, when what is decided has been committed; then clear its
    /// holder if its epoch is still this one. Answered by `GivenUp`.
    GiveUp {
        /// The shard.
        shard: ShardId,
        /// Its epoch.
        epoch: Epoch,
    },
    /// Drop the shard at once, or the claim or the giving up that is under way, which is still answered.
    Abandon(ShardId),
    /// Delete the row of this node. Nothing is asked after that.
    Leave,
}
