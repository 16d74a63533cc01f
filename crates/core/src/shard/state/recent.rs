//! A count over the last minute.

use crate::time::Timestamp;

const SLOT_MS: u64 = 5_000;
const SLOTS: u64 = 12;
/// The slots of a rate: 15 s.
const RATE_SLOTS: u64 = 3;

/// A count over the last minute, in slots of 5 s.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recent {
    slots: [u32; SLOTS as usize],
    /// The number of the newest slot.
    newest: u64,
}

impl Recent {
    pub(crate) fn add(&mut self, now: Timestamp, more: u32) {
        let slot = (now.0 / SLOT_MS).max(self.newest);
        for over in (self.newest + 1..=slot).take(SLOTS as usize) {
            self.slots[(over % SLOTS) as usize] = 0;
        }
        self.newest = slot;
        let count = &mut self.slots[(slot % SLOTS) as usize];
        *count = count.saturating_add(more);
    }

    /// Returns the count of the last minute.
    pub(crate) fn total(&self, now: Timestamp) -> u64 {
        let slot = now.0 / SLOT_MS;
        self.between(slot.saturating_sub(SLOTS - 1), slot)
    }

    /// Returns the count of 15 s: the three slots before the current one.
    pub(crate) fn last_15s(&self, now: Timestamp) -> u64 {
        let slot = now.0 / SLOT_MS;
        self.between(slot.saturating_sub(RATE_SLOTS), slot.saturating_sub(1))
    }

    fn between(&self, first: u64, last: u64) -> u64 {
        let kept = self.newest.saturating_sub(SLOTS - 1)..=self.newest;
        let slots = first.max(*kept.start())..=last.min(*kept.end());
        slots.map(|slot| u64::from(self.slots[(slot % SLOTS) as usize])).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_800_000_000_000;

    fn at(second: u64) -> Timestamp {
        Timestamp(START + second * 1_000)
    }

    #[test]
    fn the_last_minute_forgets_what_is_older() {
        let mut count = Recent::default();
        for second in 0..100 {
            count.add(at(second), 1);
        }
        let totals = [99, 120, 149, 155].map(|second| count.total(at(second)));
        assert_eq!(totals, [60, 35, 10, 0]);
        count.add(at(900), 1);
        assert_eq!(count.total(at(900)), 1);
    }

    #[test]
    fn a_rate_is_of_the_three_slots_before_the_current_one() {
        let mut count = Recent::default();
        for second in 0..20 {
            count.add(at(second), 1);
        }
        let counts = [4, 5, 14, 15, 20, 25, 34, 35].map(|second| count.last_15s(at(second)));
        assert_eq!(counts, [0, 5, 10, 15, 15, 10, 5, 0]);
    }
}
