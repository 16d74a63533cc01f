//! Checks replies that clients received, with or without commits in the history.
//!
//! A right is known to be granted once any client received it. Before that, it may have been
//! granted.

use crate::history::{Begin, Decision, Finish, Right, Status};
use crate::ids::{CallId, Column, EffectId, FastMap};
use crate::invariant::Invariant::{self, ExactReplay, OneExecutor, StaleFinishIsRejected};
use crate::report::Findings;
use crate::timeline::{Ask, Outcome, Seen, Timeline};

/// Checks every reply against the earlier ones.
pub(super) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let mut judge = Judge {
        timeline,
        findings,
        lives: FastMap::default(),
        holders: FastMap::default(),
        over_when_asked: Column::new(),
    };
    for _ in timeline.calls.iter() {
        judge.over_when_asked.push(false);
    }
    for moment in &timeline.moments {
        match moment.seen {
            Seen::Invoked(call) => judge.invoked(call),
            Seen::Answered(call) => judge.answered(call),
            Seen::Delivered { .. }
            | Seen::Committed(_)
            | Seen::Written { .. }
            | Seen::Left { .. } => {}
        }
    }
}

struct Judge<'s, 'a> {
    timeline: &'s Timeline<'a>,
    findings: &'s mut Findings,
    lives: FastMap<(EffectId, u64), Life<'a>>,
    /// The begin that received each right.
    holders: FastMap<(EffectId, u64, u64), &'a Begin>,
    /// Whether a client knew the outcome of the effect before this call was sent.
    over_when_asked: Column<CallId, bool>,
}

/// One life of an effect, as clients know it.
#[derive(Clone, Copy, Default)]
struct Life<'a> {
    /// The latest fence that a client received.
    fence: u64,
    /// Its outcome, once a client received it.
    outcome: Option<(Status, &'a str)>,
}

impl<'a> Judge<'_, 'a> {
    fn life(&mut self, effect: EffectId, right: &Right) -> &mut Life<'a> {
        self.lives.entry((effect, right.life)).or_default()
    }

    fn invoked(&mut self, id: CallId) {
        let call = &self.timeline.calls[id];
        if let Ask::Begin { effect, .. } = call.ask
            && let Outcome::Began { right, .. } = call.outcome
        {
            self.over_when_asked[id] = self.life(effect, right).outcome.is_some();
        }
        if !call.outcome.is_done() {
            return;
        }
        if let Ask::Finish { effect, right, .. } | Ask::ExtendEffect { effect, right } = call.ask {
            self.done_by(call.answered, effect, right);
        } else if let (Ask::Commit(commit), Outcome::Committed { repeated: false, .. }) =
            (call.ask, call.outcome)
        {
            for (effect, finish) in &self.timeline.commits[commit].finishes {
                self.done_by(call.answered, *effect, &finish.right);
            }
        }
    }

    fn done_by(&mut self, seq: u64, effect: EffectId, right: &Right) {
        let (fence, latest) = (right.fence, self.life(effect, right).fence);
        if latest > fence {
            let detail = format_args!(
                "accepted a call with fence {fence}, although fence {latest} was granted before"
            );
            self.breaks(StaleFinishIsRejected, seq, effect, detail);
        }
    }

    fn answered(&mut self, id: CallId) {
        let call = &self.timeline.calls[id];
        let seq = call.answered;
        match (call.ask, call.outcome) {
            (Ask::Begin { effect, begin }, Outcome::Began { decision, right, outcome, .. }) => {
                match decision {
                    Decision::Execute | Decision::Probe => {
                        self.given(id, seq, effect, begin, right);
                    }
                    Decision::Replay(status) => {
                        self.has_ended(seq, effect, right, status, outcome);
                    }
                    Decision::Retryable => {}
                }
                let life = self.life(effect, right);
                life.fence = life.fence.max(right.fence);
            }
            (Ask::Finish { effect, right, status, outcome }, answer)
                if answer.is_done() && status.is_final() =>
            {
                self.has_ended(seq, effect, right, status, outcome);
            }
            (Ask::Commit(commit), answer) if answer.is_done() => {
                for (effect, finish) in &self.timeline.commits[commit].finishes {
                    if finish.status.is_final() {
                        let Finish { right, status, outcome } = finish;
                        self.has_ended(seq, *effect, right, *status, outcome);
                    }
                }
            }
            (_, _) => {}
        }
    }

    fn given(&mut self, id: CallId, seq: u64, effect: EffectId, begin: &'a Begin, right: &Right) {
        let fence = right.fence;
        if self.over_when_asked[id] {
            self.breaks(
                ExactReplay,
                seq,
                effect,
                format_args!("was granted as fence {fence}, although its outcome was known"),
            );
        }
        let holder = *self.holders.entry((effect, right.life, fence)).or_insert(begin);
        let is_repeat =
            begin.nonce.is_some() && holder.nonce == begin.nonce && holder.lease == begin.lease;
        if !std::ptr::eq(holder, begin) && !is_repeat {
            self.breaks(
                OneExecutor,
                seq,
                effect,
                format_args!("was granted as fence {fence} twice"),
            );
        }
    }

    fn has_ended(
        &mut self,
        seq: u64,
        effect: EffectId,
        right: &Right,
        status: Status,
        outcome: &'a str,
    ) {
        let known = *self.life(effect, right).outcome.get_or_insert((status, outcome));
        if known != (status, outcome) {
            let detail =
                format_args!("has outcome {status:?} {outcome:?}, but earlier it had {known:?}");
            self.breaks(ExactReplay, seq, effect, detail);
        }
    }

    fn breaks(
        &mut self,
        invariant: Invariant,
        seq: u64,
        effect: EffectId,
        detail: std::fmt::Arguments<'_>,
    ) {
        let text = self.timeline.places.effect_text(effect);
        self.findings.add(invariant, seq, format_args!("{text} {detail}"));
    }
}
