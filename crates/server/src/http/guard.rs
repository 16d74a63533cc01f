//! The middleware around every request: the access rules, the request id, the headers of the
//! answer.

use std::any::Any;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use driftq_api::error::details::{Internal, MethodNotAllowed};
use driftq_api::words::Outcome;

use super::access::has_other_coding;
use super::api_error::ApiError;
use super::app::App;
use super::internal;

const REQUEST_ID: &str = "x-request-id";

/// Handles every request.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = std::time::Instant::now();
    let request_id = request_id(request.headers());
    let is_other_coding = has_other_coding(request.headers());
    let origin = app.access.origins.of(request.headers());
    // On their own paths, nodes prove themselves with the peer secret instead of the API key.
    let answered = if internal::is_from_a_node(&app, request.uri(), request.headers()) {
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
    app.metrics.answered(response.status().as_u16(), began.elapsed());
    if let Some(failure) = response.extensions_mut().remove::<ApiError>() {
        app.refused(&failure);
        failure.write(&request_id, &mut response);
    }
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        headers.insert(REQUEST_ID, id);
    }
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

/// Returns the request id of the caller if it is valid, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let is_good = |id: &&str| {
        (1..=128).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    match given.filter(is_good) {
        Some(id) => id.to_owned(),
        None => new_request_id(),
    }
}

pub(crate) fn new_request_id() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// Answers a request whose handler panicked. The server keeps running.
pub(crate) fn panicked(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("request handler panicked");
    let details = Internal { outcome: Outcome::Unknown };
    ApiError::new(details, "internal error; see the server log").into_response()
}
