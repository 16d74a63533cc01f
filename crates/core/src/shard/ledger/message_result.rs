//! The result of a message: shorthand for an effect of its own key that succeeded. It is for
//! workers that do not use the ledger, but whose clients wait for a result.

use crate::change::Change;
use crate::command::Rejection;
use crate::effect::{DeliveryRef, EffectResult, EffectRow, EffectState, Outcome};
use crate::id::Text;
use crate::limits::PARKED_RETRY_MS;
use crate::message::Message;
use crate::refusal::Refusal;
use crate::settings::OnDoubt;
use crate::shard::context::Context;
use crate::shard::ledger::OpenEffects;
use crate::shard::ledger::begin::{accepted_at, hold_of, is_of_earlier_life};
use crate::shard::state::open_delivery::OpenDelivery;
use crate::time::Timestamp;

/// The effect of a message's own key, finished by the commit of the message.
pub(crate) struct MessageResult {
    row: EffectRow,
    /// Whether the commit has granted its fence.
    is_granted: bool,
    /// Whether it was begun under the delivery, and so is stored with the other effects.
    is_begun: bool,
}

impl Context<'_> {
    /// Finishes the effect of the message's own key. Returns `None` if it already has this result.
    pub(crate) fn message_result(
        &self,
        held: &OpenDelivery<'_>,
        message: &Message,
        result: &EffectResult,
        effects: &mut OpenEffects,
    ) -> Result<Option<MessageResult>, Refusal> {
        let outcome = Outcome { result: Some(result.clone()), ..Outcome::default() };
        super::finish::check_outcome(crate::command::FinishStatus::Succeeded, &outcome)?;
        let under = DeliveryRef { hold: hold_of(held), message: self.id_of(held, message) };
        let name = self.delivery_effect(held, message, None)?;
        let is_own = |row: &&mut EffectRow| row.name == name;
        let owner = self.owners.name(held.entry.owner);
        // The effect may have been begun under another message of the same key. If it is not held
        // there, this message takes it over.
        for mut row in effects.others.extract_if(.., |row| row.name == name) {
            if self.held_until(&row).is_some() {
                return Err(self.in_progress_elsewhere(row).into());
            }
            row.under = Some(under);
            effects.rows.push(row);
        }
        if let Some(row) = effects.rows.iter_mut().find(is_own) {
            let again = self.may_succeed(row.clone(), owner)?;
            let Some(mut ended) = succeeded(self.now, again, outcome)? else { return Ok(None) };
            let is_granted = ended.fence != row.fence;
            if is_granted {
                // It may have been begun under an earlier attempt.
                ended.under = Some(under);
            }
            row.clone_from(&ended);
            return Ok(Some(MessageResult { row: ended, is_granted, is_begun: true }));
        }
        let known = self.find_effect(&name)?;
        let before = known.as_ref().map(|row| row.fence);
        let fence = self.next_fence(known.as_ref());
        let accepted_at = accepted_at(&name, message);
        let row = match known.filter(|row| !is_of_earlier_life(row, accepted_at)) {
            Some(row) if self.held_until(&row).is_some() => {
                return Err(self.in_progress_elsewhere(row).into());
            }
            Some(row) => self.may_succeed(row, owner)?,
            None => EffectRow {
                name,
                state: EffectState::InProgress,
                fence,
                born: self.now,
                began_at: self.now,
                updated_at: self.now,
                expires: Timestamp::MAX,
                ttl_ms: held.topic.settings.effect_ttl_ms,
                request: None,
                nonce: None,
                on_doubt: held.topic.settings.on_doubt.unwrap_or(OnDoubt::Park),
                lease_ms: 0,
                until: self.now,
                under: None,
                holders: 0,
                held_by: Vec::new(),
                owner,
                window_ms: None,
                key_since: self.now,
                renewed: 0,
                renew: false,
                outcome: Outcome::default(),
                doubt: None,
                resolution: None,
            },
        };
        // This commit ends the message, so its result starts to expire unless another message is
        // open.
        let expires = if row.holders == 0 { self.now.after(row.ttl_ms) } else { Timestamp::MAX };
        let ended = succeeded(self.now, EffectRow { under: Some(under), expires, ..row }, outcome)?;
        Ok(ended.map(|row| {
            let is_granted = before != Some(row.fence);
            MessageResult { row, is_granted, is_begun: false }
        }))
    }

    /// Stores the result. The audit chain gets a finish, and a begin if a fence was granted.
    pub(crate) fn put_message_result(&self, own: MessageResult, changes: &mut Vec<Change>) {
        let MessageResult { row, is_granted, is_begun } = own;
        if is_granted {
            self.audit_begin(&row, changes);
        }
        self.audit_finish(&row, changes);
        if !is_begun {
            self.put_effect(row, changes);
        }
    }

    /// Returns the effect as a begin would grant it. An effect in doubt or failed retryably gets
    /// the next fence. A parked effect is rejected, because an operator must resolve it.
    fn may_succeed(&self, row: EffectRow, owner: Text) -> Result<EffectRow, Rejection> {
        match super::state_now(self.now, &row) {
            EffectState::InProgress | EffectState::Succeeded | EffectState::FailedFinal => Ok(row),
            EffectState::InDoubt | EffectState::FailedRetryable => {
                let fence = self.next_fence(Some(&row));
                Ok(EffectRow { fence, owner, resolution: None, ..row })
            }
            EffectState::Parked => {
                let doubt = Box::new(row.doubt.expect("an effect in doubt has a cause"));
                Err(Rejection::Parked { doubt, retry_after_ms: PARKED_RETRY_MS })
            }
        }
    }
}

/// Returns `None` if the effect already has this outcome.
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
            let doubt = super::doubt_before(&row);
            Ok(Some(EffectRow { state, outcome, updated_at: now, doubt, ..row }))
        }
    }
}
