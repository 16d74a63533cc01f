//! Which samples of the authority clock a process believes.
//!
//! A process has one guard. Every sample of the authority passes it before the [`Clock`](crate::Clock) of a shard
//! sees it.
//!
//! 1. A forward jump of more than [`JUMP_MS_MAX`] that the boot clock did not see is held back.
//!    Time then advances at the speed of the boot clock.
//! 2. It is held back until it is confirmed, or until the authority is back within the limit.
//! 3. A backward jump passes. The clock of each shard keeps time running until the authority has
//!    caught up.
//! 4. A process that starts compares the first sample with the records of an earlier process.
//!    Without such records it believes the authority.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// A larger forward jump is held back.
pub const JUMP_MS_MAX: u64 = 3_600_000;

/// A stored [`BootRecord`] that differs by less than this is not stored again.
const DRIFT_MS_MAX: u64 = 60_000;

/// A forward jump of the authority that is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldJump {
    /// How far the authority is ahead of the believed time.
    pub ahead_ms: u64,
    /// The believed time when the jump was first seen.
    pub since: Timestamp,
}

impl HeldJump {
    /// The time that the authority showed when the jump was first seen, or less.
    fn end(self) -> Timestamp {
        self.since.after(self.ahead_ms)
    }
}

/// The believed time at a moment of the boot clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootRecord {
    /// Random, new with every boot of the machine.
    pub boot_id: String,
    /// The boot clock: it counts while the machine is suspended.
    pub boot_ms: u64,
    /// The believed time then.
    pub now: Timestamp,
}

/// The stored records about the clock. Each has its own name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredClock {
    /// The record of the process that stored it last.
    pub boot: Option<BootRecord>,
    /// The jump that is held back.
    pub held: Option<HeldJump>,
    /// The greatest time of the authority that was confirmed.
    pub confirmed: Option<Timestamp>,
}

/// One stored record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClockRecord {
    /// Stored when a process starts, and when its time and the boot clock have drifted apart.
    Boot(BootRecord),
    /// Stored when a jump is first seen, and when it has ended.
    Held(Option<HeldJump>),
    /// Stored when a jump is confirmed.
    Confirmed(Timestamp),
}

impl ClockRecord {
    /// The names of all records.
    pub const NAMES: [&'static str; 3] = ["clock_boot", "clock_held", "clock_confirmed"];

    /// Returns the name that it is stored under.
    pub fn name(&self) -> &'static str {
        match self {
            ClockRecord::Boot(_) => Self::NAMES[0],
            ClockRecord::Held(_) => Self::NAMES[1],
            ClockRecord::Confirmed(_) => Self::NAMES[2],
        }
    }

    /// Returns the text that is stored.
    pub fn text(&self) -> String {
        let text = match self {
            ClockRecord::Boot(record) => serde_json::to_string(record),
            ClockRecord::Held(held) => serde_json::to_string(held),
            ClockRecord::Confirmed(at) => serde_json::to_string(at),
        };
        text.expect("plain fields")
    }
}

impl StoredClock {
    /// Adds the record that is stored under `name`. An invalid text counts as absent, because the
    /// guard works without it.
    pub fn read(&mut self, name: &str, text: &str) {
        match name {
            "clock_boot" => self.boot = serde_json::from_str(text).ok(),
            "clock_held" => self.held = serde_json::from_str(text).ok().flatten(),
            "clock_confirmed" => self.confirmed = serde_json::from_str(text).ok(),
            _ => {}
        }
    }

    /// Adds a record that was stored.
    pub fn put(&mut self, record: ClockRecord) {
        match record {
            ClockRecord::Boot(record) => self.boot = Some(record),
            ClockRecord::Held(held) => self.held = held,
            ClockRecord::Confirmed(at) => self.confirmed = self.confirmed.max(Some(at)),
        }
    }
}

/// What the first sample of a process is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockOrigin {
    /// Nothing was ever stored.
    New,
    /// The time that a process of the same boot stored.
    SameBoot,
    /// A jump that another process holds back.
    Held,
    /// Nothing, because the stored records are of another boot. The first sample is believed.
    Unchecked,
}

/// Decides which samples of the authority are believed.
#[derive(Debug, Clone)]
pub struct JumpGuard {
    boot_id: String,
    origin: ClockOrigin,
    /// The believed time at `anchor_ms` of the boot clock; `None` before the first sample.
    believed: Option<Timestamp>,
    anchor_ms: u64,
    /// The last sample, and the boot clock then.
    authority: Timestamp,
    sampled_ms: u64,
    /// Before the first sample: the jump that another process holds back.
    held: Option<HeldJump>,
}

impl JumpGuard {
    /// Creates the guard of a process that starts at `boot_ms`.
    pub fn new(boot_id: &str, boot_ms: u64, stored: &StoredClock) -> JumpGuard {
        let mut guard = JumpGuard {
            boot_id: boot_id.to_owned(),
            origin: ClockOrigin::New,
            believed: None,
            anchor_ms: boot_ms,
            authority: Timestamp(0),
            sampled_ms: boot_ms,
            held: None,
        };
        let boot = stored.boot.as_ref();
        // A boot clock that went back belongs to another boot, whatever the boot id is.
        let same = boot.filter(|boot| {
            !boot_id.is_empty() && boot.boot_id == boot_id && boot.boot_ms <= boot_ms
        });
        let held = stored.held.filter(|held| stored.confirmed.is_none_or(|at| at < held.end()));
        if let Some(boot) = same {
            guard.origin = ClockOrigin::SameBoot;
            guard.believed = Some(boot.now.after(boot_ms - boot.boot_ms));
        } else if held.is_some() {
            guard.origin = ClockOrigin::Held;
            guard.held = held;
        } else if boot.is_some() {
            guard.origin = ClockOrigin::Unchecked;
        }
        if let Some(confirmed) = stored.confirmed {
            guard.confirmed(confirmed, boot_ms);
        }
        guard
    }

    /// Returns what the first sample is compared with.
    pub fn origin(&self) -> ClockOrigin {
        self.origin
    }

    /// Records that the authority read `authority` at `boot_ms`. Returns the time to use instead,
    /// which is the same unless a jump is held back.
    pub fn sample(&mut self, authority: Timestamp, boot_ms: u64) -> Timestamp {
        (self.authority, self.sampled_ms) = (authority, boot_ms);
        let expected = match self.expected(boot_ms) {
            Some(expected) => expected,
            None => self.first(authority),
        };
        let ahead_ms = authority.since(expected);
        if ahead_ms > JUMP_MS_MAX {
            let since = self.held.map_or(expected, |held| held.since);
            self.held = Some(HeldJump { ahead_ms, since });
            self.anchor(expected, boot_ms);
            return expected;
        }
        self.held = None;
        self.anchor(expected.max(authority), boot_ms);
        authority
    }

    /// Records that a shard was loaded whose last batch has the time `stored`. If the authority is
    /// behind that time, its return to it is not a jump.
    pub fn floor(&mut self, stored: Timestamp, boot_ms: u64) {
        if let Some(expected) = self.expected(boot_ms).filter(|_| stored > self.authority) {
            self.anchor(expected.max(stored), boot_ms);
        }
    }

    /// Returns the jump that is held back.
    pub fn held(&self) -> Option<HeldJump> {
        self.held.filter(|_| self.believed.is_some())
    }

    /// Returns how far the authority is behind the believed time.
    pub fn behind_ms(&self, boot_ms: u64) -> u64 {
        let authority = self.authority.after(boot_ms.saturating_sub(self.sampled_ms));
        self.expected(boot_ms).map_or(0, |expected| expected.since(authority))
    }

    /// Returns the time of the authority to confirm, if a jump is held back.
    pub fn to_confirm(&self) -> Option<ClockRecord> {
        self.held().map(|_| ClockRecord::Confirmed(self.authority))
    }

    /// Records that times of the authority up to `at` were confirmed. A time within the limit above
    /// `at` is not a jump.
    pub fn confirmed(&mut self, at: Timestamp, boot_ms: u64) {
        let Some(expected) = self.expected(boot_ms) else { return };
        let believed = expected.max(at);
        self.anchor(believed, boot_ms);
        // The authority may have jumped a second time before the process read the confirmation. What
        // is still held back is that jump: with the start of the first one it would end before `at`,
        // and count as confirmed.
        let ahead_ms = self.authority.since(believed);
        let held = self.held.filter(|_| ahead_ms > JUMP_MS_MAX);
        self.held = held.map(|held| HeldJump { ahead_ms, since: held.since.max(at) });
    }

    /// Returns the record to store next, given the stored ones.
    pub fn to_store(&self, stored: &StoredClock, boot_ms: u64) -> Option<ClockRecord> {
        let now = self.expected(boot_ms)?;
        let is_held_as_stored = match (self.held, stored.held) {
            (Some(held), Some(stored)) => held.ahead_ms.abs_diff(stored.ahead_ms) < DRIFT_MS_MAX,
            (held, stored) => held.is_some() == stored.is_some(),
        };
        if !is_held_as_stored {
            return Some(ClockRecord::Held(self.held));
        }
        if self.boot_id.is_empty() {
            return None;
        }
        let is_known = stored.boot.as_ref().is_some_and(|boot| {
            let then = boot.now.after(boot_ms.saturating_sub(boot.boot_ms));
            boot.boot_id == self.boot_id && then.0.abs_diff(now.0) < DRIFT_MS_MAX
        });
        let record = || BootRecord { boot_id: self.boot_id.clone(), boot_ms, now };
        (!is_known).then(|| ClockRecord::Boot(record()))
    }

    /// Returns the believed time at `boot_ms`, after the first sample.
    pub fn expected(&self, boot_ms: u64) -> Option<Timestamp> {
        Some(self.believed?.after(boot_ms.saturating_sub(self.anchor_ms)))
    }

    /// Returns the time to compare the first sample with, if only a jump that another process holds
    /// back is known. The authority has advanced since then. If its clock was corrected, it is
    /// before the jump again.
    fn first(&mut self, authority: Timestamp) -> Timestamp {
        let Some(held) = self.held else { return authority };
        let before = Timestamp(authority.0.saturating_sub(held.ahead_ms));
        // The clock may also have gone back a little while it was ahead. Half of the jump separates
        // the two cases.
        if before.after(held.ahead_ms / 2) >= held.since { before } else { authority }
    }

    fn anchor(&mut self, believed: Timestamp, boot_ms: u64) {
        self.believed = Some(believed);
        self.anchor_ms = boot_ms.max(self.anchor_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;
    const NOW: u64 = 1_000 * DAY;

    fn guard(stored: &StoredClock, boot_ms: u64) -> JumpGuard {
        JumpGuard::new("boot-a", boot_ms, stored)
    }

    fn store(guard: &JumpGuard, stored: &mut StoredClock, boot_ms: u64) {
        while let Some(record) = guard.to_store(stored, boot_ms) {
            let (name, text) = (record.name(), record.text());
            stored.read(name, &text);
        }
    }

    #[test]
    fn a_jump_over_an_hour_is_held_back_at_the_speed_of_the_boot_clock() {
        let mut guard = guard(&StoredClock::default(), 500);
        assert_eq!(guard.sample(Timestamp(NOW), 500), Timestamp(NOW));
        assert_eq!(guard.sample(Timestamp(NOW + 8 * DAY), 1_500), Timestamp(NOW + 1_000));
        assert_eq!(guard.sample(Timestamp(NOW + 8 * DAY + 1_000), 2_500), Timestamp(NOW + 2_000));
        let held = HeldJump { ahead_ms: 8 * DAY - 1_000, since: Timestamp(NOW + 1_000) };
        assert_eq!(guard.held(), Some(held));
    }

    #[test]
    fn a_second_jump_is_held_back_though_the_first_one_was_confirmed() {
        let mut guard = guard(&StoredClock::default(), 0);
        guard.sample(Timestamp(NOW), 0);
        guard.sample(Timestamp(NOW + 8 * DAY), 1_000);
        // The process reads the confirmation of the first jump after it has seen the second.
        guard.sample(Timestamp(NOW + 13 * DAY), 2_000);
        guard.confirmed(Timestamp(NOW + 8 * DAY), 3_000);
        let mut stored =
            StoredClock { confirmed: Some(Timestamp(NOW + 8 * DAY)), ..Default::default() };
        store(&guard, &mut stored, 3_000);
        let mut other = JumpGuard::new("boot-b", 0, &stored);
        assert_eq!(other.origin(), ClockOrigin::Held);
        let believed = other.sample(Timestamp(NOW + 13 * DAY + 4_000), 4_000);
        assert!(believed.since(Timestamp(NOW + 8 * DAY)) <= HOUR, "{believed:?}");
    }

    #[test]
    fn a_jump_of_an_hour_is_followed() {
        let mut one = guard(&StoredClock::default(), 0);
        one.sample(Timestamp(NOW), 0);
        let mut other = one.clone();
        assert_eq!(one.sample(Timestamp(NOW + HOUR + 10), 10), Timestamp(NOW + HOUR + 10));
        assert_eq!(one.held(), None);
        assert_eq!(other.sample(Timestamp(NOW + HOUR + 11), 10), Timestamp(NOW + 10));
        assert!(other.held().is_some());
    }

    #[test]
    fn time_that_the_boot_clock_saw_is_no_jump() {
        let mut guard = guard(&StoredClock::default(), 0);
        guard.sample(Timestamp(NOW), 0);
        assert_eq!(guard.sample(Timestamp(NOW + DAY), DAY), Timestamp(NOW + DAY));
        assert_eq!(guard.held(), None);
    }

    #[test]
    fn a_clock_that_is_set_right_ends_it() {
        let mut guard = guard(&StoredClock::default(), 0);
        guard.sample(Timestamp(NOW), 0);
        guard.sample(Timestamp(NOW + DAY), 10);
        assert_eq!(guard.sample(Timestamp(NOW + 25), 20), Timestamp(NOW + 25));
        assert_eq!(guard.held(), None);
    }

    #[test]
    fn a_clock_is_behind_until_it_is_set_right() {
        let mut guard = guard(&StoredClock::default(), 0);
        guard.sample(Timestamp(NOW), 0);
        assert_eq!(guard.behind_ms(500), 0);
        guard.floor(Timestamp(NOW + 180_000), 500);
        assert_eq!(guard.behind_ms(500), 179_500);
        guard.sample(Timestamp(NOW + 1_000), 1_000);
        assert_eq!(guard.behind_ms(2_000), 179_500);
        guard.sample(Timestamp(NOW + 183_000), 3_000);
        assert_eq!(guard.behind_ms(4_000), 0);
    }

    #[test]
    fn a_clock_that_went_back_may_return() {
        let mut guard = guard(&StoredClock::default(), 0);
        guard.sample(Timestamp(NOW), 0);
        assert_eq!(guard.sample(Timestamp(NOW - DAY), 10), Timestamp(NOW - DAY));
        assert_eq!(guard.sample(Timestamp(NOW + 20), 20), Timestamp(NOW + 20));
        assert_eq!(guard.held(), None);
    }

    #[test]
    fn a_clock_behind_what_is_stored_may_return_to_it() {
        let mut guard = guard(&StoredClock::default(), 0);
        guard.sample(Timestamp(NOW - DAY), 0);
        guard.floor(Timestamp(NOW), 0);
        assert_eq!(guard.sample(Timestamp(NOW + 10), 10), Timestamp(NOW + 10));
        assert_eq!(guard.held(), None);
    }

    #[test]
    fn a_shard_from_a_process_that_followed_the_jump_does_not_confirm_it() {
        let mut guard = guard(&StoredClock::default(), 0);
        guard.sample(Timestamp(NOW), 0);
        guard.sample(Timestamp(NOW + DAY), 10);
        guard.floor(Timestamp(NOW + DAY - 5), 10);
        assert_eq!(guard.sample(Timestamp(NOW + DAY + 10), 20), Timestamp(NOW + 20));
        assert!(guard.held().is_some());
    }

    #[test]
    fn a_confirmed_jump_is_followed_by_every_process() {
        let mut one = guard(&StoredClock::default(), 0);
        assert_eq!(one.to_confirm(), None);
        one.sample(Timestamp(NOW), 0);
        one.sample(Timestamp(NOW + DAY), 10);
        let mut stored = StoredClock::default();
        let confirmed = one.to_confirm().expect("a jump is held back");
        stored.read(confirmed.name(), &confirmed.text());
        let at = stored.confirmed.expect("it was stored");
        one.confirmed(at, 20);
        assert_eq!((one.held(), one.to_confirm()), (None, None));
        assert_eq!(one.sample(Timestamp(NOW + DAY + 20), 30), Timestamp(NOW + DAY + 20));
        // A process that sees the jump after it was confirmed.
        let mut other = JumpGuard::new("boot-b", 7_000, &StoredClock::default());
        other.sample(Timestamp(NOW), 7_000);
        assert_eq!(other.sample(Timestamp(NOW + DAY + 10), 7_020), Timestamp(NOW + 20));
        other.confirmed(at, 7_030);
        assert_eq!(other.sample(Timestamp(NOW + DAY + 20), 7_030), Timestamp(NOW + DAY + 20));
        // The confirmation does not apply to the next jump.
        assert_eq!(other.sample(Timestamp(NOW + 2 * DAY), 7_040), Timestamp(NOW + DAY + 30));
    }

    #[test]
    fn a_process_of_the_same_boot_holds_back_what_happened_while_none_ran() {
        let mut before = guard(&StoredClock::default(), 0);
        before.sample(Timestamp(NOW), 0);
        let mut stored = StoredClock::default();
        store(&before, &mut stored, 0);
        let mut after = guard(&stored, 2 * HOUR);
        assert_eq!(after.origin(), ClockOrigin::SameBoot);
        assert_eq!(after.sample(Timestamp(NOW + DAY), 2 * HOUR), Timestamp(NOW + 2 * HOUR));
        assert!(after.held().is_some());
        let mut right = guard(&stored, 2 * HOUR);
        assert_eq!(right.sample(Timestamp(NOW + 2 * HOUR), 2 * HOUR), Timestamp(NOW + 2 * HOUR));
        assert_eq!(right.held(), None);
    }

    #[test]
    fn a_process_of_another_boot_believes_the_first_sample() {
        let mut before = guard(&StoredClock::default(), 9_000);
        before.sample(Timestamp(NOW), 9_000);
        let mut stored = StoredClock::default();
        store(&before, &mut stored, 9_000);
        for (boot_id, boot_ms) in [("boot-b", 9_000), ("boot-a", 8_999), ("", 9_000)] {
            let mut after = JumpGuard::new(boot_id, boot_ms, &stored);
            assert_eq!(after.origin(), ClockOrigin::Unchecked);
            assert_eq!(after.sample(Timestamp(NOW + DAY), boot_ms), Timestamp(NOW + DAY));
            assert_eq!(after.held(), None);
        }
        assert_eq!(guard(&StoredClock::default(), 0).origin(), ClockOrigin::New);
    }

    #[test]
    fn a_jump_that_others_hold_back_is_held_back_from_the_first_sample_on() {
        let mut one = guard(&StoredClock::default(), 0);
        one.sample(Timestamp(NOW), 0);
        one.sample(Timestamp(NOW + DAY), 0);
        let mut stored = StoredClock::default();
        store(&one, &mut stored, 0);
        let mut other = JumpGuard::new("boot-b", 100, &stored);
        assert_eq!(other.origin(), ClockOrigin::Held);
        assert_eq!(other.held(), None);
        assert_eq!(other.sample(Timestamp(NOW + DAY + HOUR), 100), Timestamp(NOW + HOUR));
        assert!(other.held().is_some());
        // The clock was corrected while no process ran.
        let mut right = JumpGuard::new("boot-b", 100, &stored);
        assert_eq!(right.sample(Timestamp(NOW + HOUR), 100), Timestamp(NOW + HOUR));
        assert_eq!(right.to_store(&stored, 100), Some(ClockRecord::Held(None)));
        // The jump was confirmed since then.
        stored.put(ClockRecord::Confirmed(Timestamp(NOW + DAY)));
        assert_eq!(JumpGuard::new("boot-b", 100, &stored).origin(), ClockOrigin::Unchecked);
    }

    #[test]
    fn nothing_is_stored_again_that_has_not_changed() {
        let mut guard = guard(&StoredClock::default(), 0);
        let mut stored = StoredClock::default();
        assert_eq!(guard.to_store(&stored, 0), None);
        guard.sample(Timestamp(NOW), 0);
        store(&guard, &mut stored, 0);
        guard.sample(Timestamp(NOW + DAY + 59_999), DAY);
        assert_eq!(guard.to_store(&stored, DAY), None);
        guard.sample(Timestamp(NOW + DAY + 60_001), DAY);
        assert!(matches!(guard.to_store(&stored, DAY), Some(ClockRecord::Boot(_))));
        guard.sample(Timestamp(NOW + 9 * DAY), DAY);
        assert!(matches!(guard.to_store(&stored, DAY), Some(ClockRecord::Held(Some(_)))));
    }

    #[test]
    fn what_is_stored_reads_the_same_for_ever() {
        let boot = BootRecord { boot_id: "boot-a".to_owned(), boot_ms: 7, now: Timestamp(NOW) };
        let held = HeldJump { ahead_ms: DAY, since: Timestamp(NOW) };
        let records = [
            (ClockRecord::Boot(boot), r#"{"boot_id":"boot-a","boot_ms":7,"now":86400000000}"#),
            (ClockRecord::Held(Some(held)), r#"{"ahead_ms":86400000,"since":86400000000}"#),
            (ClockRecord::Held(None), "null"),
            (ClockRecord::Confirmed(Timestamp(5)), "5"),
        ];
        for (record, text) in records {
            assert_eq!(record.text(), text);
            let (mut read, mut put) = (StoredClock::default(), StoredClock::default());
            read.read(record.name(), text);
            put.put(record);
            assert_eq!(read, put);
        }
    }
}
