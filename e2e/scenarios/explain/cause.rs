//! The causes that an explanation can report, and the words by which they are recognized.

use std::collections::BTreeSet;

/// Why a group or a message is in its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    Delivering,
    Settled,
    NoConsumers,
    StreamsFull,
    /// No worker is connected and some hold leases: they work or are dead.
    BusyOrGone,
    AllDelivered,
    Retry,
    Paused,
    MaxInFlight,
    MaxOpen,
    OpenLimit,
    Loading,
    Damaged,
    DeadLetter,
    PartitionFull,
    EffectUnknown,
}

const WORDS: &[(Cause, &str)] = &[
    (Cause::Delivering, "messages are being delivered"),
    (Cause::Settled, "everything is settled"),
    (Cause::NoConsumers, "no consumer is connected"),
    (Cause::StreamsFull, "every consumer is busy:"),
    (Cause::BusyOrGone, "every consumer is busy or gone"),
    (Cause::AllDelivered, "everything was delivered"),
    (Cause::Retry, " is due in "),
    (Cause::Paused, "paused"),
    (Cause::MaxInFlight, "max_in_flight is reached"),
    (Cause::MaxOpen, "max_open is reached"),
    (Cause::OpenLimit, "share of open messages"),
    (Cause::Loading, "being loaded"),
    (Cause::Damaged, "damaged"),
    (Cause::DeadLetter, "a dead letter for"),
    (Cause::PartitionFull, "full: produce requests"),
    (Cause::EffectUnknown, "the outcome of fence"),
];

/// The truth about a state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Truth {
    /// An explanation must report one of these.
    pub(crate) any_of: &'static [Cause],
    /// It must report all of these.
    pub(crate) all_of: &'static [Cause],
    /// It may report these.
    pub(crate) also: &'static [Cause],
    /// What an operator must look at: a consumer, an effect, an error.
    pub(crate) names: Vec<String>,
}

/// How an explanation differs from the truth.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) false_causes: Vec<Cause>,
    pub(crate) missing: Vec<String>,
}

impl Verdict {
    pub(crate) fn is_right(&self) -> bool {
        self.false_causes.is_empty() && self.missing.is_empty()
    }
}

impl Truth {
    pub(crate) fn judge(&self, text: &str) -> Verdict {
        let found = WORDS.iter().filter(|(_, words)| text.contains(words));
        let found: BTreeSet<Cause> = found.map(|(cause, _)| *cause).collect();
        let is_true = |cause: &Cause| {
            [self.any_of, self.all_of, self.also].iter().any(|causes| causes.contains(cause))
        };
        let false_causes = found.iter().filter(|cause| !is_true(cause)).copied().collect();
        let lacks = self.all_of.iter().filter(|cause| !found.contains(cause));
        let mut missing: Vec<String> = lacks.map(|cause| format!("{cause:?}")).collect();
        if !self.any_of.is_empty() && self.any_of.iter().all(|cause| !found.contains(cause)) {
            missing.push(format!("one of {:?}", self.any_of));
        }
        missing.extend(self.names.iter().filter(|name| !text.contains(*name)).cloned());
        Verdict { false_causes, missing }
    }
}
