//! Who may come in.
//!
//! A request passes these checks in this order: how its body is encoded, that it names a host, the page that sent
//! it ([`super::cors`]), the name it calls ([`super::host`]), its key.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use driftq_api::error::details::{PermissionDenied, Unauthenticated};

use super::api_error::ApiError;
use super::cors::{self, AllowedOrigins};
use super::host::{self, AllowedHosts};
use crate::config::Secret;

/// Who may come in.
#[derive(Default)]
pub struct AccessRules {
    /// The key that every request must carry, if there is one.
    pub api_key: Option<Secret>,
    /// Web pages that may come.
    pub origins: AllowedOrigins,
    /// Names this server may be called by.
    pub hosts: AllowedHosts,
}

/// Paths that say nothing secret and that probes ask for without a key.
const OPEN_PATHS: [&str; 2] = ["/v1/healthz", "/v1/readyz"];

/// Whether a path is open without a key.
pub(super) fn is_open_path(path: &str) -> bool {
    OPEN_PATHS.contains(&path)
}

impl AccessRules {
    /// The answer to a request that no route gets to see.
    pub(super) fn answer(&self, request: &Request) -> Option<Response> {
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
        let message = match given {
            Some((_, given))
                if is_same_secret(given.trim().as_bytes(), key.reveal().as_bytes()) =>
            {
                return None;
            }
            Some(_) => "this is not the server's key",
            None => "send the server's key: Authorization: Bearer <key>",
        };
        Some(ApiError::new(Unauthenticated {}, message).into_response())
    }

    /// Why the request is rejected, whatever its key.
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
                "requests of web pages are refused: allow the origin in http.allowed_origins";
            return Some(ApiError::new(PermissionDenied {}, message));
        }
        if !self.hosts.knows(headers, uri) {
            let message = "this Host is not this machine: allow it in http.allowed_hosts";
            return Some(ApiError::new(PermissionDenied {}, message));
        }
        None
    }
}

/// Whether the body is encoded in another way than in chunks: hyper reads the chunks and ignores the rest.
pub(super) fn has_other_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    codings.next().is_some_and(|coding| !is_chunked(coding)) || codings.next().is_some()
}

/// Compares hashes in constant time, so that the time tells neither where two secrets differ nor how long ours is.
pub(super) fn is_same_secret(given: &[u8], secret: &[u8]) -> bool {
    blake3::hash(given) == blake3::hash(secret)
}
