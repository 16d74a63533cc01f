//! The result of a message: short for an effect of its own key that succeeded, for workers that need no
//! ledger but a result somebody can wait for.

use crate::command::{Missing, Rejection};
use crate::effect::{EffectResult, EffectRow, EffectState, Outcome, Under};
use crate::limits::PARKED_RETRY_MS;
use crate::message::Message;
use crate::pipeline::found::Found;
use crate::settings::OnDoubt;
use crate::shard::ledger::Effects;
use crate::shard::ledger::begin::hold_of;
use crate::shard::settle::Held;
use crate::shard::{Refusal, Shard};
use crate::time::Timestamp;

impl Shard {
    /// The effect of the message's own key, where it is not one of `effects` and has to be stored.
    pub(in crate::shard) fn own_result(
        &self,
        now: Timestamp,
        held: &Held<'_>,
        message: &Message,
        result: &EffectResult,
        effects: &mut Effects,
        found: &Found<'_>,
    ) -> Result<Option<EffectRow>, Refusal> {
        let outcome = Outcome { result: Some(result.clone()), ..Outcome::default() };
        super::finish::check_outcome(crate::command::FinishStatus::Succeeded, &outcome)?;
        let under = Under { hold: hold_of(held), message: self.id_of(held, message) };
        let name = self.delivery_effect(held, message, None)?;
        let is_own = |row: &&mut EffectRow| row.name == name;
        if let Some(row) = effects.rows.iter_mut().find(is_own) {
            if let Some(ended) = succeeded(now, row.clone(), outcome)? {
                *row = ended;
            }
            return Ok(None);
        }
        let before = self.find_effect(now, &name, found)?;
        let row = match before {
            Some(row) => match super::state_now(now, &row) {
                EffectState::InProgress => {
                    let until = self.held_until(now, &row).unwrap_or(now);
                    let retry_after_ms = until.since(now).max(1);
                    let (fence, owner) = (row.fence, row.owner);
                    return Err(Rejection::InProgress { fence, owner, retry_after_ms }.into());
                }
                EffectState::Parked => {
                    let doubt = row.doubt.ok_or(Rejection::NotFound(Missing::Effect))?;
                    let (doubt, retry_after_ms) = (Box::new(doubt), PARKED_RETRY_MS);
                    return Err(Rejection::Parked { doubt, retry_after_ms }.into());
                }
                EffectState::Succeeded | EffectState::FailedFinal => {
                    return Ok(succeeded(now, row, outcome)?);
                }
                EffectState::InDoubt | EffectState::FailedRetryable => {
                    EffectRow { fence: self.next_fence(Some(&row)), ..row }
                }
            },
            None => EffectRow {
                name,
                state: EffectState::InProgress,
                fence: self.next_fence(None),
                born: now,
                began_at: now,
                updated_at: now,
                expires: Timestamp::MAX,
                ttl_ms: held.topic.settings.effect_ttl_ms,
                request: None,
                nonce: None,
                on_doubt: held.topic.settings.on_doubt.unwrap_or(OnDoubt::Park),
                lease_ms: 0,
                until: now,
                under: None,
                owner: self.owners.name(held.entry.owner),
                window_ms: None,
                key_since: now,
                renewed: 0,
                renew: false,
                outcome: Outcome::default(),
                doubt: None,
                resolution: None,
            },
        };
        // The message is over with this commit: so begins the time of its result.
        let expires = now.after(row.ttl_ms);
        let row = EffectRow { under: Some(under), state: EffectState::InProgress, expires, ..row };
        Ok(succeeded(now, row, outcome)?)
    }
}

/// `None`: it had succeeded so before.
fn succeeded(
    now: Timestamp,
    row: EffectRow,
    outcome: Outcome,
) -> Result<Option<EffectRow>, Rejection> {
    match row.state {
        EffectState::Succeeded if row.outcome == outcome => Ok(None),
        EffectState::Succeeded | EffectState::FailedFinal => Err(Rejection::OutcomeConflict),
        EffectState::InProgress
        | EffectState::InDoubt
        | EffectState::Parked
        | EffectState::FailedRetryable => {
            let state = EffectState::Succeeded;
            Ok(Some(EffectRow { state, outcome, updated_at: now, doubt: None, ..row }))
        }
    }
}
