//! Converts stored effects to facts.

use driftq_checker::history::{
    Effect, Fact, Lease, Name, OnDoubt as Told, Progress, Record, Right, Status,
};
use driftq_core::effect::{EffectName, EffectRow, EffectState, Outcome};
use driftq_core::{OnDoubt, Timestamp};

use crate::stats::Stats;

use super::Facts;

impl Facts {
    /// When an outcome expires, if that is already known.
    pub(crate) fn kept_until(&self, effect: &Effect) -> Option<u64> {
        self.effects.get(&place_of(effect))?.kept_until
    }

    pub(super) fn effect(&mut self, row: &EffectRow, now: u64, stats: &mut Stats) {
        let effect = effect_of(&row.name);
        let right = Right { effect: effect.clone(), life: row.born.0, fence: row.fence };
        let record = Record {
            right,
            progress: progress(row.state),
            request: row.request.as_ref().map(|hash| hash.trim_start_matches("own:").into()),
            nonce: row.nonce.clone(),
            on_doubt: on_doubt(row.on_doubt),
            window_until: row.downstream_until().map(|until| until.0),
            under: row.under.map(|under| {
                let hold = under.hold;
                let (topic, group) = self.here.group_names[&hold.group].clone();
                let (generation, partition) = (hold.generation.0, hold.lane.partition());
                let (offset, attempt) = (hold.offset, hold.attempt);
                Lease { topic, group, generation, partition, offset, attempt }
            }),
            until: row.until.0,
            outcome: in_words(&row.outcome, row.renew),
            ttl_ms: row.ttl_ms,
            kept_until: (row.expires != Timestamp::MAX).then_some(row.expires.0),
            resolved: row.resolution.is_some(),
        };
        if let Some(former) = self.effects.insert(place_of(&effect), record.clone()) {
            saw_effect(&former, &record, now, stats);
        }
        self.open.push(Fact::Recorded(Box::new(record)));
    }
}

fn place_of(effect: &Effect) -> (Name, Name, Name) {
    (effect.tenant.clone(), effect.scope.clone(), effect.key.clone())
}

fn saw_effect(former: &Record, record: &Record, now: u64, stats: &mut Stats) {
    if former.right.life != record.right.life {
        stats.saw("effect forgotten and begun anew");
        if former.kept_until == Some(now) {
            stats.saw("effect begun anew in its first millisecond");
        }
    } else if former.under != record.under && matches!(record.progress, Progress::Known(_)) {
        stats.saw("outcome taken on by another message");
    } else if former.progress == Progress::InDoubt
        && matches!(record.progress, Progress::Known(_))
        && !record.resolved
    {
        stats.saw("doubt ended by its late holder");
    }
}

fn progress(state: EffectState) -> Progress {
    match state {
        EffectState::InProgress => Progress::InProgress,
        EffectState::InDoubt | EffectState::Parked => Progress::InDoubt,
        EffectState::Succeeded => Progress::Known(Status::Succeeded),
        EffectState::FailedFinal => Progress::Known(Status::FailedFinal),
        EffectState::FailedRetryable => Progress::Known(Status::FailedRetryable),
    }
}

fn on_doubt(policy: OnDoubt) -> Told {
    match policy {
        OnDoubt::Retry => Told::Retry,
        OnDoubt::Probe => Told::Probe,
        OnDoubt::Park => Told::Park,
    }
}

/// The name of an effect in the history.
pub(crate) fn effect_of(name: &EffectName) -> Effect {
    Effect { tenant: name.tenant.clone(), scope: name.scope.clone(), key: name.key.clone() }
}

/// An outcome as text. Two texts are equal if and only if the outcomes are.
pub(crate) fn in_words(result: &Outcome, renews: bool) -> Name {
    let Outcome { code, result, error } = result;
    format!("{code} {result:?} {error:?}{}", if renews { " renewed" } else { "" }).into()
}
