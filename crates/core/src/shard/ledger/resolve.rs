//! Resolves an effect in doubt: an operator sets its outcome.

use crate::change::{Change, Decision};
use crate::command::{FinishStatus, Missing, Rejection, Reply, Resolve};
use crate::effect::{EffectRow, EffectState, Resolution, ResolvedAs};
use crate::id::cut;
use crate::limits::REASON_BYTES_MAX;
use crate::refusal::Decided;
use crate::shard::context::Context;
use crate::shard::ledger::finish::{check_outcome, kept};

impl Context<'_> {
    pub(crate) fn resolve(&self, resolve: &Resolve) -> Decided {
        for (field, text) in [("by", &resolve.by), ("reason", &resolve.reason)] {
            if text.is_empty() {
                return Err(Rejection::invalid(
                    field,
                    "is required: it is stored with the outcome",
                )
                .into());
            }
        }
        let (status, state) = match resolve.resolve_as {
            ResolvedAs::Succeeded => (FinishStatus::Succeeded, EffectState::Succeeded),
            ResolvedAs::Failed => (FinishStatus::FailedFinal, EffectState::FailedFinal),
            ResolvedAs::Retry => {
                (FinishStatus::FailedRetryable { renew: false }, EffectState::FailedRetryable)
            }
        };
        check_outcome(status, &resolve.outcome)?;
        let outcome = kept(&resolve.outcome);
        let row = self.find_effect(&self.effect_name(&resolve.name)?)?;
        let row = row.ok_or(Rejection::NotFound(Missing::Effect))?;
        if row.fence != resolve.fence {
            let state = super::state_now(self.now, &row);
            let (fence, current) = (resolve.fence, row.fence);
            return Err(Rejection::StaleFence { state, fence, current }.into());
        }
        if row.state != EffectState::InDoubt {
            return Err(Rejection::NotInDoubt(super::state_now(self.now, &row)).into());
        }
        let resolution = Resolution {
            resolved_as: resolve.resolve_as,
            by: cut(&resolve.by, REASON_BYTES_MAX),
            reason: cut(&resolve.reason, REASON_BYTES_MAX),
            at: self.now,
        };
        let resolution = Some(resolution);
        let mut decision = Decision::reply(Reply::Done);
        let row =
            EffectRow { state, outcome, resolution, doubt: None, updated_at: self.now, ..row };
        let row = self.now_known(row, &mut decision.changes);
        self.end_wait_for_outcomes(&mut decision.changes);
        decision.reply = Reply::Effect(Box::new(self.show_effect(row.clone())));
        self.audit_resolve(&row, &mut decision.changes);
        self.put_effect(row, &mut decision.changes);
        Ok(decision)
    }

    /// A message that waits for a retry is due at once if none of its outcomes is unknown any more.
    fn end_wait_for_outcomes(&self, changes: &mut [Change]) {
        for change in changes {
            if let Change::Open { entry, .. } = change
                && !entry.is_leased()
                && entry.unfinished == 0
            {
                entry.at = entry.at.min(self.now);
            }
        }
    }
}
