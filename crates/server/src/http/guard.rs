//! The middleware around every request: the access rules, the request id, the headers of the
//! answer, the access log.

use std::any::Any;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use driftq_api::error::details::{Internal, MethodNotAllowed};
use driftq_api::words::Outcome;

use super::access::has_other_coding;
use super::api_error::ApiError;
use super::app::App;
use super::request_log::{self, ObservedRequest, REQUEST_ID};
use super::route_patterns::RoutePatterns;
use super::{internal, profile};

/// What the middleware needs of the server.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) app: App,
    pub(crate) patterns: &'static RoutePatterns,
}

/// Handles every request.
pub(crate) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let request_id = request_log::id_of(request.headers());
    let header = HeaderValue::from_str(&request_id);
    // The scope moves its future several times, and this one is large.
    let handled = Box::pin(handle(&guard, request, next));
    let mut response = request_log::scope(request_id, handled).await;
    if let Ok(id) = header {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

async fn handle(guard: &Guard, request: Request, next: Next) -> Response {
    let app = &guard.app;
    let began = std::time::Instant::now();
    let observed = ObservedRequest::new(&request, &app.traces);
    let is_other_coding = has_other_coding(request.headers());
    let is_read = request.method().is_safe();
    let origin = app.access.origins.of(request.headers());
    // On their own paths, nodes prove themselves with the peer secret instead of the API key.
    let answered = if internal::is_from_a_node(app, request.uri(), request.headers()) {
        None
    } else {
        app.access.answer(&request)
    };
    let mut response = match answered {
        Some(answered) => answered,
        None => next.run(request).await,
    };
    if let Some(failure) = router_error(&response) {
        response.extensions_mut().insert(failure);
    }
    if app.is_v1 {
        profile::convert(&mut response);
    }
    let (status, took) = (response.status().as_u16(), began.elapsed());
    app.metrics.answered(status, took);
    let failure = response.extensions_mut().remove::<ApiError>();
    let failure = if is_read { failure.map(ApiError::of_read) } else { failure };
    if let Some(observed) = observed {
        let error = failure.as_ref().map(ApiError::code);
        observed.answered(guard.patterns, &app.traces, status, error.as_deref(), took);
    }
    if let Some(failure) = failure {
        app.refused(&failure);
        failure.write(request_log::current_id(), &mut response);
    }
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if is_other_coding {
        // The end of the body is unknown.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    app.access.origins.mark(origin, headers);
    response
}

/// Converts an error that the router produced itself.
fn router_error(response: &Response) -> Option<ApiError> {
    if response.extensions().get::<ApiError>().is_some() {
        return None;
    }
    match response.status() {
        StatusCode::METHOD_NOT_ALLOWED => Some(ApiError::new(
            MethodNotAllowed {},
            "the method is not allowed for this path; see the Allow header",
        )),
        StatusCode::BAD_REQUEST => Some(ApiError::invalid("", "the path is not UTF-8")),
        _ => None,
    }
}

/// Answers a request whose handler panicked. The server keeps running.
pub(crate) fn panicked(_: Box<dyn Any + Send>) -> Response {
    let details = Internal { outcome: Outcome::Unknown };
    let message = format!("internal error: the handler panicked; {}", request_log::see_log());
    ApiError::new(details, message).into_response()
}
