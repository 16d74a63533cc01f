//! Summaries of effects for people: the state, its reason, and what happens next.

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
                OnDoubt::Probe | OnDoubt::Park => "must ask the provider first",
            };
            format!("{}; the next begin {next}", unknown_outcome(now, row))
        }
        EffectState::Parked => {
            let why = match row.on_doubt {
                OnDoubt::Retry => "the provider may have forgotten its downstream key; ",
                OnDoubt::Probe | OnDoubt::Park => "",
            };
            format!("{}; {why}resolve it with: driftq effect resolve", unknown_outcome(now, row))
        }
        EffectState::Succeeded => format!("it succeeded{}; {}", resolved_by(row), kept(now, row)),
        EffectState::FailedFinal => {
            format!("it failed permanently{}{}; {}", error(row), resolved_by(row), kept(now, row))
        }
        EffectState::FailedRetryable => {
            format!("it did not happen{}{}; it can be retried", error(row), resolved_by(row))
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
        0 => format!("{holder} holds the effect, and its lease has expired"),
        left => format!("{holder} holds the effect for {} more, then it is in doubt", span(left)),
    }
}

fn unknown_outcome(now: Timestamp, row: &EffectRow) -> String {
    let Some(Doubt { fence, owner, since, cause, .. }) = &row.doubt else {
        return "the outcome is unknown".into();
    };
    let (holder, ago) = (holder(*fence, owner), span(now.since(*since)));
    let why = match cause {
        DoubtCause::LeaseExpired => format!("its lease expired {ago} ago"),
        DoubtCause::Reported => format!("it was reported as unknown {ago} ago{}", error(row)),
        DoubtCause::Abandoned => format!("its delivery ended {ago} ago"),
    };
    format!("the outcome of {holder} is unknown: {why}")
}

fn error(row: &EffectRow) -> String {
    if row.outcome.error.is_empty() { String::new() } else { format!(" ({})", row.outcome.error) }
}

fn resolved_by(row: &EffectRow) -> String {
    let Some(resolution) = &row.resolution else { return String::new() };
    format!(", resolved by {} ({})", resolution.by, resolution.reason)
}

fn kept(now: Timestamp, row: &EffectRow) -> String {
    if row.expires == Timestamp::MAX {
        "it is replayed while its message is open, and then for its ttl_ms".into()
    } else {
        format!("it is replayed for {} more", span(row.expires.since(now)))
    }
}
