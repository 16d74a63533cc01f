//! Checks each committed change of an effect.

use crate::history::{OnDoubt, Progress, Record, Status};
use crate::ids::{EffectId, EntryId};
use crate::invariant::Invariant::{
    ExactReplay, OneExecutor, RecordExpiry, RequestMismatch, StaleFinishIsRejected, TenantIsolation,
};

use super::{Judge, Known};

impl<'a> Judge<'_, 'a> {
    /// Checks a change and returns the new state.
    pub(super) fn recorded(
        &mut self,
        effect: EffectId,
        former: Option<Known<'a>>,
        record: &'a Record,
        under: Option<EntryId>,
    ) -> Known<'a> {
        let mut is_after_doubt = false;
        match former {
            Some(former) if former.record.right.life == record.right.life => {
                self.same_life(effect, former, record);
                self.found_by_a_later_message(effect, former, under);
                let (before, fence) = (former.record, record.right.fence);
                if before.right.fence == fence {
                    is_after_doubt = former.is_after_doubt;
                    self.goes_on(effect, former, record, under);
                } else {
                    is_after_doubt = !matches!(before.progress, Progress::Known(_));
                    self.granted_again(effect, former, record);
                }
            }
            Some(former) => {
                self.begins_anew(effect, former, record, under);
                self.is_born(effect, record);
            }
            None => self.is_born(effect, record),
        }
        if let (Some(entry), Some(lease)) = (under, &record.under) {
            let holders = self.holders.entry((effect, record.right.life)).or_default();
            if holders.iter().all(|(other, _)| *other != entry) {
                holders.push((entry, lease));
            }
        }
        self.kept(effect, former, record);
        let since = match former {
            Some(former) if former.is_as_far_as(record) => former.since,
            _ => self.now,
        };
        Known { record, under, is_after_doubt, since }
    }

    fn is_born(&mut self, effect: EffectId, record: &Record) {
        if record.progress != Progress::InProgress {
            let detail =
                format_args!("starts with progress {:?} instead of InProgress", record.progress);
            self.breaks(OneExecutor, effect, detail);
        }
        let request = record.request.as_deref();
        if self.begins.contains(&(effect, request)) {
            return;
        }
        let (tenant, scope, key) = self.timeline.places.effects.key(effect);
        let is_namesake = |other: EffectId| {
            let (of, in_scope, name) = self.timeline.places.effects.key(other);
            (in_scope, name) == (scope, key) && of != tenant
        };
        if self.begins.iter().any(|(other, _)| is_namesake(*other)) {
            self.breaks(
                TenantIsolation,
                effect,
                format_args!("was recorded, but only another tenant began an effect with this key"),
            );
        } else {
            self.breaks(
                OneExecutor,
                effect,
                format_args!("was begun with request {request:?}, which no client sent"),
            );
        }
    }

    /// Checks that a key that was accepted as new has no outcome yet.
    fn found_by_a_later_message(
        &mut self,
        effect: EffectId,
        former: Known<'_>,
        under: Option<EntryId>,
    ) {
        let Some(entry) = under else { return };
        let Some(accepted) = self.accepted_under(effect, entry) else { return };
        if former.under != under && self.is_of_earlier_life(effect, former, accepted) {
            let (since, text) = (former.since, self.timeline.places.entry_text(entry));
            let detail = format_args!(
                "had its outcome at {since}, but was reused by {text}, whose key was accepted as new at {accepted}"
            );
            self.breaks(RecordExpiry, effect, detail);
        }
    }

    /// When the key of an effect was accepted as new, if it is the key of its message.
    fn accepted_under(&self, effect: EffectId, entry: EntryId) -> Option<u64> {
        let (_, _, key) = self.timeline.places.effects.key(effect);
        self.accepted.at(self.timeline, entry, key)
    }

    fn begins_anew(
        &mut self,
        effect: EffectId,
        former: Known<'_>,
        record: &Record,
        under: Option<EntryId>,
    ) {
        let now = self.now;
        let accepted = under.and_then(|entry| self.accepted_under(effect, entry));
        let is_accepted_since =
            accepted.is_some_and(|accepted| self.is_of_earlier_life(effect, former, accepted));
        if !former.is_over(now) && !is_accepted_since {
            let (progress, until) = (former.record.progress, former.record.kept_until);
            let detail = format_args!(
                "started a new life at {now}, but it was {progress:?} and is kept until {until:?}"
            );
            self.breaks(RecordExpiry, effect, detail);
        }
        if record.right.life < former.record.right.life {
            self.breaks(OneExecutor, effect, format_args!("returned to an earlier life"));
        }
    }

    fn same_life(&mut self, effect: EffectId, former: Known<'_>, record: &Record) {
        let (before, now) = (former.record, self.now);
        if former.is_over(now) {
            let until = before.kept_until;
            let detail = format_args!("changed at {now}, but its record expired at {until:?}");
            self.breaks(RecordExpiry, effect, detail);
        }
        if before.request != record.request {
            let (was, is) = (&before.request, &record.request);
            self.breaks(
                RequestMismatch,
                effect,
                format_args!("has request {is:?}, but it was begun with {was:?}"),
            );
        }
        if before.on_doubt != record.on_doubt {
            let (was, is) = (before.on_doubt, record.on_doubt);
            self.breaks(
                OneExecutor,
                effect,
                format_args!("has policy {is:?}, but it was begun with {was:?}"),
            );
        }
        // The window changes only with the key, and only the holder of a retryable failure requests
        // another key.
        if let (Some(was), Some(is)) = (before.window_until, record.window_until)
            && was != is
            && before.progress != Progress::Known(Status::FailedRetryable)
        {
            let detail =
                format_args!("has its provider's key until {is}, but before it was until {was}");
            self.breaks(OneExecutor, effect, detail);
        }
    }

    /// Whether the holder of the latest right still holds it.
    pub(super) fn is_held(&self, known: Known<'_>) -> bool {
        let attempt = known.record.under.as_ref().map_or(0, |lease| lease.attempt);
        known.record.progress == Progress::InProgress
            && match known.under {
                Some(entry) => self.leases.is_out(entry, attempt),
                None => self.now < known.record.until,
            }
    }

    /// Whether only an operator can resolve its doubt.
    pub(super) fn is_parked(&self, record: &Record) -> bool {
        match record.on_doubt {
            OnDoubt::Park => true,
            OnDoubt::Retry => record.window_until.is_some_and(|until| until <= self.now),
            OnDoubt::Probe => false,
        }
    }

    fn granted_again(&mut self, effect: EffectId, former: Known<'_>, record: &Record) {
        let before = former.record;
        let (was, fence) = (before.right.fence, record.right.fence);
        if fence < was {
            self.breaks(
                OneExecutor,
                effect,
                format_args!("went from fence {was} back to fence {fence}"),
            );
        } else if record.progress != Progress::InProgress {
            let progress = record.progress;
            self.breaks(
                OneExecutor,
                effect,
                format_args!("has a new fence {fence}, but its progress is {progress:?}"),
            );
        } else if let Some(status) = former.replayed() {
            let detail = format_args!(
                "was granted as fence {fence}, although fence {was} ended as {status:?}"
            );
            self.breaks(ExactReplay, effect, detail);
        } else if self.is_held(former) {
            let detail =
                format_args!("was granted as fence {fence}, although fence {was} is still held");
            self.breaks(OneExecutor, effect, detail);
        } else if !matches!(before.progress, Progress::Known(_)) && self.is_parked(before) {
            let policy = before.on_doubt;
            let detail = format_args!(
                "was granted as fence {fence}, although fence {was} is in doubt under policy {policy:?}"
            );
            self.breaks(OneExecutor, effect, detail);
        }
    }

    /// Checks a change under the same right.
    fn goes_on(
        &mut self,
        effect: EffectId,
        former: Known<'_>,
        record: &'a Record,
        under: Option<EntryId>,
    ) {
        let before = former.record;
        let fence = record.right.fence;
        match (before.progress, record.progress) {
            (Progress::InProgress, Progress::InProgress) => {
                let holder = (&before.nonce, former.under, &before.under);
                if holder != (&record.nonce, under, &record.under) {
                    self.breaks(
                        OneExecutor,
                        effect,
                        format_args!("has fence {fence} with a different holder"),
                    );
                }
            }
            (Progress::InProgress, Progress::InDoubt) => self.doubts(effect, former, record),
            (Progress::InProgress | Progress::InDoubt, Progress::Known(status)) => {
                self.becomes_known(effect, former, record, status);
            }
            (Progress::InDoubt, Progress::InDoubt) => {}
            (Progress::InDoubt, Progress::InProgress) => {
                self.breaks(
                    OneExecutor,
                    effect,
                    format_args!("is in progress again under fence {fence} after doubt"),
                );
            }
            (Progress::Known(_), Progress::Known(_))
                if before.outcome == record.outcome && before.progress == record.progress => {}
            (
                Progress::Known(was),
                Progress::Known(_) | Progress::InProgress | Progress::InDoubt,
            ) => {
                let is = record.progress;
                let detail = format_args!(
                    "had outcome {was:?} {:?}, but now is {is:?} {:?}",
                    before.outcome, record.outcome
                );
                self.breaks(ExactReplay, effect, detail);
            }
        }
    }

    fn doubts(&mut self, effect: EffectId, former: Known<'_>, record: &'a Record) {
        let right = &record.right;
        let reported = (effect, right.life, right.fence, Status::Unknown, record.outcome.as_ref());
        if self.finishes.contains(&reported) || !self.is_held(former) {
            return;
        }
        match (former.under, &former.record.under) {
            // The delivery may end later in this batch.
            (Some(entry), Some(lease)) => self.doubted.push((effect, entry, lease.attempt)),
            (_, _) => self.breaks(
                OneExecutor,
                effect,
                format_args!("is in doubt although its right is held"),
            ),
        }
    }

    fn becomes_known(
        &mut self,
        effect: EffectId,
        former: Known<'_>,
        record: &'a Record,
        status: Status,
    ) {
        let (right, outcome) = (&record.right, record.outcome.as_ref());
        let fence = right.fence;
        let is_said = if record.resolved {
            self.resolves.contains(&(effect, fence, status, outcome))
        } else {
            self.finishes.contains(&(effect, right.life, fence, status, outcome))
        };
        if !is_said {
            let detail = format_args!(
                "ended under fence {fence} as {status:?} {outcome:?}, which no client reported"
            );
            self.breaks(StaleFinishIsRejected, effect, detail);
        }
        if record.resolved && self.is_held(former) {
            self.breaks(
                OneExecutor,
                effect,
                format_args!("was resolved although fence {fence} is held"),
            );
        }
    }

    /// Checks how long the record is kept.
    fn kept(&mut self, effect: EffectId, former: Option<Known<'_>>, record: &Record) {
        let Some(until) = record.kept_until else { return };
        let before = former.filter(|former| former.record.right.life == record.right.life);
        if before.is_some_and(|before| before.record.kept_until == Some(until)) {
            return;
        }
        let (now, ttl_ms) = (self.now, record.ttl_ms);
        if !matches!(record.progress, Progress::Known(_)) {
            self.breaks(
                RecordExpiry,
                effect,
                format_args!("expires at {until} without a known outcome"),
            );
        } else if now.saturating_add(ttl_ms) != until {
            let detail =
                format_args!("is kept from {now} until {until}, but its retention is {ttl_ms} ms");
            self.breaks(RecordExpiry, effect, detail);
        }
        let life = record.right.life;
        let of_life = self.holders.get(&(effect, life)).into_iter().flatten();
        self.let_go.extend(of_life.map(|(entry, _)| (effect, *entry)));
    }

    /// Ends the batch: checks the conditions that depend on the whole batch.
    pub(super) fn close(&mut self) {
        for (effect, entry, attempt) in std::mem::take(&mut self.doubted) {
            if self.leases.is_out(entry, attempt) {
                let text = self.timeline.places.entry_text(entry);
                let detail =
                    format_args!("is in doubt although attempt {attempt} of {text} holds it");
                self.breaks(OneExecutor, effect, detail);
            }
        }
        for (effect, entry) in std::mem::take(&mut self.let_go) {
            if self.leases.is_open(entry) {
                let text = self.timeline.places.entry_text(entry);
                let detail = format_args!("has an expiry while {text} is open");
                self.breaks(RecordExpiry, effect, detail);
            }
        }
    }
}
