//! Access rules for requests.
//!
//! A request passes these checks in this order:
//!
//! 1. the encoding of its body
//! 2. the presence of a host name
//! 3. the web page that sent it ([`super::cors`])
//! 4. its host name ([`super::host`])
//! 5. its key

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use driftq_api::error::details::{PermissionDenied, Unauthenticated};

use super::api_error::ApiError;
use super::cors::{self, AllowedOrigins};
use super::host::{self, AllowedHosts};
use crate::api_keys::ApiKeys;

/// The rules by which requests are admitted.
#[derive(Default)]
pub struct AccessRules {
    /// The keys of which every request must carry one.
    pub api_keys: ApiKeys,
    /// Origins of web pages that may send requests.
    pub origins: AllowedOrigins,
    /// Host names under which clients may address this server.
    pub hosts: AllowedHosts,
}

/// Paths for probes, which need no key and reveal no secrets.
const OPEN_PATHS: [&str; 2] = ["/v1/healthz", "/v1/readyz"];

/// Whether a path needs no key.
pub(super) fn is_open_path(path: &str) -> bool {
    OPEN_PATHS.contains(&path)
}

impl AccessRules {
    /// Answers a request that must not reach a route: a rejection or a CORS preflight. Returns
    /// `None` if the request may proceed.
    pub(super) fn answer(&self, request: &Request) -> Option<Response> {
        let headers = request.headers();
        if let Some(refused) = self.refusal(request) {
            return Some(refused.into_response());
        }
        if cors::is_preflight(request.method(), headers) {
            return Some(cors::preflight());
        }
        if !self.api_keys.are_needed() || is_open_path(request.uri().path()) {
            return None;
        }
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        // The scheme is case-insensitive.
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let message = match given {
            Some((_, given)) if self.api_keys.accept(given.trim().as_bytes()) => return None,
            Some(_) => "the key is not valid for this server",
            None => "the key is missing; send it as Authorization: Bearer <key>",
        };
        let mut refused = ApiError::new(Unauthenticated {}, message).into_response();
        let bearer = HeaderValue::from_static("Bearer");
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        Some(refused)
    }

    /// Why the request is rejected, independently of its key.
    fn refusal(&self, request: &Request) -> Option<ApiError> {
        let (headers, uri) = (request.headers(), request.uri());
        if has_other_coding(headers) {
            let message = "Transfer-Encoding must be chunked, alone";
            return Some(ApiError::invalid("", message));
        }
        if host::is_missing(request.version(), headers, uri) {
            return Some(ApiError::invalid("", "the request has no Host"));
        }
        if self.origins.rejects(headers) {
            let message =
                "the origin of this web page is not allowed; add it to http.allowed_origins";
            return Some(ApiError::new(PermissionDenied {}, message));
        }
        if !self.hosts.knows(headers, uri) {
            let message =
                "the Host header does not name this server; add the name to http.allowed_hosts";
            return Some(ApiError::new(PermissionDenied {}, message));
        }
        None
    }
}

/// Whether the body has a transfer encoding other than `chunked` alone. hyper would decode the
/// chunks and ignore the rest.
pub(super) fn has_other_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    codings.next().is_some_and(|coding| !is_chunked(coding)) || codings.next().is_some()
}

/// Compares hashes in constant time, so that the time reveals neither where two secrets differ nor
/// how long ours is.
pub(super) fn is_same_secret(given: &[u8], secret: &[u8]) -> bool {
    blake3::hash(given) == blake3::hash(secret)
}
