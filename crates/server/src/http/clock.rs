//! Forward jumps of the clock that are held back, and their confirmation.

use axum::Json;
use axum::extract::State;
use driftq_api::clock::{ConfirmClock, ConfirmedClock, HeldClock};
use driftq_api::error::details::{FailedPrecondition, Unavailable};
use driftq_api::words::Outcome;
use driftq_core::HeldJump;

use super::api_error::{ApiError, RETRY_AFTER_MS};
use super::app::App;
use super::convert;
use super::input::Input;
use super::operation::{QueryForm, Unmet};
use super::request::{ApiRequest, Param, field};
use super::request_log::{act_of, log_act};

/// The text that reports a jump.
pub(super) fn summary(held: HeldJump) -> String {
    let ahead = held.ahead_ms / 1_000;
    format!(
        "{ahead} s ahead and the jump is held back; correct the clock, or run `driftq clock confirm`"
    )
}

/// The held jump in the form that explanations contain.
pub(super) fn held(app: &App) -> Option<HeldClock> {
    app.clock.held().map(|held| HeldClock {
        ahead_ms: held.ahead_ms,
        since: convert::time(held.since),
        summary: format!("the clock is {}", summary(held)),
    })
}

impl ApiRequest for ConfirmClock {
    const QUERY: &'static [Param] = &[field("by"), field("reason")];
}

/// Accepts a forward jump of the clock.
#[utoipa::path(
    post, path = "/v1/clock/confirm", operation_id = "confirm_clock", tag = "server",
    params(QueryForm<ConfirmClock>),
    request_body = ConfirmClock,
    responses((status = 200, description = "the jump is accepted", body = ConfirmedClock), Unmet),
)]
pub(crate) async fn confirm(
    State(app): State<App>,
    input: Input<ConfirmClock>,
) -> Result<Json<ConfirmedClock>, ApiError> {
    let ConfirmClock { by, reason } = input.body;
    let act = act_of(by.as_deref(), reason.as_deref());
    let confirmed = app.clock.confirm(&act).await.map_err(|error| {
        let details = Unavailable { outcome: Outcome::Unknown, retry_after_ms: RETRY_AFTER_MS };
        ApiError::new(details, format!("storing the confirmation failed: {error}"))
    })?;
    let held = confirmed.ok_or_else(|| {
        let message = "nothing to confirm: no forward jump of the clock is held back";
        ApiError::new(FailedPrecondition::default(), message)
    })?;
    log_act!(act, "clock jump confirmed; following the clock", ahead_s = held.ahead_ms / 1_000);
    Ok(Json(ConfirmedClock { ahead_ms: held.ahead_ms, now: convert::time(app.clock.now()) }))
}
