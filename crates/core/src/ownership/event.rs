//! Events of a node's ownerships, and the actions to perform.

use super::ClusterRows;
use crate::id::{Epoch, ShardId};

/// An event. Each [`Action`] that requires an answer gets one in bounded time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnershipEvent {
    /// The renewal succeeded. This node is alive for one lease from when the renewal was sent.
    Renewed(ClusterRows),
    /// The renewal failed, or its outcome is unknown.
    RenewFailed,
    /// A claim succeeded and the shard was recovered. It is served from now on, unless the answer
    /// is [`Action::Abandon`].
    Claimed {
        /// The shard.
        shard: ShardId,
        /// The number of the claim.
        epoch: Epoch,
    },
    /// A claim was rejected or failed, its outcome is unknown, or the shard could not be recovered.
    ClaimFailed(ShardId),
    /// The shard is no longer served, because a commit or a read failed.
    Lost {
        /// The shard.
        shard: ShardId,
        /// The epoch of the ownership.
        epoch: Epoch,
        /// Whether that ownership has ended. Otherwise the outcome is unknown.
        fenced: bool,
    },
    /// The shard is no longer served. The node has tried to clear the holder in the database.
    GivenUp(ShardId),
    /// The process should stop.
    Drain,
    /// Time has passed.
    Time,
}

/// An action to perform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnershipAction {
    /// Renew the row of this node and read the rows of the cluster. Answered by `Renewed`, or by
    /// `RenewFailed` after at most [`RENEW_TIMEOUT_MS`](super::RENEW_TIMEOUT_MS).
    Renew {
        /// The value of `draining` in the row.
        draining: bool,
    },
    /// Claim the shard if its epoch is still this one, recover it and serve it. Answered by
    /// `Claimed` or `ClaimFailed`.
    Claim {
        /// The shard.
        shard: ShardId,
        /// Its epoch before the claim.
        epoch: Epoch,
    },
    /// If the shard is served, commit all decided batches and stop serving it. Then clear its
    /// holder if its epoch is still this one. Answered by `GivenUp`.
    GiveUp {
        /// The shard.
        shard: ShardId,
        /// Its epoch.
        epoch: Epoch,
    },
    /// Drop the shard at once, or cancel the claim or give-up in progress, which is still answered.
    Abandon(ShardId),
    /// Delete the row of this node. This is the last action.
    Leave,
}
