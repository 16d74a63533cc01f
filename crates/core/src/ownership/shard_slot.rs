//! One shard as a node sees it.

use super::{CLAIM_BACKOFF_MS, CLAIM_BACKOFF_MS_MAX, STABLE_AFTER_MS};
use crate::id::{Epoch, NodeId, ShardId};
use crate::jitter::jitter_ms;
use crate::time::Timestamp;

/// What this node does with a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    /// `doomed`: the lease ended before the claim was answered, so the shard must not be served.
    Claiming {
        doomed: bool,
    },
    Serving {
        epoch: Epoch,
    },
    GivingUp,
    /// Another node has claimed it. A view that is requested after that shows which.
    Fenced {
        at: Timestamp,
    },
}

#[derive(Debug)]
pub(super) struct ShardSlot {
    pub(super) state: State,
    /// When the next claim is allowed. `None` if nothing has failed yet.
    pub(super) claim_at: Option<Timestamp>,
    /// When the last success of a claim by this node was received.
    pub(super) claimed_at: Option<Timestamp>,
    /// Failed claims since the last success.
    failed_claims: u32,
    /// How often in a row it was lost as soon as it was served.
    early_losses: u32,
}

impl ShardSlot {
    pub(super) fn new() -> ShardSlot {
        ShardSlot {
            state: State::Idle,
            claim_at: None,
            claimed_at: None,
            failed_claims: 0,
            early_losses: 0,
        }
    }

    pub(super) fn claimed(&mut self, now: Timestamp) {
        self.claimed_at = Some(now);
        self.failed_claims = 0;
    }

    pub(super) fn claim_failed(&mut self, now: Timestamp, me: NodeId, shard: ShardId) {
        if self.claim_at.is_none_or(|at| now.since(at) >= CLAIM_BACKOFF_MS_MAX) {
            self.failed_claims = 0;
        }
        self.failed_claims += 1;
        self.claim_at = Some(now.after(wait_ms(self.failed_claims, now, me, shard)));
    }

    pub(super) fn lost(&mut self, now: Timestamp, me: NodeId, shard: ShardId) {
        if self.claimed_at.is_none_or(|at| now.since(at) >= STABLE_AFTER_MS) {
            self.early_losses = 0;
            self.claim_at = Some(now);
        } else {
            self.early_losses += 1;
            self.claim_at = Some(now.after(wait_ms(self.early_losses, now, me, shard)));
        }
    }
}

/// Returns an exponential backoff, jittered by node and shard.
fn wait_ms(failed: u32, now: Timestamp, me: NodeId, shard: ShardId) -> u64 {
    let longest = (CLAIM_BACKOFF_MS << (failed - 1).min(16)).min(CLAIM_BACKOFF_MS_MAX);
    jitter_ms(longest, me.0 ^ u64::from(shard.0).rotate_left(20) ^ now.0.rotate_left(40))
}
