//! The request id, and what the log has about each request.
//!
//! 1. The request id is in the response, in the text of every internal error, and in every log line
//!    about the request.
//! 2. The access log has one line per request, at level `debug`. Below that level it costs nothing.
//! 3. Lines about one administrative act are written by its handler, with [`log_act`].

use std::cell::{Cell, OnceCell};
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Uri};
use driftq_core::Text;
use driftq_core::command::Act;

use super::route_patterns::RoutePatterns;
use crate::traces::{PendingSpan, RequestSpan, Traces};

/// The header with the request id.
pub(super) const REQUEST_ID: &str = "x-request-id";

tokio::task_local! {
    static CURRENT: RequestContext;
}

/// The request that the current task answers.
struct RequestContext {
    id: String,
    /// Whether the access log or a span reports it.
    is_observed: Cell<bool>,
    /// The topic and group that its body names.
    names: OnceCell<(Option<Text>, Option<Text>)>,
}

/// Runs `answer` as the answer to the request with this id.
pub(super) fn scope<F: Future>(id: String, answer: F) -> impl Future<Output = F::Output> {
    let context = RequestContext { id, is_observed: Cell::new(false), names: OnceCell::new() };
    CURRENT.scope(context, answer)
}

/// The id of the current request.
pub(super) fn current_id() -> String {
    CURRENT.try_with(|request| request.id.clone()).unwrap_or_default()
}

/// Tells the reader of an error where to look.
pub(super) fn see_log() -> String {
    format!("see the server log for request id {}", current_id())
}

/// Returns the request id of the caller if it is valid, else a new one.
pub(super) fn id_of(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let is_good = |id: &&str| {
        (1..=128).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    match given.filter(is_good) {
        Some(id) => id.to_owned(),
        None => new_id(),
    }
}

pub(super) fn new_id() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// Whether the access log or a span reports the current request.
pub(super) fn is_observed() -> bool {
    CURRENT.try_with(|request| request.is_observed.get()).unwrap_or_default()
}

/// Records the topic and group that a body names.
pub(super) fn note_names((topic, group): (Option<&str>, Option<&str>)) {
    // Outside of a request there is no line to write them to.
    let _unused = CURRENT.try_with(|request| {
        let text = |name: Option<&str>| name.map(Text::from);
        request.names.set((text(topic), text(group)))
    });
}

/// A request that the access log or a span reports.
pub(super) struct ObservedRequest {
    method: Method,
    uri: Uri,
    remote: Option<SocketAddr>,
    span: Option<PendingSpan>,
}

impl ObservedRequest {
    /// `None` if nothing reports it.
    pub(super) fn new(request: &Request, traces: &Traces) -> Option<ObservedRequest> {
        let traceparent = request.headers().get("traceparent");
        let span = traces.begin(traceparent.and_then(|parent| parent.to_str().ok()));
        if span.is_none() && !tracing::enabled!(tracing::Level::DEBUG) {
            return None;
        }
        // A request is always answered in its scope.
        let _observed = CURRENT.try_with(|request| request.is_observed.set(true));
        Some(ObservedRequest {
            method: request.method().clone(),
            uri: request.uri().clone(),
            remote: request.extensions().get().map(|ConnectInfo(remote)| *remote),
            span,
        })
    }

    /// Reports that it was answered with `status`, and with `error` if it was rejected.
    pub(super) fn answered(
        self,
        patterns: &RoutePatterns,
        traces: &Traces,
        status: u16,
        error: Option<&str>,
        took: Duration,
    ) {
        let route = patterns.route_of(self.uri.path());
        let (in_path, pattern) = match &route {
            Some(route) => ((route.topic, route.group), Some(route.pattern)),
            None => ((None, None), None),
        };
        let report = |request: &RequestContext| {
            let (topic, group) = request.names.get().cloned().unwrap_or_default();
            let topic = in_path.0.or(topic.as_deref());
            let group = in_path.1.or(group.as_deref());
            tracing::debug!(
                method = %self.method,
                route = pattern.map(display),
                status,
                error = error.map(display),
                duration_ms = took.as_micros() as f64 / 1_000.0,
                request_id = %request.id,
                topic,
                group,
                remote = self.remote.map(display),
                "request"
            );
            if let Some(span) = self.span {
                let (method, request_id) = (self.method.as_str(), &*request.id);
                let route = pattern;
                traces.end(
                    span,
                    &RequestSpan { method, route, topic, group, status, error, request_id },
                );
            }
        };
        let _reported = CURRENT.try_with(report);
    }
}

/// The administrative act that the current request performs, for its audit records. Offline there
/// is no request, and the act has no request id.
pub fn act_of(by: Option<&str>, reason: Option<&str>) -> Act {
    let text = |given: Option<&str>| given.unwrap_or_default().into();
    let (id, request_id) = (new_id().into(), current_id().into());
    Act { id, by: text(by), reason: text(reason), request_id }
}

/// Logs an administrative act: who performs it and why, its fields, its name.
macro_rules! log_act {
    ($act:expr, $name:literal, $($field:tt)+) => {{
        let act: &driftq_core::command::Act = &$act;
        let (by, reason) = (
            $crate::http::request_log::non_empty(&act.by),
            $crate::http::request_log::non_empty(&act.reason),
        );
        tracing::info!($($field)+, by, reason, request_id = %act.request_id, $name);
    }};
}
pub(super) use log_act;

/// A text for a log line, unless it is empty.
pub(super) fn non_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
