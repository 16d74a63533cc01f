//! Who may come in, and what every answer carries.
//!
//! A request passes these checks in this order: how its body is encoded, that it names a host, the page that sent
//! it ([`super::cors`]), the name it calls ([`super::host`]), its key.

use std::any::Any;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use driftq_api::error::details::{Internal, MethodNotAllowed, PermissionDenied, Unauthenticated};
use driftq_api::words::Outcome;

use super::api_error::ApiError;
use super::cors::{self, AllowedOrigins};
use super::host::{self, AllowedHosts};
use super::{App, internal};
use crate::config::Secret;

/// Who may come in.
#[derive(Default)]
pub struct Guard {
    /// The key that every request must carry, if there is one.
    pub api_key: Option<Secret>,
    /// Web pages that may come.
    pub origins: AllowedOrigins,
    /// Names this server may be called by.
    pub hosts: AllowedHosts,
}

const REQUEST_ID: &str = "x-request-id";

/// Around every request.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = std::time::Instant::now();
    let request_id = request_id(request.headers());
    let is_other_coding = has_other_coding(request.headers());
    let origin = app.guard.origins.of(request.headers());
    // Nodes know more than clients do, and are not asked for the clients' key, on their paths.
    let answered = if internal::is_from_a_node(&app, request.uri(), request.headers()) {
        None
    } else {
        app.guard.answer(&request)
    };
    let mut response = match answered {
        Some(answered) => answered,
        None => next.run(request).await,
    };
    if let Some(failure) = unsaid(&response) {
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
        // Where its body ends is not known.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    app.guard.origins.mark(origin, headers);
    response
}

/// What the router refused by itself, in our words.
fn unsaid(response: &Response) -> Option<ApiError> {
    if response.extensions().get::<ApiError>().is_some() {
        return None;
    }
    match response.status() {
        StatusCode::METHOD_NOT_ALLOWED => {
            Some(ApiError::new(MethodNotAllowed {}, "the path has other methods; see Allow"))
        }
        StatusCode::BAD_REQUEST => Some(ApiError::invalid("", "the path is not UTF-8")),
        _ => None,
    }
}

/// The caller's, if it is one; else a new one.
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

/// A defect of ours; the rest of the server goes on.
pub(crate) fn panicked(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("a request handler panicked");
    let details = Internal { outcome: Outcome::Unknown };
    ApiError::new(details, "internal error; see the server log").into_response()
}

/// Paths that say nothing secret and that probes ask for without a key.
const OPEN_PATHS: [&str; 2] = ["/v1/healthz", "/v1/readyz"];

/// Whether a path is open without a key.
pub(super) fn is_open_path(path: &str) -> bool {
    OPEN_PATHS.contains(&path)
}

impl Guard {
    /// The answer to a request that no route gets to see.
    fn answer(&self, request: &Request) -> Option<Response> {
        let headers = request.headers();
        if let Some(refused) = self.refusal(request) {
            return Some(refused.into_response());
        }
        if cors::is_preflight(request.method(), headers) {
            return Some(cors::preflight());
        }
        let key = self.api_key.as_ref().filter(|_| !is_open_path(request.uri().path()))?;
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        // The name of the scheme is the same in any case.
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let says = match given {
            Some((_, given))
                if is_same_secret(given.trim().as_bytes(), key.reveal().as_bytes()) =>
            {
                return None;
            }
            Some(_) => "this is not the server's key",
            None => "send the server's key: Authorization: Bearer <key>",
        };
        Some(ApiError::new(Unauthenticated {}, says).into_response())
    }

    /// Why the request is rejected, whatever its key.
    fn refusal(&self, request: &Request) -> Option<ApiError> {
        let (headers, uri) = (request.headers(), request.uri());
        if has_other_coding(headers) {
            let says = "Transfer-Encoding must be chunked, alone";
            return Some(ApiError::invalid("", says));
        }
        if host::is_missing(request.version(), headers, uri) {
            return Some(ApiError::invalid("", "the request has no Host"));
        }
        if self.origins.rejects(headers) {
            let says =
                "requests of web pages are refused: allow the origin in http.allowed_origins";
            return Some(ApiError::new(PermissionDenied {}, says));
        }
        if !self.hosts.knows(headers, uri) {
            let says = "this Host is not this machine: allow it in http.allowed_hosts";
            return Some(ApiError::new(PermissionDenied {}, says));
        }
        None
    }
}

/// Whether the body is encoded in another way than in chunks: hyper reads the chunks and ignores the rest.
fn has_other_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    codings.next().is_some_and(|coding| !is_chunked(coding)) || codings.next().is_some()
}

/// Compares hashes in constant time, so that the time tells neither where two secrets differ nor how long ours is.
pub(super) fn is_same_secret(given: &[u8], secret: &[u8]) -> bool {
    blake3::hash(given) == blake3::hash(secret)
}
