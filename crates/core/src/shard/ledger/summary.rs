//! One sentence about an effect, for people: what it is, why, and what happens next.

use crate::command::EffectView;
use crate::effect::{Doubt, DoubtCause, EffectRow, EffectState};
use crate::id::Text;
use crate::settings::OnDoubt;
use crate::time::Timestamp;
use crate::time::span;

pub(crate) fn of_effect(now: Timestamp, view: &EffectView) -> Text {
    let EffectView { row, state, held_until, .. } = view;
    let said = match state {
        EffectState::InProgress => in_progress(now, row, *held_until),
        EffectState::InDoubt => {
            let next = match row.on_doubt {
                OnDoubt::Retry => "executes it again with the same downstream key",
                OnDoubt::Probe | OnDoubt::Park => "is told to ask the provider",
            };
            format!("{}; the next begin {next}", nobody_knows(now, row))
        }
        EffectState::Parked => {
            let why = match row.on_doubt {
                OnDoubt::Retry => "the provider may have forgotten its downstream key, so ",
                OnDoubt::Probe | OnDoubt::Park => "",
            };
            format!("{}; {why}a person has to say", nobody_knows(now, row))
        }
        EffectState::Succeeded => format!("it happened{}; {}", by_whom(row), kept(now, row)),
        EffectState::FailedFinal => {
            format!("it failed for good{}{}; {}", error(row), by_whom(row), kept(now, row))
        }
        EffectState::FailedRetryable => {
            format!("it did not happen{}{} and may run again", error(row), by_whom(row))
        }
    };
    said.into()
}

fn holder(fence: u64, owner: &Text) -> String {
    if owner.is_empty() { format!("fence {fence}") } else { format!("fence {fence} of {owner}") }
}

fn in_progress(now: Timestamp, row: &EffectRow, until: Option<Timestamp>) -> String {
    let holder = holder(row.fence, &row.owner);
    match until.map_or(0, |until| until.since(now)) {
        0 => format!("{holder} is at it, and its time is over"),
        left => format!("{holder} is at it for {} more, then it is in doubt", span(left)),
    }
}

fn nobody_knows(now: Timestamp, row: &EffectRow) -> String {
    let Some(Doubt { fence, owner, since, cause, .. }) = &row.doubt else {
        return "nobody knows whether it happened".into();
    };
    let (holder, ago) = (holder(*fence, owner), span(now.since(*since)));
    let why = match cause {
        DoubtCause::LeaseExpired => format!("its time ran out {ago} ago"),
        DoubtCause::Reported => format!("it said so {ago} ago{}", error(row)),
        DoubtCause::Abandoned => format!("its delivery was given up {ago} ago"),
    };
    format!("nobody knows whether {holder} did it: {why}")
}

fn error(row: &EffectRow) -> String {
    if row.outcome.error.is_empty() { String::new() } else { format!(" ({})", row.outcome.error) }
}

fn by_whom(row: &EffectRow) -> String {
    let Some(resolution) = &row.resolution else { return String::new() };
    format!(", says {} ({})", resolution.by, resolution.reason)
}

fn kept(now: Timestamp, row: &EffectRow) -> String {
    if row.expires == Timestamp::MAX {
        "it is replayed while its message is open, and then for its time".into()
    } else {
        format!("it is replayed for {} more", span(row.expires.since(now)))
    }
}
