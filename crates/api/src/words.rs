//! Words of requests and responses. Each is one of a closed list.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident in $case:tt { $($word:ident),* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = $case)]
        #[expect(missing_docs, reason = "the API reference explains each word")]
        pub enum $name { $($word),* }
    )*};
}

words! {
    /// What happens to an effect whose outcome is unknown.
    OnDoubt in "snake_case" { Retry, Probe, Park }
    /// How an execution of an effect ended.
    FinishStatus in "SCREAMING_SNAKE_CASE" { Succeeded, FailedFinal, FailedRetryable, Unknown }
    /// The state of an effect.
    EffectState in "SCREAMING_SNAKE_CASE" {
        InProgress, InDoubt, Parked, Succeeded, FailedFinal, FailedRetryable
    }
    /// Whether the next execution gets another downstream key.
    Keep in "snake_case" { Keep, Renew }
    /// How a person resolves an effect.
    ResolvedAs in "snake_case" { Succeeded, Failed, Retry }
    /// How a commit settles its delivery.
    CommitSettle in "snake_case" { Ack, Nack }
    /// Why a message was dead-lettered.
    DeathReason in "snake_case" { Exhausted, Final, Deadline, Undeliverable }
    /// The state of a dead letter.
    DeadLetterState in "snake_case" { Dead, Redriven }
    /// Which dead letters a list shows.
    DeadLetterStates in "snake_case" { Dead, Redriven, All }
    /// The state of a message in a group.
    PeekState in "snake_case" { Ready, Leased, Waiting, Settled }
}
