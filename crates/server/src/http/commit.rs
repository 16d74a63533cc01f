//! One atomic commit: the end of a delivery, the outcomes of its effects, the next steps.

use axum::Json;
use axum::extract::State;
use driftq_api::commit::{Commit as CommitRequest, Committed, Produced, Queued};
use driftq_api::number::DelayMs;
use driftq_api::words::{CommitSettle, CommittedStatus, QueuedStatus};
use driftq_core::command::{self, Commit, CommitReceipt, Ending, Part};

use super::api_error::{ApiError, Invalid, Item};
use super::app::App;
use super::effect_result::outcome;
use super::effects::finish_of;
use super::input::Input;
use super::operation::{Conflicting, Missing, Uncommitted};
use super::produce;
use super::request::{ApiRequest, Param};

impl ApiRequest for CommitRequest {
    const QUERY: &'static [Param] = &[];
}

/// Settles a delivery, finishes its effects and produces what follows, all or nothing.
#[utoipa::path(
    post, path = "/v1/commit", operation_id = "commit", tag = "effects",
    request_body = CommitRequest,
    responses(
        (status = 200, description = "all of it is done", body = Committed),
        Missing, Uncommitted, Conflicting,
    ),
)]
pub(crate) async fn commit(
    State(app): State<App>,
    input: Input<CommitRequest>,
) -> Result<Json<Committed>, ApiError> {
    let commit = commit_of(&app, input.body)?;
    let command::Committed { produced, repeated } = app.call(commit).await?;
    let receipt = |CommitReceipt { topic, receipt }: CommitReceipt| {
        let topic = topic.to_string();
        match receipt {
            Some(receipt) => Produced::Stored(produce::shown(topic, receipt)),
            None => Produced::Queued(Queued {
                status: QueuedStatus::Queued,
                topic,
                deduplicated: false,
            }),
        }
    };
    let produced = produced.into_iter().map(receipt).collect();
    Ok(Json(Committed { status: CommittedStatus::Committed, repeated, produced }))
}

fn commit_of(app: &App, asked: CommitRequest) -> Result<Commit, ApiError> {
    let CommitRequest { token, settle, reason, delay_ms, dead_letter, effects, .. } = asked;
    let (produce, pointers, result) = (asked.produce, asked.pointers, asked.result);
    let has_nack = reason.is_some() || delay_ms.is_some() || dead_letter.is_some();
    let reason = reason.filter(|reason| !reason.is_empty()).map(Into::into);
    let ending = match (settle.unwrap_or(CommitSettle::Ack), dead_letter.unwrap_or(false)) {
        (CommitSettle::Ack, _) if has_nack => {
            return Err(ApiError::invalid("", "reason, delay_ms and dead_letter belong to a nack"));
        }
        (CommitSettle::Ack, _) => Ending::Ack,
        (CommitSettle::Nack, true) if delay_ms.is_some() => {
            return Err(ApiError::invalid("delay_ms", "a nack with dead_letter has no delay"));
        }
        (CommitSettle::Nack, true) => Ending::Final(reason),
        (CommitSettle::Nack, false) => {
            Ending::Nack { reason, delay_ms: delay_ms.map(DelayMs::get) }
        }
    };
    let in_item = |part, index| move |invalid: Invalid| invalid.in_item(Item(part, index));
    let effects = effects.into_iter().enumerate();
    let effects =
        effects.map(|(at, finish)| finish_of(app, finish).map_err(in_item(Part::Effects, at)));
    let messages = produce.into_iter().enumerate();
    let messages = messages
        .map(|(at, message)| produce::message(message, None).map_err(in_item(Part::Produce, at)));
    Ok(Commit {
        token: app.token("token", &token)?,
        ending,
        effects: effects.collect::<Result<_, _>>()?,
        produce: messages.collect::<Result<_, _>>()?,
        pointers: pointers.into_iter().map(super::pointers::set).collect(),
        result: outcome(None, result, None, None)?.result,
    })
}
