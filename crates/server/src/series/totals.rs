//! Counts since the process started, by topic and group, for Prometheus.
//!
//! The number of names is bounded, because every name is a time series in Prometheus:
//!
//! 1. A topic or group with a place of its own keeps it until it is deleted.
//! 2. While there are too many, a free place goes to the largest of those without one.
//! 3. Everything without a place is counted under [`OTHER`], and so are those that were deleted. It
//!    never decreases, and the sum over all names is the total.

use std::collections::{BTreeMap, BTreeSet};

use super::{GROUP_COUNTERS, SeriesOf, TOPIC_COUNTERS};

/// Maximum number of topics, and of groups, with a name of their own.
pub(crate) const NAMES_MAX: usize = 1_000;
/// The name of all others. No topic or group can have it.
pub(crate) const OTHER: &str = "_other";

/// Counts by name.
#[derive(Debug, Clone)]
pub(crate) struct Totals {
    pub(crate) named: BTreeMap<SeriesOf, Vec<u64>>,
    other: Vec<u64>,
    most: usize,
    /// Whether there were too many at some time. Then free places are given by size.
    was_full: bool,
}

impl Totals {
    pub(super) fn of_topics() -> Totals {
        Totals::new(TOPIC_COUNTERS, NAMES_MAX)
    }

    pub(super) fn of_groups() -> Totals {
        Totals::new(GROUP_COUNTERS, NAMES_MAX)
    }

    fn new(counters: usize, most: usize) -> Totals {
        Totals { named: BTreeMap::new(), other: vec![0; counters], most, was_full: false }
    }

    /// Returns the counts of all others, if there are any.
    pub(crate) fn other(&self) -> Option<&[u64]> {
        let has_any = self.was_full || self.other.iter().any(|count| *count > 0);
        has_any.then_some(&*self.other)
    }

    /// Adds counts.
    pub(super) fn add(&mut self, of: &SeriesOf, counts: &[u64]) {
        if !self.named.contains_key(of) && !self.was_full && self.named.len() < self.most {
            self.named.insert(of.clone(), vec![0; self.other.len()]);
        }
        match self.named.get_mut(of) {
            Some(totals) => add_up(totals, counts),
            None => {
                self.was_full = true;
                add_up(&mut self.other, counts);
            }
        }
    }

    pub(super) fn remove(&mut self, of: &SeriesOf) {
        if let Some(counts) = self.named.remove(of) {
            add_up(&mut self.other, &counts);
        }
    }

    /// Frees the places of those that do not exist any more, and gives free places to the largest
    /// of the others. `existing` is sorted by size.
    pub(super) fn place(&mut self, existing: &[SeriesOf]) {
        let exist: BTreeSet<&SeriesOf> = existing.iter().collect();
        let gone: Vec<_> = self.named.keys().filter(|of| !exist.contains(of)).cloned().collect();
        gone.iter().for_each(|of| self.remove(of));
        for of in existing {
            if self.named.contains_key(of) {
                continue;
            }
            if self.named.len() >= self.most {
                self.was_full = true;
                return;
            }
            self.named.insert(of.clone(), vec![0; self.other.len()]);
        }
    }
}

fn add_up(totals: &mut [u64], counts: &[u64]) {
    for (total, count) in totals.iter_mut().zip(counts) {
        *total += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> SeriesOf {
        SeriesOf::Topic(name.into())
    }

    fn shown(totals: &Totals) -> String {
        let named = totals.named.iter().map(|(of, counts)| match of {
            SeriesOf::Topic(name) => format!("{name}={}", counts[0]),
            SeriesOf::Shard(_) | SeriesOf::Group { .. } => panic!("all are topics"),
        });
        let other = totals.other().map(|counts| format!("{OTHER}={}", counts[0]));
        named.chain(other).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_name_is_kept_and_others_are_counted_together() {
        let mut totals = Totals::new(1, 2);
        for name in ["a", "b", "c", "a", "c"] {
            totals.add(&topic(name), &[1]);
        }
        assert_eq!(shown(&totals), "a=2 b=1 _other=2");
        // However large another one is, it gets no place while none is free.
        totals.place(&[topic("c"), topic("d"), topic("a"), topic("b")]);
        assert_eq!(shown(&totals), "a=2 b=1 _other=2");
    }

    #[test]
    fn a_free_place_goes_to_the_largest_and_other_never_decreases() {
        let mut totals = Totals::new(1, 2);
        for name in ["a", "b", "c", "d"] {
            totals.add(&topic(name), &[1]);
        }
        totals.remove(&topic("a"));
        // The next one that counts does not take the place.
        totals.add(&topic("c"), &[1]);
        assert_eq!(shown(&totals), "b=1 _other=4");
        totals.place(&[topic("d"), topic("c"), topic("b")]);
        totals.add(&topic("d"), &[5]);
        assert_eq!(shown(&totals), "b=1 d=5 _other=4");
        // A topic that another node deleted.
        totals.place(&[topic("c"), topic("d")]);
        assert_eq!(shown(&totals), "c=0 d=5 _other=5");
    }

    #[test]
    fn all_names_fit_while_there_are_few() {
        let mut totals = Totals::new(1, 2);
        totals.place(&[topic("a")]);
        totals.add(&topic("b"), &[1]);
        assert_eq!(shown(&totals), "a=0 b=1");
    }
}
