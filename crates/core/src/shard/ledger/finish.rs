//! How an effect ended, and more time for one that has not.

use crate::change::{Change, Decision, Entry};
use crate::command::{ExtendEffect, Finish, FinishStatus, Missing, Rejection, Reply};
use crate::effect::{DoubtCause, EffectRow, EffectState, Outcome};
use crate::limits::{REASON_BYTES_MAX, RESULT_BYTES_MAX};
use crate::pipeline::found::Found;
use crate::shard::expiry::cut;
use crate::shard::extend::check_lease;
use crate::shard::settle::open;
use crate::shard::{Decided, Refusal, Shard};
use crate::time::Timestamp;
use crate::token::EffectToken;

impl FinishStatus {
    fn state(self) -> EffectState {
        match self {
            FinishStatus::Succeeded => EffectState::Succeeded,
            FinishStatus::FailedFinal => EffectState::FailedFinal,
            FinishStatus::FailedRetryable { .. } => EffectState::FailedRetryable,
            FinishStatus::Unknown => EffectState::InDoubt,
        }
    }

    fn renews(self) -> bool {
        matches!(self, FinishStatus::FailedRetryable { renew: true })
    }
}

impl Shard {
    /// Late, in doubt or parked, but by the latest fence: it is the best evidence there is.
    pub(in crate::shard) fn finish(
        &self,
        now: Timestamp,
        finish: &Finish,
        found: &Found<'_>,
    ) -> Decided {
        let Finish { token, status, .. } = finish;
        let outcome = checked(*status, &finish.outcome)?;
        let row = self.granted(now, token, found)?;
        let is_same = row.state == status.state()
            && row.outcome == outcome
            && row.renew == status.renews()
            && row.doubt.as_ref().is_none_or(|doubt| doubt.cause == DoubtCause::Reported);
        if is_same || row.state.is_known() {
            return match is_same {
                true => {
                    let effect = Box::new(self.show_effect(now, row));
                    Ok(Decision::reply(Reply::Finished { effect, repeated: true }))
                }
                false => Err(Rejection::OutcomeConflict.into()),
            };
        }
        let mut row = EffectRow { outcome, updated_at: now, renew: status.renews(), ..row };
        let mut changes = Vec::new();
        if *status == FinishStatus::Unknown {
            row = super::in_doubt(row, DoubtCause::Reported, now);
        } else {
            row = self.now_known(now, row, status.state(), &mut changes);
        }
        self.put_effect(now, row.clone(), &mut changes);
        let effect = Box::new(self.show_effect(now, row));
        let reply = Reply::Finished { effect, repeated: false };
        Ok(Decision { changes, ..Decision::reply(reply) })
    }

    /// The effect that `token` is the right to, if it still is.
    fn granted(
        &self,
        now: Timestamp,
        token: &EffectToken,
        found: &Found<'_>,
    ) -> Result<EffectRow, Refusal> {
        let row = self.find_record(now, token.hash, found)?;
        let row = row.filter(|row| row.born == token.born);
        let row = row.ok_or(Rejection::NotFound(Missing::Effect))?;
        match row.fence == token.fence && row.resolution.is_none() {
            true => Ok(row),
            false => Err(stale(now, token, &row).into()),
        }
    }

    /// The outcome is known from now on: one effect less that its message waits for.
    pub(super) fn now_known(
        &self,
        now: Timestamp,
        row: EffectRow,
        state: EffectState,
        changes: &mut Vec<Change>,
    ) -> EffectRow {
        if let Some(under) = row.under
            && let Some(held) = self.open_entry(&under.hold)
            && held.entry.unfinished > 0
        {
            let unfinished = held.entry.unfinished - 1;
            changes.push(open(&held, Entry { unfinished, ..*held.entry }));
        }
        let expires = self.end_of(now, &row);
        // Doubt that has ended is of no use; who ended it is on record.
        EffectRow { state, expires, doubt: None, ..row }
    }

    /// One lease: under a delivery it is the delivery's that goes on.
    pub(in crate::shard) fn extend_effect(
        &self,
        now: Timestamp,
        extend: &ExtendEffect,
        found: &Found<'_>,
    ) -> Decided {
        if let Some(lease_ms) = extend.lease_ms {
            check_lease(lease_ms)?;
        }
        let row = self.granted(now, &extend.token, found)?;
        if row.state != EffectState::InProgress {
            return Err(stale(now, &extend.token, &row).into());
        }
        let held = row.under.map(|under| self.held(&under.hold));
        match held {
            Some(held) => {
                let held = held.ok_or_else(|| stale(now, &extend.token, &row))?;
                Ok(self.renew_lease(now, &held, extend.lease_ms))
            }
            None => {
                let until = now.after(extend.lease_ms.unwrap_or(row.lease_ms));
                let row = EffectRow { until, updated_at: now, ..row };
                let until = self.lease_end(&row);
                let mut decision = Decision::reply(Reply::Extended { until });
                self.put_effect(now, row, &mut decision.changes);
                Ok(decision)
            }
        }
    }
}

fn stale(now: Timestamp, token: &EffectToken, row: &EffectRow) -> Rejection {
    let state = super::state_now(now, row);
    Rejection::StaleFence { state, fence: token.fence, current: row.fence }
}

/// What goes with which status; texts are cut.
pub(super) fn checked(status: FinishStatus, outcome: &Outcome) -> Result<Outcome, Rejection> {
    let is_over = matches!(status, FinishStatus::Succeeded | FinishStatus::FailedFinal);
    if outcome.result.is_some() && !is_over {
        return Err(Rejection::invalid("result", "goes with SUCCEEDED and FAILED_FINAL only"));
    }
    if !outcome.error.is_empty() && status == FinishStatus::Succeeded {
        return Err(Rejection::invalid("error", "does not go with SUCCEEDED"));
    }
    let size = outcome.size();
    if size > RESULT_BYTES_MAX {
        let limit = RESULT_BYTES_MAX as u64;
        return Err(Rejection::TooLarge { field: "result", limit, size: size as u64 });
    }
    Ok(Outcome { error: cut(&outcome.error, REASON_BYTES_MAX), ..outcome.clone() })
}
