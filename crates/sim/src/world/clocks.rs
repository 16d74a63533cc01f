//! The clocks of a world.

use driftq_core::{JumpGuard, StoredClock};

/// The authority clock at the start of a run.
pub(crate) const EPOCH_MS: u64 = 1_000_000_000;

/// The clock of one process.
#[derive(Debug)]
pub(crate) struct ProcessClock {
    pub(crate) guard: JumpGuard,
    /// The stored records that this process knows.
    pub(crate) stored: StoredClock,
}

impl ProcessClock {
    pub(crate) fn new(boot_id: &str, boot_ms: u64, stored: &StoredClock) -> ProcessClock {
        ProcessClock { guard: JumpGuard::new(boot_id, boot_ms, stored), stored: stored.clone() }
    }
}

/// The authority clock, its stored records, and the clock of the process if there is only one.
pub(crate) struct Clocks {
    pub(crate) ahead_ms: i64,
    /// A long jump that was neither confirmed nor corrected.
    pub(crate) jump_ms: Option<u64>,
    pub(crate) jumps: u64,
    pub(crate) stored: StoredClock,
    pub(crate) boots: u64,
    pub(crate) process: ProcessClock,
}

impl Clocks {
    pub(crate) fn new() -> Clocks {
        let stored = StoredClock::default();
        let process = ProcessClock::new("boot-0", 0, &stored);
        Clocks { ahead_ms: 0, jump_ms: None, jumps: 0, stored, boots: 0, process }
    }
}
