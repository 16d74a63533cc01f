//! Requests of an axum service, executed once by their `Idempotency-Key`.
//!
//! [`idempotent`] is a middleware. It begins, runs the handler and records its response, or returns the
//! recorded one. Services of tonic are handled as well, as a router of axum
//! (`tonic::service::Routes::into_axum_router`).
//!
//! ```no_run
//! use axum::Router;
//! use axum::middleware::from_fn_with_state;
//! use axum::routing::post;
//! use driftq_ledger::OnDoubt;
//! use driftq_ledger::axum::{Ledger, idempotent};
//!
//! # async fn charge() -> &'static str { "charged" }
//! # fn routes(client: tokio_postgres::Client) -> Router {
//! // The principal is that of your authentication, never what a client chooses.
//! let ledger = Ledger::new(client, OnDoubt::Park, |parts| {
//!     Some(parts.extensions.get::<String>()?.clone())
//! });
//! Router::new().route("/charges", post(charge)).layer(from_fn_with_state(ledger, idempotent))
//! # }
//! ```

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::{BodyExt as _, Full};
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;

use crate::{
    Begin, Decision, Error, Execution, Key, OnDoubt, Outcome, Status, begin, finish, reacquire,
};

/// The largest request and response.
const BODY_MAX: usize = 1024 * 1024;

type Principal = dyn Fn(&Parts) -> Option<String> + Send + Sync;

/// The ledger of a service. Clones share their connection.
#[derive(Clone)]
pub struct Ledger {
    client: Arc<Client>,
    on_doubt: OnDoubt,
    principal: Arc<Principal>,
}

impl Ledger {
    /// A ledger on this connection. `principal` names the caller of a request; a request without a
    /// principal is rejected.
    pub fn new(
        client: Client,
        on_doubt: OnDoubt,
        principal: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Ledger {
        Ledger { client: Arc::new(client), on_doubt, principal: Arc::new(principal) }
    }
}

/// In the extensions of a response: the handler has recorded the outcome in its own transaction, with
/// the [`Execution`] in the extensions of its request.
#[derive(Debug, Clone, Copy)]
pub struct Finished;

/// Runs the handler once for each `Idempotency-Key`. Requests without the header pass.
pub async fn idempotent(State(ledger): State<Ledger>, request: Request, next: Next) -> Response {
    let Some(key) = request.headers().get("idempotency-key").cloned() else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let is_grpc = is_grpc(&parts.headers);
    // The outcome is recorded even if the client disconnects.
    let run = tokio::spawn(run(ledger, key, parts, body, next));
    let ran = run.await.unwrap_or_else(|_| Err(Refusal::Unknown("the handler panicked".into())));
    ran.unwrap_or_else(|refusal| refusal.into_response(is_grpc))
}

async fn run(
    ledger: Ledger,
    key: HeaderValue,
    parts: Parts,
    body: Body,
    next: Next,
) -> Result<Response, Refusal> {
    let key = key.to_str().map_err(|_| Refusal::Invalid("Idempotency-Key must be ASCII"))?;
    let principal =
        (ledger.principal)(&parts).ok_or(Refusal::Invalid("the request has no principal"))?;
    let body = to_bytes(body, BODY_MAX).await;
    let body =
        body.map_err(|_| Refusal::Invalid("the body must be complete, and at most 1 MiB"))?;
    let operation = format!("{} {}", parts.method, parts.uri.path());
    let key = Key { principal: &principal, operation: &operation, key };
    let hash = blake3::hash(&body).to_hex();
    let wanted = Begin::new(key, &hash, ledger.on_doubt);
    let mut decision = begin(&*ledger.client, &wanted).await?;
    if let Decision::Retryable(_) = decision {
        decision = reacquire(&*ledger.client, key, &hash, &wanted.nonce, wanted.lease).await?;
    }
    let execution = match decision {
        Decision::Execute(execution) => execution,
        Decision::Replay(outcome) => return restored(outcome),
        Decision::InProgress | Decision::Retryable(_) => return Err(Refusal::InProgress),
        Decision::Probe(_) | Decision::Parked | Decision::NotFound => return Err(Refusal::InDoubt),
        Decision::Conflict => return Err(Refusal::Conflict),
    };
    let mut request = Request::from_parts(parts, Body::from(body));
    let fence = execution.fence;
    request.extensions_mut().insert::<Execution>(execution);
    let response = next.run(request).await;
    if response.extensions().get::<Finished>().is_some() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let unknown = |error: axum::Error| Refusal::Unknown(error.to_string());
    let collected = body.collect().await.map_err(unknown)?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let body = collected.to_bytes();
    let head = Head { headers: pairs(&parts.headers), trailers: pairs(&trailers) };
    let outcome = Outcome {
        status: status(parts.status, &parts.headers, &trailers),
        code: parts.status.as_u16().into(),
        response: Some(head.with(&body)?),
        error: None,
    };
    finish(&*ledger.client, key, fence, &outcome).await?;
    Ok(Response::from_parts(parts, with_trailers(body, trailers)))
}

/// What a response says about the outcome.
fn status(status: StatusCode, headers: &HeaderMap, trailers: &HeaderMap) -> Status {
    if is_grpc(headers) {
        let code = trailers.get("grpc-status").or_else(|| headers.get("grpc-status"));
        return match code.and_then(|code| code.to_str().ok()?.parse().ok()) {
            Some(0) => Status::Succeeded,
            // RESOURCE_EXHAUSTED and ABORTED: the handler has not acted.
            Some(8 | 10) => Status::FailedRetryable,
            Some(3 | 5 | 6 | 7 | 9 | 11 | 12 | 16) => Status::FailedFinal,
            Some(_) | None => Status::Unknown,
        };
    }
    match status.as_u16() {
        200..400 => Status::Succeeded,
        429 => Status::FailedRetryable,
        408 | 409 | 425 => Status::Unknown,
        400..500 => Status::FailedFinal,
        _ => Status::Unknown,
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|is| is.as_bytes().starts_with(b"application/grpc"))
}

/// The headers of a response, stored as a line of JSON before its body.
#[derive(Serialize, Deserialize)]
struct Head {
    headers: Vec<(String, String)>,
    trailers: Vec<(String, String)>,
}

impl Head {
    fn with(&self, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let head = serde_json::to_vec(self);
        let mut bytes = head.map_err(|error| Refusal::Unknown(error.to_string()))?;
        bytes.push(b'\n');
        bytes.extend_from_slice(body);
        Ok(bytes)
    }
}

/// The recorded response.
fn restored(outcome: Outcome) -> Result<Response, Refusal> {
    let other = || Refusal::Unknown("the outcome was not recorded by this middleware".to_owned());
    let bytes = outcome.response.ok_or_else(other)?;
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(other)?;
    let head: Head = serde_json::from_slice(&bytes[..end]).map_err(|_| other())?;
    let status = u16::try_from(outcome.code).ok().and_then(|code| StatusCode::from_u16(code).ok());
    let body = Bytes::copy_from_slice(&bytes[end + 1..]);
    let mut response = Response::new(with_trailers(body, read(head.trailers)));
    *response.status_mut() = status.ok_or_else(other)?;
    *response.headers_mut() = read(head.headers);
    response.headers_mut().insert("idempotent-replay", HeaderValue::from_static("true"));
    Ok(response)
}

fn with_trailers(body: Bytes, trailers: HeaderMap) -> Body {
    if trailers.is_empty() {
        return Body::from(body);
    }
    Body::new(Full::new(body).with_trailers(async move { Some(Ok(trailers)) }))
}

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

fn read(pairs: Vec<(String, String)>) -> HeaderMap {
    let header = |(name, value): (String, String)| {
        Some((name.parse::<HeaderName>().ok()?, value.parse::<HeaderValue>().ok()?))
    };
    pairs.into_iter().filter_map(header).collect()
}

/// Why the handler's response is not returned.
enum Refusal {
    Invalid(&'static str),
    InProgress,
    InDoubt,
    Conflict,
    Unknown(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Unknown(error.to_string())
    }
}

impl Refusal {
    fn into_response(self, is_grpc: bool) -> Response {
        let (status, grpc_status, text) = match self {
            Refusal::Invalid(why) => (400, "3", why.to_owned()),
            Refusal::InProgress => {
                (409, "10", "another request with this key is in progress".into())
            }
            Refusal::InDoubt => (409, "9", "the outcome of this key is unknown".into()),
            Refusal::Conflict => (422, "3", "the key was used with another request".into()),
            Refusal::Unknown(why) => (503, "2", format!("the outcome is unknown: {why}")),
        };
        if is_grpc {
            let headers = [("content-type", "application/grpc"), ("grpc-status", grpc_status)];
            return (headers, [("grpc-message", text)], ()).into_response();
        }
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        (status, [("retry-after", "1")], text).into_response()
    }
}
