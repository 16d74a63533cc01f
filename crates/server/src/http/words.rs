//! Conversions between enums of the wire and enums of the core.

use driftq_api::words;
use driftq_core::attention::AttentionKind;
use driftq_core::command::{
    ContentField, DeadState, EventKind, ExplainState, Missing, Part, PeekState, Stale,
};
use driftq_core::effect::{DoubtCause, EffectState, ResolvedAs};
use driftq_core::view::Blocked;
use driftq_core::{DeathReason, DedupeCompare, OnDoubt, Unkeyed};

/// Returns the wire word of an enum.
pub(crate) fn word(value: impl serde::Serialize) -> String {
    let word = serde_json::to_value(value).ok();
    word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A value of the core that has a word on the wire.
pub(crate) trait ToWire {
    type Wire;

    fn wire(self) -> Self::Wire;
}

/// A word that names a value of the core.
pub(crate) trait ToCore {
    type Core;

    fn core(self) -> Self::Core;
}

impl ToWire for AttentionKind {
    type Wire = words::AttentionKind;

    fn wire(self) -> words::AttentionKind {
        match self {
            AttentionKind::Quarantined => words::AttentionKind::Quarantined,
            AttentionKind::PartitionFull => words::AttentionKind::PartitionFull,
            AttentionKind::NoConsumers => words::AttentionKind::NoConsumers,
            AttentionKind::OpenLimit => words::AttentionKind::OpenLimit,
            AttentionKind::Paused => words::AttentionKind::Paused,
            AttentionKind::Failing => words::AttentionKind::Failing,
            AttentionKind::DeadLetters => words::AttentionKind::DeadLetters,
        }
    }
}

macro_rules! words {
    ($($core:ident = $wire:ident { $($word:ident),* })*) => {$(
        impl ToWire for $core {
            type Wire = words::$wire;

            fn wire(self) -> words::$wire {
                match self { $($core::$word => words::$wire::$word),* }
            }
        }

        impl ToCore for words::$wire {
            type Core = $core;

            fn core(self) -> $core {
                match self { $(words::$wire::$word => $core::$word),* }
            }
        }
    )*};
}

words! {
    Blocked = Blocked {
        Paused, NoConsumers, NoCredit, InFlightLimit, MaxOpen, NothingNew, OpenLimit, Loading, Quarantined
    }
    DeadState = DeadLetterStates { Dead, Redriven, All }
    DeathReason = DeathReason { Exhausted, Final, Deadline, Undeliverable }
    DoubtCause = DoubtCause { LeaseExpired, Reported, Abandoned }
    EffectState = EffectState { InProgress, InDoubt, Parked, Succeeded, FailedFinal, FailedRetryable }
    EventKind = EventKind { Delivered, Extended, Expired, Nacked, Returned, Acked, Dead, Purged }
    ExplainState = ExplainState { Ready, Leased, Waiting, Settled, Dead, Trimmed }
    DedupeCompare = DedupeCompare { Key, Content }
    OnDoubt = OnDoubt { Retry, Probe, Park }
    Part = CommitPart { Effects, Produce, Pointers }
    PeekState = PeekState { Ready, Leased, Waiting, Settled }
    ResolvedAs = ResolvedAs { Succeeded, Failed, Retry }
    Stale = StaleLeaseState { Leased, Waiting, Settled, Dead, Generation, Gone }
    Unkeyed = Unkeyed { First, Spread }
}

impl ToWire for ContentField {
    type Wire = words::ConflictField;

    fn wire(self) -> words::ConflictField {
        match self {
            ContentField::Key => words::ConflictField::Key,
            ContentField::Value => words::ConflictField::Value,
            ContentField::TargetTopic => words::ConflictField::TargetTopic,
            ContentField::PartitionOverride => words::ConflictField::PartitionOverride,
        }
    }
}

impl ToWire for Missing {
    type Wire = words::MissingKind;

    fn wire(self) -> words::MissingKind {
        match self {
            Missing::Topic => words::MissingKind::Topic,
            Missing::Group => words::MissingKind::Group,
            Missing::Message => words::MissingKind::Message,
            Missing::Effect => words::MissingKind::Effect,
            Missing::Pointer => words::MissingKind::Pointer,
        }
    }
}
