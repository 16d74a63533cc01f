//! Counts since the process started, by topic and group, for Prometheus.
//!
//! The number of names is bounded, because every name is a time series in Prometheus:
//!
//! 1. A topic or group with a place of its own keeps it until it is deleted.
//! 2. While there are too many, a free place goes to the largest of those without one.
//! 3. Everything without a place is counted under [`OTHER`], which never decreases.

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
    /// The counts of all others. `None` while everything has a name.
    pub(crate) other: Option<Vec<u64>>,
    counters: usize,
    most: usize,
}

impl Totals {
    pub(super) fn of_topics() -> Totals {
        Totals::new(TOPIC_COUNTERS, NAMES_MAX)
    }

    pub(super) fn of_groups() -> Totals {
        Totals::new(GROUP_COUNTERS, NAMES_MAX)
    }

    fn new(counters: usize, most: usize) -> Totals {
        Totals { named: BTreeMap::new(), other: None, counters, most }
    }

    /// Adds counts.
    pub(super) fn add(&mut self, of: &SeriesOf, counts: &[u64]) {
        let has_room = self.other.is_none() && self.named.len() < self.most;
        let totals = match self.named.get_mut(of) {
            Some(totals) => totals,
            None if has_room => {
                self.named.entry(of.clone()).or_insert_with(|| vec![0; self.counters])
            }
            None => self.other.get_or_insert_with(|| vec![0; self.counters]),
        };
        for (total, count) in totals.iter_mut().zip(counts) {
            *total += count;
        }
    }

    pub(super) fn remove(&mut self, of: &SeriesOf) {
        self.named.remove(of);
    }

    /// Frees the places of those that do not exist any more, and gives free places to the largest
    /// of the others. `existing` is sorted by size.
    pub(super) fn place(&mut self, existing: &[SeriesOf]) {
        let exist: BTreeSet<&SeriesOf> = existing.iter().collect();
        self.named.retain(|of, _| exist.contains(of));
        for of in existing {
            if self.named.contains_key(of) {
                continue;
            }
            if self.named.len() >= self.most {
                self.other.get_or_insert_with(|| vec![0; self.counters]);
                return;
            }
            self.named.insert(of.clone(), vec![0; self.counters]);
        }
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
        let other = totals.other.iter().map(|counts| format!("{OTHER}={}", counts[0]));
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
        assert_eq!(shown(&totals), "b=1 _other=3");
        totals.place(&[topic("d"), topic("c"), topic("b")]);
        totals.add(&topic("d"), &[5]);
        assert_eq!(shown(&totals), "b=1 d=5 _other=3");
        // A topic that another node deleted.
        totals.place(&[topic("c"), topic("d")]);
        assert_eq!(shown(&totals), "c=0 d=5 _other=3");
    }

    #[test]
    fn all_names_fit_while_there_are_few() {
        let mut totals = Totals::new(1, 2);
        totals.place(&[topic("a")]);
        totals.add(&topic("b"), &[1]);
        assert_eq!(shown(&totals), "a=0 b=1");
    }
}
