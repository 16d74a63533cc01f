//! Atomic commit: settles a delivery, finishes its effects, and produces the next messages.

use axum::Json;
use axum::extract::State;
use driftq_api::commit::{Commit as CommitRequest, Committed, Produced, Queued};
use driftq_api::number::DelayMs;
use driftq_api::words::{CommitSettle, CommittedStatus, QueuedStatus};
use driftq_core::Trace;
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

/// Settles a delivery, finishes its effects and produces the next messages, all or nothing.
#[utoipa::path(
    post, path = "/v1/commit", operation_id = "commit", tag = "effects",
    params(
        ("traceparent" = Option<String>, Header, description = "W3C trace context; returned in the deliveries of the produced messages"),
        ("tracestate" = Option<String>, Header),
    ),
    request_body = CommitRequest,
    responses(
        (status = 200, description = "committed", body = Committed),
        Missing, Uncommitted, Conflicting,
    ),
)]
pub(crate) async fn commit(
    State(app): State<App>,
    input: Input<CommitRequest>,
) -> Result<Json<Committed>, ApiError> {
    let finishes = !input.body.effects.is_empty();
    let trace = produce::trace(&input.headers);
    let answered = match commit_of(&app, input.body, trace) {
        Ok(mut commit) => {
            if let Some(router) = &app.router {
                router.advise(&mut commit.produce).await;
            }
            app.call(commit).await
        }
        Err(invalid) => Err(invalid),
    };
    let command::Committed { produced, repeated } =
        answered.map_err(|error| if finishes { error.of_finishing_commit() } else { error })?;
    let receipt = |CommitReceipt { topic, receipt }: CommitReceipt| {
        let topic = topic.to_string();
        match receipt {
            Some(receipt) => Produced::Stored(produce::wire_receipt(topic, receipt)),
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

fn commit_of(
    app: &App,
    request: CommitRequest,
    trace: Option<Box<Trace>>,
) -> Result<Commit, ApiError> {
    let CommitRequest { token, settle, reason, delay_ms, dead_letter, effects, .. } = request;
    let (produce, pointers, result) = (request.produce, request.pointers, request.result);
    let has_nack = reason.is_some() || delay_ms.is_some() || dead_letter.is_some();
    let reason = reason.filter(|reason| !reason.is_empty()).map(Into::into);
    let ending = match (settle.unwrap_or(CommitSettle::Ack), dead_letter.unwrap_or(false)) {
        (CommitSettle::Ack, _) if has_nack => {
            return Err(ApiError::invalid(
                "",
                "reason, delay_ms and dead_letter are only allowed with settle: nack",
            ));
        }
        (CommitSettle::Ack, _) => Ending::Ack,
        (CommitSettle::Nack, true) if delay_ms.is_some() => {
            return Err(ApiError::invalid("delay_ms", "is not allowed with dead_letter"));
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
    let messages = messages.map(|(at, message)| {
        produce::message(app, message, trace.clone()).map_err(in_item(Part::Produce, at))
    });
    Ok(Commit {
        token: app.token("token", &token)?,
        ending,
        effects: effects.collect::<Result<_, _>>()?,
        produce: messages.collect::<Result<_, _>>()?,
        pointers: pointers.into_iter().map(super::pointers::set).collect(),
        result: outcome(None, result, None, None)?.result,
    })
}
