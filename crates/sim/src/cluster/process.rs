//! One process: the machine of the core, and a shell that performs what it says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use driftq_core::ownership::{Action, Event, Ownerships};
use driftq_core::{Epoch, NodeId, ShardId, Timestamp};

#[derive(Debug)]
pub(super) struct Process {
    pub(super) machine: Ownerships,
    pub(super) serves: BTreeMap<ShardId, Epoch>,
    /// Claims under way, by their numbers: one that is not here any more was answered.
    pub(super) claims: BTreeMap<ShardId, u64>,
    /// The renewal under way.
    pub(super) renewal: Option<u64>,
    /// Claims that have a connection.
    pub(super) connected: BTreeSet<u64>,
    /// Claims that wait for a connection.
    pub(super) queue: VecDeque<(ShardId, Epoch, u64)>,
    /// Stopped until then, by a signal.
    pub(super) stopped_until: u64,
    /// The next time the machine wants to be called.
    pub(super) wakes_at: Option<u64>,
    clock: Clock,
}

/// A monotonic clock: begins anywhere and runs a little fast or slow.
#[derive(Debug)]
struct Clock {
    begins: u64,
    /// Of its own milliseconds in a true second.
    rate: u64,
}

impl Process {
    pub(super) fn new(id: NodeId, lease_ms: u64, chance: &mut fastrand::Rng) -> Process {
        Process {
            machine: Ownerships::new(id, lease_ms),
            serves: BTreeMap::new(),
            claims: BTreeMap::new(),
            renewal: None,
            connected: BTreeSet::new(),
            queue: VecDeque::new(),
            stopped_until: 0,
            wakes_at: None,
            clock: Clock { begins: chance.u64(0..1_000_000), rate: chance.u64(990..=1_010) },
        }
    }

    pub(super) fn hear(&mut self, now: u64, event: Event) -> Vec<Action> {
        let Clock { begins, rate } = self.clock;
        self.machine.on(Timestamp(begins + now * rate / 1_000), event)
    }

    /// When the machine wants to be called, by the true clock.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let Clock { begins, rate } = self.clock;
        let at = self.machine.next_deadline()?;
        Some(((at.0 - begins.min(at.0)) * 1_000).div_ceil(rate))
    }
}
