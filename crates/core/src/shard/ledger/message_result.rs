//! The result of a message: short for an effect of its own key that succeeded, for workers that need no
//! ledger but a result somebody can wait for.

use crate::change::Change;
use crate::command::Rejection;
use crate::effect::{DeliveryRef, EffectResult, EffectRow, EffectState, Outcome};
use crate::id::Text;
use crate::limits::PARKED_RETRY_MS;
use crate::message::Message;
use crate::refusal::Refusal;
use crate::settings::OnDoubt;
use crate::shard::context::Context;
use crate::shard::ledger::Effects;
use crate::shard::ledger::begin::{accepted_at, hold_of, is_of_earlier_life};
use crate::shard::state::open_delivery::OpenDelivery;
use crate::time::Timestamp;

/// The effect of a message's own key, ended by its commit.
pub(crate) struct MessageResult {
    row: EffectRow,
    /// Its fence was granted for this.
    is_granted: bool,
    /// It is one of those that were begun under the delivery, and stored with them.
    is_begun: bool,
}

impl Context<'_> {
    /// The effect of the message's own key, if this is its end.
    pub(crate) fn message_result(
        &self,
        held: &OpenDelivery<'_>,
        message: &Message,
        result: &EffectResult,
        effects: &mut Effects,
    ) -> Result<Option<MessageResult>, Refusal> {
        let outcome = Outcome { result: Some(result.clone()), ..Outcome::default() };
        super::finish::check_outcome(crate::command::FinishStatus::Succeeded, &outcome)?;
        let under = DeliveryRef { hold: hold_of(held), message: self.id_of(held, message) };
        let name = self.delivery_effect(held, message, None)?;
        let is_own = |row: &&mut EffectRow| row.name == name;
        let owner = self.owners.name(held.entry.owner);
        // It may be at another message of the same key; if nobody has it there, it is this one's again.
        for mut row in effects.others.extract_if(.., |row| row.name == name) {
            if self.held_until(&row).is_some() {
                return Err(self.in_progress_elsewhere(row).into());
            }
            row.under = Some(under);
            effects.rows.push(row);
        }
        if let Some(row) = effects.rows.iter_mut().find(is_own) {
            let again = self.may_succeed(row.clone(), owner)?;
            let Some(ended) = succeeded(self.now, again, outcome)? else { return Ok(None) };
            let is_granted = ended.fence != row.fence;
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
        // The message is over with this commit: so begins the time of its result, if no other is open.
        let expires = if row.holders == 0 { self.now.after(row.ttl_ms) } else { Timestamp::MAX };
        let ended = succeeded(self.now, EffectRow { under: Some(under), expires, ..row }, outcome)?;
        Ok(ended.map(|row| {
            let is_granted = before != Some(row.fence);
            MessageResult { row, is_granted, is_begun: false }
        }))
    }

    /// It is a begin and a finish in one.
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

    /// The effect as whoever says that it succeeded would be granted it: under the next fence, unless it is
    /// held or over, and not at all if a person has to say.
    fn may_succeed(&self, row: EffectRow, owner: Text) -> Result<EffectRow, Rejection> {
        match super::state_now(self.now, &row) {
            EffectState::InProgress | EffectState::Succeeded | EffectState::FailedFinal => Ok(row),
            EffectState::InDoubt | EffectState::FailedRetryable => {
                let fence = self.next_fence(Some(&row));
                Ok(EffectRow { fence, owner, resolution: None, ..row })
            }
            EffectState::Parked => {
                let doubt = Box::new(row.doubt.expect("what is in doubt says why"));
                Err(Rejection::Parked { doubt, retry_after_ms: PARKED_RETRY_MS })
            }
        }
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
            let doubt = super::doubt_before(&row);
            Ok(Some(EffectRow { state, outcome, updated_at: now, doubt, ..row }))
        }
    }
}
