//! What happens around every request: the access rules, the request id, the headers of the answer,
//! the access log.

use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use driftq_api::error::details::{Internal, MethodNotAllowed};
use driftq_api::words::Outcome;
use futures_util::FutureExt as _;
use tower::Service;

use super::access::has_other_coding;
use super::api_error::ApiError;
use super::app::App;
use super::request_log::{self, ObservedRequest, REQUEST_ID};
use super::route_patterns::RoutePatterns;
use super::{internal, profile};

/// Checks every request before its route, and completes the answer. It is not a layer of the router:
/// for each layer, axum boxes and copies every request and its answer once more.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) app: App,
    pub(crate) patterns: &'static RoutePatterns,
}

impl Guard {
    /// Handles every request.
    pub(crate) fn answer(self, router: Router, request: Request) -> impl Future<Output = Response> {
        let request_id = request_log::id_of(request.headers());
        let id = HeaderValue::from_str(&request_id).ok();
        // The scope moves its future several times, and this one is large.
        let handled = Box::pin(self.handle(router, request, id));
        request_log::scope(request_id, handled)
    }

    async fn handle(
        self,
        mut router: Router,
        request: Request,
        id: Option<HeaderValue>,
    ) -> Response {
        let app = &self.app;
        let began = std::time::Instant::now();
        let observed = ObservedRequest::new(&request, &app.traces);
        let is_other_coding = has_other_coding(request.headers());
        let (is_read, is_head) = (request.method().is_safe(), request.method() == Method::HEAD);
        let origin = app.access.origins.of(request.headers());
        // On their own paths, nodes prove themselves with the peer secret instead of the API key.
        let answered = if internal::is_from_a_node(app, request.uri(), request.headers()) {
            None
        } else {
            app.access.answer(&request)
        };
        let mut response = match answered {
            Some(answered) => answered,
            None => match AssertUnwindSafe(router.call(request)).catch_unwind().await {
                Ok(Ok(response)) => response,
                Err(_) => panicked(),
            },
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
            observed.answered(self.patterns, &app.traces, status, error.as_deref(), took);
        }
        if let Some(failure) = failure {
            app.refused(&failure);
            failure.write(request_log::current_id(), &mut response);
            if is_head {
                *response.body_mut() = Body::empty();
            }
        }
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if is_other_coding {
            // The end of the body is unknown.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        app.access.origins.mark(origin, headers);
        if let Some(id) = id {
            headers.insert(REQUEST_ID, id);
        }
        response
    }
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
fn panicked() -> Response {
    let details = Internal { outcome: Outcome::Unknown };
    let message = format!("internal error: the handler panicked; {}", request_log::see_log());
    ApiError::new(details, message).into_response()
}
