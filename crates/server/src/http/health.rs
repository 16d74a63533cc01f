//! Health checks, version and metrics.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use driftq_api::health::{Health, Version};
use driftq_api::words::HealthStatus;

use super::api_error::{ApiError, no_route};
use super::app::App;
use super::clock;
use super::input::Input;
use super::request::Nothing;
use crate::metrics::Now;
use crate::node::MembershipHandle;

/// Reports whether the process is alive.
#[utoipa::path(
    get, path = "/v1/healthz", operation_id = "alive", tag = "server",
    responses((status = 200, description = "alive", body = Health)),
)]
pub(crate) async fn alive(_: Input<Nothing>) -> Json<Health> {
    Json(Health { status: HealthStatus::Ok, reasons: Vec::new() })
}

/// Reports whether the server accepts requests.
#[utoipa::path(
    get, path = "/v1/readyz", operation_id = "ready", tag = "server",
    responses((status = 200, description = "ready", body = Health), (status = 503, description = "not ready", body = Health)),
)]
pub(crate) async fn ready(State(app): State<App>, _: Input<Nothing>) -> (StatusCode, Json<Health>) {
    let mut reasons = reasons(&app);
    let (code, status) = if reasons.is_empty() {
        (StatusCode::OK, HealthStatus::Ready)
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, HealthStatus::NotReady)
    };
    reasons.extend(warnings(&app));
    (code, Json(Health { status, reasons }))
}

/// Why clients should use another node.
pub(super) fn reasons(app: &App) -> Vec<String> {
    let mut reasons: Vec<String> = app.node.status().reason().into_iter().collect();
    if let Some(silence) = app.membership.as_ref().and_then(MembershipHandle::silence) {
        reasons.push(format!("database: no answer for {} s", silence.as_secs()));
    }
    if *app.draining.borrow() && reasons.is_empty() {
        reasons.push("draining: the server is shutting down".to_owned());
    }
    reasons
}

/// Problems that an operator should fix, although requests are served.
pub(super) fn warnings(app: &App) -> Vec<String> {
    const BEHIND_MS_MAX: u64 = 60_000;
    let held = app.clock.held().map(|held| format!("clock: {}", clock::summary(held)));
    let behind_ms = app.clock.behind_ms();
    let behind = (behind_ms > BEHIND_MS_MAX).then(|| {
        let behind_s = behind_ms / 1_000;
        format!("clock: {behind_s} s behind the stored time, which keeps advancing; if the clock is wrong, correct it")
    });
    held.into_iter().chain(behind).collect()
}

/// Features that an SDK may check before it uses them.
const FEATURES: &[&str] = &[
    "audit", "batch", "commit", "effects", "history", "labels", "nonce", "pointers", "receive",
    "settle",
];
/// Those of the profile `v1`, which rejects labels and nonces.
const FEATURES_V1: &[&str] =
    &["audit", "batch", "commit", "effects", "history", "pointers", "receive", "settle"];

/// Returns the version, the engine and its durability.
#[utoipa::path(
    get, path = "/v1/version", operation_id = "version", tag = "server",
    responses((status = 200, description = "version and engine", body = Version)),
)]
pub(crate) async fn version(State(app): State<App>, _: Input<Nothing>) -> Json<Version> {
    let about = app.about;
    Json(Version {
        version: env!("CARGO_PKG_VERSION"),
        commit: about.commit,
        wal_enabled: about.engine != "memory",
        engine: about.engine,
        durability: about.durability,
        api: "v1",
        features: if app.is_v1 { FEATURES_V1 } else { FEATURES },
        started_at: about.started_at,
    })
}

/// The description of this API. A test compares the file with the code.
const OPENAPI: &str = include_str!("../../../../docs/reference/openapi.json");

/// Returns the OpenAPI description of this API.
#[utoipa::path(
    get, path = "/v1/openapi.json", operation_id = "openapi", tag = "server",
    responses((status = 200, description = "an OpenAPI document", body = Object)),
)]
pub(crate) async fn openapi(_: Input<Nothing>) -> ([(HeaderName, HeaderValue); 1], &'static str) {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], OPENAPI)
}

/// Counts of a shard that does not answer within this time are on the next page.
const SAMPLE_WAIT: Duration = Duration::from_millis(250);

/// Returns metrics for Prometheus, even while shards do not answer.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "server",
    responses((status = 200, description = "metrics", body = String, content_type = "text/plain; charset=utf-8")),
)]
pub(crate) async fn metrics(State(app): State<App>, _: Input<Nothing>) -> Result<String, ApiError> {
    // v1 has no path outside of `/v1`.
    if app.is_v1 { Err(no_route()) } else { Ok(metrics_page(&app).await) }
}

/// Returns the same metrics below `/v1`.
#[utoipa::path(
    get, path = "/v1/metrics", operation_id = "metrics_v1", tag = "server",
    responses((status = 200, description = "metrics", body = String, content_type = "text/plain; charset=utf-8")),
)]
pub(crate) async fn metrics_v1(State(app): State<App>, _: Input<Nothing>) -> String {
    metrics_page(&app).await
}

/// The page of a listener for metrics alone.
pub(crate) async fn metrics_alone(State(app): State<App>) -> String {
    metrics_page(&app).await
}

async fn metrics_page(app: &App) -> String {
    let is_ready = reasons(app).is_empty();
    let at = app.clock.now();
    let clock_ahead_ms = app.clock.held().map_or(0, |held| held.ahead_ms);
    let clock_behind_ms = app.clock.behind_ms();
    let _late = tokio::time::timeout(SAMPLE_WAIT, app.node.sample()).await;
    let views = if is_ready { app.view_all().await.ok() } else { None };
    let (topics, groups) = app.node.totals(views.as_deref());
    let build = [env!("CARGO_PKG_VERSION"), app.about.commit, app.about.engine];
    let shards = app.node.counted();
    app.metrics.page(&Now {
        at,
        is_ready,
        clock_ahead_ms,
        clock_behind_ms,
        views,
        topics,
        groups,
        build,
        shards,
    })
}
