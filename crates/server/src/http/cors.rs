//! Requests from web pages.
//!
//! 1. A request that a browser sends for a page is rejected unless the page's origin is allowed.
//!    The browser reports the origin in `Origin`, or, if it sends none (`<img>`, `<script>`, a
//!    link), in `Sec-Fetch-Site`.
//! 2. These headers can only cause a rejection. No header of a browser replaces the key.
//! 3. An allowed origin gets the CORS headers with every answer, including errors. Its preflight
//!    requests are answered without a key, because a browser sends none with them.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Sent by the user (address bar, bookmark), or by a page of this server, which has no pages.
const NOT_A_PAGE: [&str; 2] = ["none", "same-origin"];
const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
/// Headers that routes read.
const HEADERS: &str =
    "authorization, content-type, idempotency-key, traceparent, tracestate, x-request-id";
/// Headers of answers that a script may read.
const EXPOSED: &str = "retry-after, x-request-id";
/// How long a browser may keep the answer to a preflight.
const MAX_AGE_S: &str = "600";

/// The origins of pages that may use the server.
#[derive(Default)]
pub struct AllowedOrigins(pub Vec<String>);

impl AllowedOrigins {
    /// Whether a page sent the request, and its origin is not allowed.
    pub(super) fn rejects(&self, headers: &HeaderMap) -> bool {
        let is_allowed = |origin| self.0.iter().any(|allowed| origin == allowed);
        let mut origins = headers.get_all(header::ORIGIN).iter().peekable();
        if origins.peek().is_some() {
            return !origins.all(is_allowed);
        }
        let is_harmless = |site: &HeaderValue| NOT_A_PAGE.iter().any(|harmless| site == harmless);
        !headers.get_all(SEC_FETCH_SITE).iter().all(is_harmless)
    }

    /// The allowed origin that the request names.
    pub(super) fn of(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        (!self.rejects(headers)).then(|| origin.clone())
    }

    /// Lets a script of `origin` read the answer. Caches must keep answers to different origins
    /// apart.
    pub(super) fn mark(&self, origin: Option<HeaderValue>, headers: &mut HeaderMap) {
        if !self.0.is_empty() {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
        if let Some(origin) = origin {
            let exposed = HeaderValue::from_static(EXPOSED);
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}

/// Whether the request is a CORS preflight.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Answers a preflight: the methods and headers that a page of an allowed origin may send.
pub(super) fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_S),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}
