//! Words of the wire and the values of the core that they name.

use driftq_api::words;
use driftq_core::command::{DeadState, PeekState};
use driftq_core::effect::{EffectState, ResolvedAs};
use driftq_core::{DeathReason, OnDoubt};

/// A value that has a word on the wire.
pub(crate) trait ToWire {
    type Wire;

    fn wire(self) -> Self::Wire;
}

/// A word that names a value of the core.
pub(crate) trait ToCore {
    type Core;

    fn core(self) -> Self::Core;
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
    DeadState = DeadLetterStates { Dead, Redriven, All }
    DeathReason = DeathReason { Exhausted, Final, Deadline, Undeliverable }
    EffectState = EffectState { InProgress, InDoubt, Parked, Succeeded, FailedFinal, FailedRetryable }
    OnDoubt = OnDoubt { Retry, Probe, Park }
    PeekState = PeekState { Ready, Leased, Waiting, Settled }
    ResolvedAs = ResolvedAs { Succeeded, Failed, Retry }
}
