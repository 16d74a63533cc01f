//! Finishes an effect, or extends its lease.

use crate::change::{Change, Decision, Entry};
use crate::command::{ExtendEffect, Finish, FinishStatus, Missing, Rejection, Reply};
use crate::effect::{DoubtCause, EffectRow, EffectState, Outcome};
use crate::id::cut;
use crate::limits::{REASON_BYTES_MAX, RESULT_BYTES_MAX};
use crate::refusal::{Decided, Refusal};
use crate::shard::context::Context;
use crate::shard::state::open_delivery::open;
use crate::time::Timestamp;
use crate::token::EffectToken;
use crate::validate::check_lease;

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

impl Context<'_> {
    pub(crate) fn finish(&self, finish: &Finish) -> Decided {
        check(finish)?;
        let row = self.granted(&finish.token)?;
        let mut decision = Decision::reply(Reply::Done);
        let (row, repeated) = match conclude(self.now, &row, finish, self.config.restore)? {
            None => (row, true),
            Some(row) => {
                let row = self.now_known(row, &mut decision.changes);
                self.audit_finish(&row, &mut decision.changes);
                self.put_effect(row.clone(), &mut decision.changes);
                (row, false)
            }
        };
        let effect = Box::new(self.show_effect(row));
        decision.reply = Reply::Finished { effect, repeated };
        Ok(decision)
    }

    /// Returns the effect of `token`, if its fence is the latest.
    fn granted(&self, token: &EffectToken) -> Result<EffectRow, Refusal> {
        let row = self.find_record(token.hash)?;
        let row = row.filter(|row| is_of(token, row));
        let row = row.ok_or(Rejection::NotFound(Missing::Effect))?;
        check_fence(self.now, token, &row, self.config.restore)?;
        Ok(row)
    }

    /// If the outcome is known, sets its expiry. Its message then waits for one effect less.
    pub(super) fn now_known(&self, row: EffectRow, changes: &mut Vec<Change>) -> EffectRow {
        if !row.state.is_known() {
            return row;
        }
        if let Some(under) = row.under
            && let Some(held) = self.open_entry(&under.hold)
            && held.entry.unfinished > 0
        {
            let unfinished = held.entry.unfinished - 1;
            changes.push(open(&held, Entry { unfinished, ..*held.entry }));
        }
        EffectRow { expires: self.end_of(&row), ..row }
    }

    /// Extends the lease of an effect. Under a delivery, this is the lease of the delivery.
    pub(crate) fn extend_effect(&self, extend: &ExtendEffect) -> Decided {
        if let Some(lease_ms) = extend.lease_ms {
            check_lease(lease_ms)?;
        }
        let row = self.granted(&extend.token)?;
        if row.state != EffectState::InProgress {
            return Err(stale(self.now, &extend.token, &row).into());
        }
        let held = row.under.map(|under| self.held(&under.hold));
        match held {
            Some(held) => {
                let held = held.ok_or_else(|| stale(self.now, &extend.token, &row))?;
                Ok(self.renew_lease(&held, extend.lease_ms))
            }
            None => {
                let until = self.now.after(extend.lease_ms.unwrap_or(row.lease_ms));
                let row = EffectRow { until, updated_at: self.now, ..row };
                let until = self.lease_end(&row);
                let mut decision = Decision::reply(Reply::Extended { until });
                self.put_effect(row, &mut decision.changes);
                Ok(decision)
            }
        }
    }
}

/// Whether a token was granted for this life of an effect. A record hash alone does not identify
/// the namespace.
pub(crate) fn is_of(token: &EffectToken, row: &EffectRow) -> bool {
    row.born == token.born && row.name.namespace == token.namespace
}

/// Applies a finish to an effect. Returns `None` if the finish is a repeat.
///
/// A late finish is accepted if it carries the latest fence, even if the effect is in doubt or
/// parked, because there is no better evidence.
pub(crate) fn conclude(
    now: Timestamp,
    row: &EffectRow,
    finish: &Finish,
    restore: u32,
) -> Result<Option<EffectRow>, Rejection> {
    let Finish { token, status, .. } = finish;
    check_fence(now, token, row, restore)?;
    let outcome = kept(&finish.outcome);
    let is_same = row.state == status.state()
        && row.outcome == outcome
        && row.renew == status.renews()
        && (row.state.is_known() || is_reported(row));
    match (is_same, row.state.is_known()) {
        (true, _) => return Ok(None),
        (false, true) => return Err(Rejection::OutcomeConflict),
        (false, false) => {}
    }
    let row = EffectRow { outcome, updated_at: now, renew: status.renews(), ..row.clone() };
    Ok(Some(match status {
        FinishStatus::Unknown => super::in_doubt(row, DoubtCause::Reported, now),
        FinishStatus::Succeeded
        | FinishStatus::FailedFinal
        | FinishStatus::FailedRetryable { .. } => {
            EffectRow { state: status.state(), doubt: super::doubt_before(&row), ..row }
        }
    }))
}

fn is_reported(row: &EffectRow) -> bool {
    row.doubt.as_ref().is_some_and(|doubt| doubt.cause == DoubtCause::Reported)
}

/// Rejects a stale fence. A token granted before a restore is stale even if the backup has its
/// fence, because another fence may have been granted after the backup.
fn check_fence(
    now: Timestamp,
    token: &EffectToken,
    row: &EffectRow,
    restore: u32,
) -> Result<(), Rejection> {
    let is_latest = token.restore == restore && row.fence == token.fence;
    if is_latest && row.resolution.is_none() { Ok(()) } else { Err(stale(now, token, row)) }
}

fn stale(now: Timestamp, token: &EffectToken, row: &EffectRow) -> Rejection {
    let state = super::state_now(now, row);
    Rejection::StaleFence { state, fence: token.fence, current: row.fence }
}

/// Checks that the outcome fits the status.
pub(crate) fn check(finish: &Finish) -> Result<(), Rejection> {
    check_outcome(finish.status, &finish.outcome)
}

pub(super) fn check_outcome(status: FinishStatus, outcome: &Outcome) -> Result<(), Rejection> {
    let is_over = matches!(status, FinishStatus::Succeeded | FinishStatus::FailedFinal);
    if outcome.result.is_some() && !is_over {
        return Err(Rejection::invalid("result", "is allowed only with SUCCEEDED or FAILED_FINAL"));
    }
    if !outcome.error.is_empty() && status == FinishStatus::Succeeded {
        return Err(Rejection::invalid("error", "is not allowed with SUCCEEDED"));
    }
    let size = outcome.size();
    if size > RESULT_BYTES_MAX {
        let limit = RESULT_BYTES_MAX as u64;
        return Err(Rejection::TooLarge { field: "result".into(), limit, size: size as u64 });
    }
    Ok(())
}

/// Returns the outcome as it is stored, with the error truncated.
pub(super) fn kept(outcome: &Outcome) -> Outcome {
    Outcome { error: cut(&outcome.error, REASON_BYTES_MAX), ..outcome.clone() }
}
