//! The test clock of `driftq dev --test-clock`. Without it, the route does not exist.

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use driftq_api::Time;
use driftq_api::number::AdvanceMs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::api_error::ApiError;
use super::app::App;
use super::convert;
use super::input::Input;
use super::request::{ApiRequest, Param, field};

/// `POST /v1/dev/clock`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AdvanceClock {
    advance_ms: AdvanceMs,
}

impl ApiRequest for AdvanceClock {
    const QUERY: &'static [Param] = &[field("advance_ms")];
}

/// The time after the clock was advanced.
#[derive(Serialize)]
struct AdvancedClock {
    now: Time,
}

/// Kept out of the list of routes, so that `openapi.json` does not describe it.
pub(super) fn routes(app: &App) -> Router<App> {
    let routes = Router::new();
    if app.has_test_clock { routes.route("/v1/dev/clock", post(advance)) } else { routes }
}

/// Advances the clock, and lets every shard act on the new time.
async fn advance(
    State(app): State<App>,
    input: Input<AdvanceClock>,
) -> Result<Json<AdvancedClock>, ApiError> {
    app.clock.advance(input.body.advance_ms.get());
    app.node.wake().await;
    Ok(Json(AdvancedClock { now: convert::time(app.clock.now()) }))
}
