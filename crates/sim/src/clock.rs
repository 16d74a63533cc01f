//! The authority clock, and which of its times the processes believe.
//!
//! Small jumps are followed. Occasionally the clock jumps by more than an hour, and is corrected or
//! confirmed some seconds later. The history records which times may be followed.

use driftq_checker::history::What;
use driftq_core::{ClockOrigin, ClockRecord, JUMP_MS_MAX, NodeId, Timestamp};

use crate::cluster::process::Monotonic;
use crate::plan::HEAL_AT_MS;
use crate::world::{EPOCH_MS, ProcessClock, SimEvent, World};

/// Starts shortly above the longest jump that is followed, so that a guard with a slightly wrong
/// limit is detected.
const FAR_MS: std::ops::Range<u64> = JUMP_MS_MAX + 200_000..40 * 24 * 3_600_000;

impl World {
    /// The time of the authority clock.
    pub(crate) fn authority_now(&self) -> Timestamp {
        Timestamp((EPOCH_MS + self.now).saturating_add_signed(self.clocks.ahead_ms))
    }

    /// The same without an unconfirmed long jump. Clients schedule by this time.
    pub(crate) fn followed_now(&self) -> Timestamp {
        Timestamp(self.authority_now().0 - self.clocks.jump_ms.unwrap_or(0))
    }

    /// Applies a jump that is followed.
    pub(crate) fn jump_clock(&mut self, by_ms: i64) {
        self.clocks.ahead_ms += by_ms;
        self.set_authority();
        self.record_time();
    }

    /// Records which time may be followed.
    pub(crate) fn record_time(&mut self) {
        let now = self.followed_now().0;
        self.record(0, What::Clock { now });
    }

    /// Applies a jump that is not followed, unless one is already active.
    pub(crate) fn jump_far(&mut self) {
        if self.clocks.jump_ms.is_some() || self.now + 60_000 > HEAL_AT_MS {
            return;
        }
        let by_ms = self.rng.u64(FAR_MS);
        self.clocks.jumps += 1;
        self.clocks.jump_ms = Some(by_ms);
        self.clocks.ahead_ms += by_ms.cast_signed();
        self.set_authority();
        let is_right = self.rng.u32(0..3) == 0;
        let (number, delay) = (self.clocks.jumps, self.rng.u64(1_000..30_000));
        self.later(delay, SimEvent::JumpEnds { number, is_right });
    }

    /// An operator confirms the jump, or corrects the clock.
    pub(crate) fn end_jump(&mut self, number: u64, is_right: bool) {
        let Some(by_ms) = self.clocks.jump_ms.filter(|_| number == self.clocks.jumps) else {
            return;
        };
        if is_right {
            let Some(record) = self.to_confirm() else {
                return self.later(500, SimEvent::JumpEnds { number, is_right });
            };
            self.stats.saw("clock jump confirmed");
            return self.confirm(record);
        }
        self.stats.saw("clock jump set right");
        self.clocks.jump_ms = None;
        self.jump_clock(-by_ms.cast_signed());
    }

    /// Ends an active jump when the faults end.
    pub(crate) fn set_clock_right(&mut self) {
        self.end_jump(self.clocks.jumps, false);
    }

    /// The record with which a process that holds the jump back would confirm it.
    fn to_confirm(&self) -> Option<ClockRecord> {
        let mut all = self.hosts.clocks().chain([&self.clocks.process]);
        all.find_map(|process| process.guard.to_confirm())
    }

    fn confirm(&mut self, record: ClockRecord) {
        self.clocks.stored.put(record);
        self.clocks.jump_ms = None;
        self.record_time();
    }

    /// Restarts the clock of the only process, sometimes after a reboot.
    pub(crate) fn restart_process_clock(&mut self) {
        self.clocks.boots += u64::from(self.rng.u32(0..4) == 0);
        let boot_id = format!("boot-{}", self.clocks.boots);
        self.clocks.process = ProcessClock::new(&boot_id, self.now, &self.clocks.stored);
    }

    /// A process reads the authority clock. Returns the time that it believes.
    pub(crate) fn believe(&mut self, host: Option<NodeId>, authority: Timestamp) -> Timestamp {
        let now = self.now;
        let Some((process, boot_ms)) = self.process_clock(host, now) else { return authority };
        let is_told = process.stored.held.is_some();
        let guard = &mut process.guard;
        let is_first = guard.expected(boot_ms).is_none();
        let was_held = guard.held().is_some();
        let believed = guard.sample(authority, boot_ms);
        let (is_held, origin) = (guard.held().is_some(), guard.origin());
        if is_held && !was_held {
            self.stats.saw("clock jump held back");
        }
        if is_held && is_first && origin == ClockOrigin::Held {
            self.stats.saw("clock jump held back by a new process");
        }
        // If the process could not know about the jump, its first sample counts as a confirmation.
        if is_first && !is_told && believed.since(self.followed_now()) > JUMP_MS_MAX {
            self.confirm(ClockRecord::Confirmed(authority));
        }
        believed
    }

    /// A shard was loaded whose last batch has the time `stored`.
    pub(crate) fn floor(&mut self, host: Option<NodeId>, stored: Timestamp) {
        let now = self.now;
        if let Some((process, boot_ms)) = self.process_clock(host, now) {
            process.guard.floor(stored, boot_ms);
        }
    }

    /// A process checks whether its jump was confirmed, and stores its records.
    pub(crate) fn look_at_clock(&mut self, host: Option<NodeId>) {
        let (now, confirmed) = (self.now, self.clocks.stored.confirmed);
        let Some((process, boot_ms)) = self.process_clock(host, now) else { return };
        if let Some(at) = confirmed.filter(|_| process.guard.held().is_some()) {
            process.guard.confirmed(at, boot_ms);
        }
        let mut records = Vec::new();
        while let Some(record) = process.guard.to_store(&process.stored, boot_ms) {
            process.stored.put(record.clone());
            records.push(record);
        }
        records.into_iter().for_each(|record| self.clocks.stored.put(record));
    }

    fn process_clock(
        &mut self,
        host: Option<NodeId>,
        now: u64,
    ) -> Option<(&mut ProcessClock, u64)> {
        let Some(id) = host else {
            return Some((&mut self.clocks.process, Monotonic::TRUE.at(now)));
        };
        let (clock, monotonic) = self.hosts.clock_of(id)?;
        Some((clock, monotonic.at(now)))
    }
}
