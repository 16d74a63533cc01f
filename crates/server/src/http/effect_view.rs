//! Effects in the form of the wire.

use driftq_api::effect::{Began, Effect, EffectMessage, Finished, Resolution as WireResolution};
use driftq_api::words::{self, DoubtAction, EffectStatus};
use driftq_core::Timestamp;
use driftq_core::command::{self, BeginDecision, EffectQuery, EffectView, Produced};
use driftq_core::effect::{EffectResult, EffectState, Outcome, Resolution};
use serde_json::value::RawValue;

use super::api_error::{ApiError, internal_error};
use super::convert::{doubt, time};
use super::words::ToWire;
use crate::node::Minter;

/// The v1 name of a state.
fn status(state: EffectState) -> EffectStatus {
    match state {
        EffectState::InProgress | EffectState::InDoubt | EffectState::Parked => {
            EffectStatus::Pending
        }
        EffectState::Succeeded => EffectStatus::Committed,
        EffectState::FailedFinal | EffectState::FailedRetryable => EffectStatus::Failed,
    }
}

/// Returns the result as JSON, exactly as it was written, or as base64.
fn result(outcome: &Outcome) -> (Option<Box<RawValue>>, Option<String>) {
    match &outcome.result {
        None => (None, None),
        Some(EffectResult::Json(text)) => (RawValue::from_string(text.to_string()).ok(), None),
        Some(EffectResult::Base64(digits)) => (None, Some(digits.to_string())),
    }
}

/// When the outcome expires, if that is decided.
fn kept_until(expires: Timestamp) -> Option<driftq_api::Time> {
    (expires != Timestamp::MAX).then(|| time(expires))
}

pub(crate) fn began(began: command::Began, minter: Minter<'_>) -> Began {
    let command::Began { decision, effect, token } = began;
    let EffectView { row, state, held_until, downstream_key } = effect;
    let (decision, action) = match decision {
        BeginDecision::Execute => (words::BeginDecision::Execute, None),
        BeginDecision::Probe => (words::BeginDecision::InDoubt, Some(DoubtAction::Probe)),
        BeginDecision::Replay => (words::BeginDecision::Replay, None),
        BeginDecision::Retryable => (words::BeginDecision::Retryable, None),
    };
    let is_granted = token.is_some();
    let (result, result_base64) = result(&row.outcome);
    Began {
        decision,
        action,
        scope: row.name.scope.to_string(),
        key: row.name.key.to_string(),
        tenant_id: row.name.tenant.to_string(),
        fence: row.fence,
        token: token.map(|token| minter.mint(&token)),
        expires_at: held_until.map(time),
        downstream_key: is_granted.then(|| downstream_key.to_string()),
        downstream_until: row.downstream_until().filter(|_| is_granted).map(time),
        doubt: row.doubt.as_ref().map(doubt),
        state: (!is_granted).then(|| state.wire()),
        status: (!is_granted).then(|| status(state)),
        code: (!is_granted).then_some(row.outcome.code),
        result,
        result_base64,
        error: Some(row.outcome.error.to_string()).filter(|error| !error.is_empty()),
        finished_at: (!is_granted).then(|| time(row.updated_at)),
        replay_until: kept_until(row.expires),
    }
}

pub(crate) fn finished(effect: &EffectView, repeated: bool) -> Finished {
    let EffectView { row, state, .. } = effect;
    Finished { state: state.wire(), status: status(*state), fence: row.fence, repeated }
}

/// Converts an effect. Lists leave out results.
pub(crate) fn effect(view: &EffectView, with_result: bool) -> Effect {
    let EffectView { row, state, held_until, downstream_key } = view;
    let (result, result_base64) = if with_result { result(&row.outcome) } else { (None, None) };
    let topic = row.name.scope.split('/').nth(1).unwrap_or_default();
    Effect {
        tenant_id: row.name.tenant.to_string(),
        scope: row.name.scope.to_string(),
        key: row.name.key.to_string(),
        state: state.wire(),
        status: status(*state),
        fence: Some(row.fence),
        owner: row.owner.to_string(),
        code: state.is_known().then_some(row.outcome.code),
        result,
        result_base64,
        error: row.outcome.error.to_string(),
        on_doubt: Some(row.on_doubt.wire()),
        downstream_key: Some(downstream_key.to_string()),
        downstream_until: row.downstream_until().map(time),
        began_at: Some(time(row.began_at)),
        updated_at: Some(time(row.updated_at)),
        expires_at: held_until.map(time),
        replay_until: kept_until(row.expires),
        message: row.under.map(|under| EffectMessage {
            id: under.message.to_string(),
            topic: topic.to_owned(),
            partition: under.message.lane.partition(),
            offset: under.message.offset,
            attempt: Some(under.hold.attempt),
        }),
        doubt: row.doubt.as_ref().map(doubt),
        resolution: row.resolution.as_ref().map(resolution),
    }
}

fn resolution(resolution: &Resolution) -> WireResolution {
    WireResolution {
        resolved_as: resolution.resolved_as.wire(),
        by: resolution.by.to_string(),
        reason: resolution.reason.to_string(),
        at: time(resolution.at),
    }
}

/// Presents a used idempotency key as a succeeded effect. Its result is the receipt.
pub(crate) fn produced(
    name: &EffectQuery,
    scope: &str,
    produced: &Produced,
) -> Result<Effect, ApiError> {
    let topic = scope.split('/').nth(1).unwrap_or_default();
    let receipt = super::produce::wire_receipt(topic.to_owned(), produced.receipt.clone());
    let receipt = serde_json::value::to_raw_value(&receipt)
        .map_err(|_| internal_error("cannot serialize a receipt as JSON"))?;
    Ok(Effect {
        tenant_id: name.tenant().to_owned(),
        scope: scope.to_owned(),
        key: name.key.to_string(),
        state: EffectState::Succeeded.wire(),
        status: status(EffectState::Succeeded),
        fence: None,
        owner: String::new(),
        code: Some(0),
        result: Some(receipt),
        result_base64: None,
        error: String::new(),
        on_doubt: None,
        downstream_key: None,
        downstream_until: None,
        began_at: None,
        updated_at: None,
        expires_at: None,
        replay_until: Some(time(produced.expires)),
        message: Some(EffectMessage {
            id: produced.receipt.id.to_string(),
            topic: produced.receipt.final_topic.as_deref().unwrap_or(topic).to_owned(),
            partition: produced.receipt.partition,
            offset: produced.receipt.offset,
            attempt: None,
        }),
        doubt: None,
        resolution: None,
    })
}
