//! One shard as a node sees it.

use super::{CLAIM_BACKOFF_MS, CLAIM_BACKOFF_MS_MAX};
use crate::id::{Epoch, NodeId, ShardId};
use crate::jitter::jitter_ms;
use crate::time::Timestamp;

/// What this node does about a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    /// `doomed`: the lease was over before the answer came, so it must not be served.
    Claiming {
        doomed: bool,
    },
    Serving {
        epoch: Epoch,
    },
    GivingUp,
    /// Somebody else has claimed it: a view asked for after that will say who.
    Fenced {
        at: Timestamp,
    },
}

#[derive(Debug)]
pub(super) struct Seat {
    pub(super) state: State,
    /// Not claimed before; none if nothing has failed yet.
    pub(super) claim_at: Option<Timestamp>,
    /// When a claim of ours was last heard to be done.
    pub(super) claimed_at: Option<Timestamp>,
    /// How often a claim failed, or what was claimed was lost, without a pause.
    failures: u32,
}

impl Seat {
    pub(super) fn new() -> Seat {
        Seat { state: State::Idle, claim_at: None, claimed_at: None, failures: 0 }
    }

    pub(super) fn has_failed_lately(&self, now: Timestamp) -> bool {
        self.claim_at.is_some_and(|at| now.since(at) < CLAIM_BACKOFF_MS_MAX)
    }

    /// Waits the longer, the more has failed in a row, and not as long as other nodes and shards.
    pub(super) fn fail(&mut self, now: Timestamp, me: NodeId, shard: ShardId) {
        self.failures = if self.has_failed_lately(now) { self.failures + 1 } else { 0 };
        let longest = (CLAIM_BACKOFF_MS << self.failures.min(16)).min(CLAIM_BACKOFF_MS_MAX);
        let seed = me.0 ^ u64::from(shard.0).rotate_left(20) ^ now.0.rotate_left(40);
        self.claim_at = Some(now.after(jitter_ms(longest, seed)));
    }
}
