//! Values by time slot.

/// What the slots between two samples hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// Nothing happened: counters are 0, gauges keep their value.
    Quiet,
    /// Nothing was counted.
    Unknown,
}

const UNKNOWN: u32 = u32::MAX;

/// The latest slots of several values: counters first, then gauges.
#[derive(Debug)]
pub(super) struct Ring {
    counters: usize,
    names: usize,
    slots: u64,
    gap: Gap,
    first: u64,
    newest: u64,
    values: Vec<u32>,
}

impl Ring {
    /// Creates a ring of `slots` slots that begins at slot `first`.
    pub(super) fn new(counters: usize, gauges: usize, slots: u64, gap: Gap, first: u64) -> Ring {
        let names = counters + gauges;
        let mut values = vec![0; names * slots as usize];
        let at = (first % slots) as usize * names;
        values[at + counters..at + names].fill(UNKNOWN);
        Ring { counters, names, slots, gap, first, newest: first, values }
    }

    fn at(&self, slot: u64) -> usize {
        (slot % self.slots) as usize * self.names
    }

    /// Adds counts and sets gauges in a slot. A slot before the newest one is taken as the newest.
    pub(super) fn add(&mut self, slot: u64, counts: &[u64], gauges: &[Option<u64>]) {
        self.advance(slot);
        let at = self.at(self.newest);
        for (value, count) in self.values[at..].iter_mut().zip(counts) {
            *value = u64::from(*value).saturating_add(*count).min(u64::from(UNKNOWN - 1)) as u32;
        }
        let first = at + self.counters;
        for (value, gauge) in self.values[first..].iter_mut().zip(gauges) {
            *value = gauge.map_or(UNKNOWN, |gauge| gauge.min(u64::from(UNKNOWN - 1)) as u32);
        }
    }

    fn advance(&mut self, slot: u64) {
        let last = self.at(self.newest);
        let gauges = self.values[last + self.counters..last + self.names].to_vec();
        for over in (self.newest + 1).max(slot.saturating_sub(self.slots - 1))..=slot {
            let at = self.at(over);
            let is_counted = over == slot || self.gap == Gap::Quiet;
            let (counts, rest) = self.values[at..at + self.names].split_at_mut(self.counters);
            counts.fill(if is_counted { 0 } else { UNKNOWN });
            rest.copy_from_slice(&gauges);
        }
        self.newest = self.newest.max(slot);
    }

    /// Returns a value of a slot. `None` if it was not counted.
    pub(super) fn get(&self, slot: u64, name: usize) -> Option<u32> {
        if slot < self.first || slot + self.slots <= self.newest {
            return None;
        }
        if slot > self.newest && (name < self.counters || self.gap == Gap::Unknown) {
            return (self.gap == Gap::Quiet).then_some(0);
        }
        let value = self.values[self.at(slot.min(self.newest)) + name];
        (value != UNKNOWN).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ring: &Ring, name: usize, slots: std::ops::Range<u64>) -> Vec<Option<u32>> {
        slots.map(|slot| ring.get(slot, name)).collect()
    }

    #[test]
    fn quiet_slots_count_nothing_and_keep_the_gauges() {
        let mut ring = Ring::new(1, 1, 4, Gap::Quiet, 100);
        ring.add(100, &[2], &[]);
        ring.add(100, &[1], &[Some(7)]);
        ring.add(102, &[5], &[Some(9)]);
        assert_eq!(row(&ring, 0, 99..105), [None, Some(3), Some(0), Some(5), Some(0), Some(0)]);
        assert_eq!(row(&ring, 1, 99..104), [None, Some(7), Some(7), Some(9), Some(9)]);
    }

    #[test]
    fn old_slots_are_overwritten_however_long_the_gap() {
        let mut ring = Ring::new(1, 0, 4, Gap::Quiet, 100);
        ring.add(100, &[2], &[]);
        ring.add(104, &[1], &[]);
        assert_eq!(row(&ring, 0, 100..105), [None, Some(0), Some(0), Some(0), Some(1)]);
        ring.add(1_000_000, &[4], &[]);
        assert_eq!(row(&ring, 0, 999_996..1_000_001), [None, Some(0), Some(0), Some(0), Some(4)]);
    }

    #[test]
    fn unknown_gaps_stay_unknown() {
        let mut ring = Ring::new(1, 0, 4, Gap::Unknown, 100);
        ring.add(100, &[2], &[]);
        ring.add(102, &[3], &[]);
        assert_eq!(row(&ring, 0, 100..104), [Some(2), None, Some(3), None]);
    }

    #[test]
    fn a_value_is_bounded_and_never_looks_unknown() {
        let mut ring = Ring::new(1, 1, 4, Gap::Quiet, 0);
        ring.add(0, &[u64::MAX], &[Some(u64::MAX)]);
        ring.add(0, &[1], &[]);
        assert_eq!((ring.get(0, 0), ring.get(0, 1)), (Some(UNKNOWN - 1), Some(UNKNOWN - 1)));
    }
}
