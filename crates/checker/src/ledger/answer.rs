//! Checks replies of the ledger against the records at the time of the decision.

use crate::history::{Begin, Decision, Finish, Lease, OnDoubt, Progress, Right, Status};
use crate::ids::{CallId, EffectId};
use crate::invariant::Invariant::{
    self, AtomicCommit, DurableReplies, ExactReplay, OneExecutor, RecordExpiry, RequestMismatch,
    StaleFinishIsRejected, TenantIsolation,
};
use crate::timeline::{Ask, Outcome};

use super::{Judge, Known, effect_of};

/// The states of an effect in the batch. `None` means that no record exists, or that it has
/// expired.
type States<'a> = Vec<Option<Known<'a>>>;

impl<'a> Judge<'_, 'a> {
    /// Checks the reply to a call that this batch decided, if its caller received one.
    pub(super) fn decided(&mut self, id: CallId) {
        let call = &self.timeline.calls[id];
        if let (Ask::Commit(commit), Outcome::Committed { repeated: false, .. }) =
            (call.ask, call.outcome)
        {
            for (effect, finish) in &self.timeline.commits[commit].finishes {
                let Finish { right, status, outcome } = finish;
                if !is_finished(right, *status, outcome, &self.states(*effect)) {
                    let detail =
                        format_args!("is not {status:?}, although its commit was answered as done");
                    self.breaks(AtomicCommit, *effect, detail);
                }
            }
        }
        let Some(effect) = effect_of(call.ask) else { return };
        if !self.decided.insert(id) {
            self.breaks(DurableReplies, effect, format_args!("had a call decided twice"));
            return;
        }
        let states = self.states(effect);
        match (call.ask, call.outcome) {
            (
                Ask::Begin { begin, .. },
                Outcome::Began { decision, effect: shown, right, outcome },
            ) => {
                if shown != effect {
                    self.shown_another(effect, shown);
                    return;
                }
                self.check_conflict(effect, begin, &states);
                match decision {
                    Decision::Execute | Decision::Probe => {
                        self.check_execute(effect, begin, decision, right, &states);
                    }
                    Decision::Replay(status) => {
                        self.check_replay(effect, status, right, outcome, &states);
                        self.keeps_the_outcome(effect, begin, &states);
                    }
                    Decision::Retryable => {
                        let status = Status::FailedRetryable;
                        self.check_replay(effect, status, right, outcome, &states);
                    }
                }
            }
            (Ask::Begin { begin, .. }, Outcome::Refused { code, .. }) => {
                self.begin_refused(effect, begin, code, &states);
            }
            (Ask::Finish { right, status, outcome, .. }, answer) if answer.is_done() => {
                self.finished(effect, right, status, outcome, &states);
            }
            (Ask::Finish { right, .. }, Outcome::Refused { code, .. }) => {
                self.finish_refused(effect, right, code, &states);
            }
            (Ask::Resolve { fence, status, .. }, answer) if answer.is_done() => {
                let is_so = |known: &Known<'_>| {
                    known.record.resolved
                        && known.record.right.fence == fence
                        && known.record.progress == Progress::Known(status)
                };
                if !states.iter().flatten().any(is_so) {
                    self.breaks(
                        StaleFinishIsRejected,
                        effect,
                        format_args!("was answered as resolved, but it is not"),
                    );
                }
            }
            (_, _) => {}
        }
    }

    /// Returns every state of the effect in this batch. An expired record counts as `None`.
    fn states(&self, effect: EffectId) -> States<'a> {
        let mut states = self.earlier.get(&effect).cloned().unwrap_or_default();
        states.push(self.effects[effect]);
        let now = self.now;
        states.iter().map(|known| known.filter(|known| !known.is_over(now))).collect()
    }

    fn shown_another(&mut self, effect: EffectId, shown: EffectId) {
        let tenant = |effect| self.timeline.places.effects.key(effect).0;
        let invariant = if tenant(effect) == tenant(shown) { ExactReplay } else { TenantIsolation };
        let other = self.timeline.places.effect_text(shown).to_string();
        self.breaks(invariant, effect, format_args!("was begun, but the reply is about {other}"));
    }

    /// Checks that a begin with a different request is answered only with a conflict.
    fn check_conflict(&mut self, effect: EffectId, begin: &Begin, states: &States<'a>) {
        if !states.is_empty() && states.iter().all(|known| is_conflict(begin, *known)) {
            let request = &begin.request;
            let detail = format_args!(
                "was begun with request {request:?} without a conflict, but its recorded request differs"
            );
            self.breaks(RequestMismatch, effect, detail);
        }
    }

    fn check_execute(
        &mut self,
        effect: EffectId,
        begin: &Begin,
        decision: Decision,
        right: &Right,
        states: &States<'a>,
    ) {
        let fence = right.fence;
        let granted = states.iter().flatten().find(|known| {
            known.record.right == *right && known.record.progress == Progress::InProgress
        });
        let Some(granted) = granted else {
            // A right without a record executes an effect that has ended or is unknown.
            let is_over = states.iter().flatten().any(|known| known.replayed().is_some());
            let invariant = if is_over { ExactReplay } else { OneExecutor };
            self.breaks(
                invariant,
                effect,
                format_args!("was answered with fence {fence}, which was not granted"),
            );
            return;
        };
        let record = granted.record;
        if begin.nonce != record.nonce || begin.lease != record.under {
            let detail =
                format_args!("was answered with fence {fence} to a caller that does not hold it");
            self.breaks(OneExecutor, effect, detail);
        }
        let is_to_probe = granted.is_after_doubt && record.on_doubt == OnDoubt::Probe;
        if is_to_probe != (decision == Decision::Probe) {
            let detail = format_args!(
                "was answered with decision {decision:?} under fence {fence}, which does not fit its policy"
            );
            self.breaks(OneExecutor, effect, detail);
        }
    }

    fn check_replay(
        &mut self,
        effect: EffectId,
        status: Status,
        right: &Right,
        outcome: &str,
        states: &States<'a>,
    ) {
        let is_so = |known: &Known<'_>| {
            known.record.right == *right
                && known.record.progress == Progress::Known(status)
                && *known.record.outcome == *outcome
        };
        if states.iter().flatten().any(is_so) {
            return;
        }
        let now = self.now;
        let last = self.effects[effect];
        let is_late =
            last.is_some_and(|known| known.is_over(now) || known.record.right.life > right.life);
        let invariant = if is_late { RecordExpiry } else { ExactReplay };
        let detail = format_args!(
            "was answered with outcome {status:?} {outcome:?} at {now}, which is not recorded"
        );
        self.breaks(invariant, effect, detail);
    }

    /// Checks that the outcome is kept while the message is open: the message may be delivered
    /// again, and its worker then calls begin again.
    fn keeps_the_outcome(&mut self, effect: EffectId, begin: &Begin, states: &States<'a>) {
        let Some(lease) = &begin.lease else { return };
        let is_same = |under: &Lease| *lease == Lease { attempt: lease.attempt, ..under.clone() };
        let is_kept = |known: &Known<'_>| {
            let holders = self.holders.get(&(effect, known.record.right.life));
            holders.into_iter().flatten().any(|(_, under)| is_same(under))
        };
        if !states.iter().flatten().any(is_kept) {
            let detail = format_args!(
                "was replayed to a message, but its outcome is not kept while that message is open"
            );
            self.breaks(RecordExpiry, effect, detail);
        }
    }

    fn begin_refused(&mut self, effect: EffectId, begin: &Begin, code: &str, states: &States<'a>) {
        let is_so = |known: &Option<Known<'a>>| match (code, known) {
            ("CONFLICT", known) => is_conflict(begin, *known),
            ("IN_PROGRESS", Some(known)) => known.record.progress == Progress::InProgress,
            ("IN_DOUBT", Some(known)) => {
                let is_known = matches!(known.record.progress, Progress::Known(_));
                !is_known && self.is_parked(known.record) && !self.is_held(*known)
            }
            ("IN_PROGRESS" | "IN_DOUBT", None) => false,
            ("NOT_FOUND", known) if begin.again => known.is_none(),
            (_, _) => true,
        };
        if states.iter().any(is_so) {
            if matches!(code, "IN_PROGRESS" | "IN_DOUBT") {
                self.check_conflict(effect, begin, states);
            }
            return;
        }
        let invariant = match code {
            "CONFLICT" => RequestMismatch,
            "NOT_FOUND" => RecordExpiry,
            _ => self.broken_by_refusal(effect),
        };
        let now = self.now;
        self.breaks(
            invariant,
            effect,
            format_args!("was rejected with {code} at {now}, which does not match its record"),
        );
    }

    /// Returns the invariant that is broken if a begin is rejected because of a holder or doubt
    /// that does not exist.
    fn broken_by_refusal(&self, effect: EffectId) -> Invariant {
        match self.effects[effect] {
            Some(known) if known.is_over(self.now) => RecordExpiry,
            Some(known) if known.replayed().is_some() => ExactReplay,
            Some(_) | None => OneExecutor,
        }
    }

    fn finished(
        &mut self,
        effect: EffectId,
        right: &Right,
        status: Status,
        outcome: &str,
        states: &States<'a>,
    ) {
        if is_finished(right, status, outcome, states) {
            return;
        }
        let is_latest = |known: &Known<'_>| known.record.right == *right && !known.record.resolved;
        let invariant = if states.iter().flatten().any(is_latest) {
            ExactReplay
        } else {
            StaleFinishIsRejected
        };
        let fence = right.fence;
        let detail = format_args!(
            "was answered as finished with {status:?} by fence {fence}, but that is not recorded"
        );
        self.breaks(invariant, effect, detail);
    }

    fn finish_refused(&mut self, effect: EffectId, right: &Right, code: &str, states: &States<'a>) {
        let is_mine = |known: &Known<'_>| known.record.right == *right && !known.record.resolved;
        let mine = states.iter().flatten().filter(|known| is_mine(known)).count();
        let fence = right.fence;
        let detail = format_args!("rejected a finish with its latest fence {fence}: {code}");
        match code {
            "STALE_FENCE" if mine == states.len() => {
                self.breaks(StaleFinishIsRejected, effect, detail)
            }
            "NOT_FOUND"
                if states.iter().all(|known| {
                    known.is_some_and(|known| known.record.right.life == right.life)
                }) =>
            {
                self.breaks(RecordExpiry, effect, detail);
            }
            _ => {}
        }
    }
}

/// Whether the effect ended with this outcome under this right.
fn is_finished(right: &Right, status: Status, outcome: &str, states: &States<'_>) -> bool {
    let progress = match status {
        Status::Unknown => Progress::InDoubt,
        Status::Succeeded | Status::FailedFinal | Status::FailedRetryable => {
            Progress::Known(status)
        }
    };
    states.iter().flatten().any(|known| {
        known.record.right == *right
            && known.record.progress == progress
            && *known.record.outcome == *outcome
            && !known.record.resolved
    })
}

fn is_conflict(begin: &Begin, known: Option<Known<'_>>) -> bool {
    let is_compared = !begin.again || begin.request.is_some();
    is_compared && known.is_some_and(|known| known.record.request != begin.request)
}
