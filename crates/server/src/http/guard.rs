//! Who may come in, and what every answer carries.
//!
//! A web page must not be able to use a developer's queue: a request with an `Origin` is refused unless it
//! was allowed, and on a loopback listener so is a `Host` that is not this machine.

use std::any::Any;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use driftq_api::ErrorCode;
use subtle::ConstantTimeEq as _;

use super::failure::Failure;
use super::{App, internal};

/// Who may come in.
#[derive(Default)]
pub struct Guard {
    /// The key that every request must carry, if there is one.
    pub api_key: Option<String>,
    /// Web pages that may come.
    pub allowed_origins: Vec<String>,
    /// Names this server may be called by beside those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Whether the listener is of this machine only.
    pub is_loopback: bool,
}

const REQUEST_ID: &str = "x-request-id";

/// Around every request.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = std::time::Instant::now();
    let request_id = request_id(request.headers());
    let headers = request.headers();
    // Nodes know more than clients do, and are not asked for the clients' key, on their paths.
    let refused = match internal::is_from_a_node(&app, request.uri(), headers) {
        true => None,
        false => app.guard.refusal(headers, request.uri()),
    };
    let mut response = match refused {
        Some(refused) => refused.into_response(),
        None => next.run(request).await,
    };
    if let Some(failure) = unsaid(&response) {
        response.extensions_mut().insert(failure);
    }
    app.metrics.answered(response.status().as_u16(), began.elapsed());
    if let Some(failure) = response.extensions_mut().remove::<Failure>() {
        app.refused(&failure);
        failure.write(&request_id, &mut response);
    }
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

/// What the router refused by itself, in our words.
fn unsaid(response: &Response) -> Option<Failure> {
    if response.extensions().get::<Failure>().is_some() {
        return None;
    }
    match response.status() {
        StatusCode::METHOD_NOT_ALLOWED => {
            Some(Failure::new(ErrorCode::MethodNotAllowed, "this path has other methods"))
        }
        StatusCode::BAD_REQUEST => Some(Failure::invalid("", "the path is not UTF-8")),
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
    Failure::new(ErrorCode::Internal, "a defect of the server; it is in its log")
        .with("outcome", "unknown")
        .into_response()
}

/// Paths that say nothing secret and that probes ask for without a key.
const OPEN_PATHS: [&str; 2] = ["/v1/healthz", "/v1/readyz"];

impl Guard {
    fn refusal(&self, headers: &HeaderMap, uri: &Uri) -> Option<Failure> {
        let is_allowed = |origin| self.allowed_origins.iter().any(|allowed| origin == allowed);
        if !headers.get_all(header::ORIGIN).iter().all(is_allowed) {
            let says =
                "requests of web pages are refused: allow the origin in http.allowed_origins";
            return Some(Failure::new(ErrorCode::PermissionDenied, says));
        }
        if self.is_loopback && !self.is_known_host(headers, uri) {
            let says = "this Host is not this machine: allow it in http.allowed_hosts";
            return Some(Failure::new(ErrorCode::PermissionDenied, says));
        }
        let key = self.api_key.as_ref().filter(|_| !OPEN_PATHS.contains(&uri.path()))?;
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        // The name of the scheme is the same in any case.
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let says = match given {
            Some((_, given)) if bool::from(given.trim().as_bytes().ct_eq(key.as_bytes())) => {
                return None;
            }
            Some(_) => "this is not the server's key",
            None => "send the server's key: Authorization: Bearer <key>",
        };
        Some(Failure::new(ErrorCode::Unauthenticated, says))
    }

    /// HTTP/2 has the name in its own place: a browser that rebinds one sends it here or there.
    fn is_known_host(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        // Every one that is there: a proxy before us may go by another than we do.
        let header = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or("?"));
        let mut hosts = header.chain(uri.authority().map(|of| of.as_str()));
        hosts.all(|host| self.is_known(host))
    }

    fn is_known(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        ["localhost", "127.0.0.1", "::1"].contains(&name)
            || self.allowed_hosts.iter().any(|allowed| allowed == host || allowed == name)
    }
}
