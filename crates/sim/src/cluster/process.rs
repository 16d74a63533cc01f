//! One process: the ownership state machine of the core, and a shell that performs its actions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use driftq_core::ownership::{OwnershipAction, OwnershipEvent, Ownerships};
use driftq_core::{Epoch, NodeId, ShardId, Timestamp};

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) machine: Ownerships,
    pub(crate) serves: BTreeMap<ShardId, Epoch>,
    /// Claims in flight, by number. A claim that is not listed has been answered.
    pub(crate) claims: BTreeMap<ShardId, u64>,
    /// The renewal in flight.
    pub(crate) renewal: Option<u64>,
    /// Claims that have a connection.
    pub(crate) connected: BTreeSet<u64>,
    /// Claims that wait for a connection.
    pub(crate) queue: VecDeque<(ShardId, Epoch, u64)>,
    /// The end of a pause (SIGSTOP).
    pub(crate) stopped_until: u64,
    /// The next deadline of the state machine.
    pub(crate) wakes_at: Option<u64>,
    pub(crate) clock: Monotonic,
}

/// A monotonic clock: starts at an arbitrary value and runs slightly fast or slow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Monotonic {
    begins: u64,
    /// Its milliseconds per true second.
    rate: u64,
}

impl Monotonic {
    /// A clock without drift.
    pub(crate) const TRUE: Monotonic = Monotonic { begins: 0, rate: 1_000 };

    /// Returns its time.
    pub(crate) fn at(self, now: u64) -> u64 {
        self.begins + now * self.rate / 1_000
    }
}

impl Process {
    pub(crate) fn new(id: NodeId, lease_ms: u64, chance: &mut fastrand::Rng) -> Process {
        Process {
            machine: Ownerships::new(id, lease_ms),
            serves: BTreeMap::new(),
            claims: BTreeMap::new(),
            renewal: None,
            connected: BTreeSet::new(),
            queue: VecDeque::new(),
            stopped_until: 0,
            wakes_at: None,
            clock: Monotonic { begins: chance.u64(0..1_000_000), rate: chance.u64(990..=1_010) },
        }
    }

    pub(crate) fn apply(&mut self, now: u64, event: OwnershipEvent) -> Vec<OwnershipAction> {
        self.machine.on(Timestamp(self.clock.at(now)), event)
    }

    /// The next deadline of the state machine, by the true clock.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let Monotonic { begins, rate } = self.clock;
        let at = self.machine.next_deadline()?;
        Some(((at.0 - begins.min(at.0)) * 1_000).div_ceil(rate))
    }
}
