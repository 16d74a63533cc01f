//! One process: the machine of the core, and a shell that performs what it says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use driftq_core::ownership::{Action, Event, Ownerships};
use driftq_core::{Epoch, NodeId, ShardId, Timestamp};

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) machine: Ownerships,
    pub(crate) serves: BTreeMap<ShardId, Epoch>,
    /// Claims under way, by their numbers: one that is not here any more was answered.
    pub(crate) claims: BTreeMap<ShardId, u64>,
    /// The renewal under way.
    pub(crate) renewal: Option<u64>,
    /// Claims that have a connection.
    pub(crate) connected: BTreeSet<u64>,
    /// Claims that wait for a connection.
    pub(crate) queue: VecDeque<(ShardId, Epoch, u64)>,
    /// Stopped until then, by a signal.
    pub(crate) stopped_until: u64,
    /// The next time the machine wants to be called.
    pub(crate) wakes_at: Option<u64>,
    pub(crate) clock: Monotonic,
}

/// A monotonic clock: begins anywhere and runs a little fast or slow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Monotonic {
    begins: u64,
    /// Of its own milliseconds in a true second.
    rate: u64,
}

impl Monotonic {
    /// One that is right.
    pub(crate) const TRUE: Monotonic = Monotonic { begins: 0, rate: 1_000 };

    /// What it shows.
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

    pub(crate) fn hear(&mut self, now: u64, event: Event) -> Vec<Action> {
        self.machine.on(Timestamp(self.clock.at(now)), event)
    }

    /// When the machine wants to be called, by the true clock.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let Monotonic { begins, rate } = self.clock;
        let at = self.machine.next_deadline()?;
        Some(((at.0 - begins.min(at.0)) * 1_000).div_ceil(rate))
    }
}
