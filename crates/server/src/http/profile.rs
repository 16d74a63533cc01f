//! What the profile `v1` changes at the surface. Everything else is a default of a setting.
//!
//! 1. Requests that DriftQ-Core v1 has are read as v1 read them: unknown query parameters and empty
//!    values are ignored, a lease of 0 means the default, and a maximum backoff is a cap. All other
//!    requests stay strict: a misspelled `dry_run` must not execute what it should show.
//! 2. Fields that v1 does not have are rejected.
//! 3. The reason of every 429 is `overloaded`, and a message that is larger than a whole partition
//!    gets 429.
//! 4. A stream without `prefetch` is limited by the topic alone, and has no blank lines.

use axum::response::Response;
use driftq_api::Details;
use driftq_api::error::details::ResourceExhausted;
use driftq_api::message::{Envelope, RetryPolicy};
use driftq_api::words::ExhaustedReason;
use driftq_core::limits::CREDIT_MAX;
use serde_json::Value;

use super::api_error::{ApiError, Invalid, RETRY_AFTER_MS};

/// The prefetch of a stream that requests none.
pub(super) const PREFETCH: u32 = CREDIT_MAX;

/// Fields of an envelope that v1 does not have.
const LATER: [&str; 2] = ["labels", "headers"];

/// Removes the fields that v1 does not have from the list of known ones. `is_of_v1` says whether v1
/// has the request.
pub(super) fn known_to_v1(invalid: Invalid, is_of_v1: bool) -> Invalid {
    let is_later = |name: &str| LATER.contains(&name) || is_of_v1 && name == "nonce";
    invalid.map_known(|name| !is_later(name))
}

/// Rejects the nonce of a produce.
pub(super) fn nonce(nonce: Option<&String>) -> Result<(), Invalid> {
    match nonce {
        Some(_) => Err(Invalid::new("nonce", "unknown field under the profile v1")),
        None => Ok(()),
    }
}

/// Rejects what v1 does not have, and caps the backoff.
pub(super) fn envelope(envelope: Option<&mut Envelope>) -> Result<(), Invalid> {
    let Some(envelope) = envelope else { return Ok(()) };
    let later = [("envelope.labels", &envelope.labels), ("envelope.headers", &envelope.headers)];
    if let Some((field, _)) = later.into_iter().find(|(_, map)| map.is_some()) {
        return Err(Invalid::new(field, "unknown field under the profile v1"));
    }
    if let Some(RetryPolicy { backoff_ms, max_backoff_ms: Some(most), .. }) =
        &mut envelope.retry_policy
        && backoff_ms.is_none_or(|backoff| backoff.get() > most.get())
    {
        *backoff_ms = Some(*most);
    }
    Ok(())
}

/// The longest body of a consume that is read a second time.
const CONSUME_BYTES_MAX: usize = 4_096;

/// The body of a consume without its lease, if the lease is 0.
pub(super) fn without_lease(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() > CONSUME_BYTES_MAX {
        return None;
    }
    let mut body: Value = serde_json::from_slice(text).ok()?;
    let body = body.as_object_mut()?;
    if body.get("lease_ms") != Some(&Value::from(0)) {
        return None;
    }
    body.remove("lease_ms");
    serde_json::to_vec(body).ok()
}

/// Whether a query parameter is left out.
pub(super) fn ignores(name: &str, value: &str) -> bool {
    value.is_empty() || (name == "lease_ms" && value == "0")
}

/// Converts an error. The limit that was reached moves to a field of its own.
fn error(mut error: ApiError) -> ApiError {
    if let Details::TooLarge(large) = &error.0.details
        && large.field == "message"
    {
        let details = ResourceExhausted {
            reason: ExhaustedReason::PartitionBufferBytesFull,
            limit_reason: None,
            retry_after_ms: RETRY_AFTER_MS,
            group: None,
            limit: Some(large.limit),
        };
        error = ApiError::new(details, error.0.message);
    }
    if let Details::ResourceExhausted(exhausted) = &mut error.0.details {
        exhausted.limit_reason = Some(exhausted.reason);
        exhausted.reason = ExhaustedReason::Overloaded;
    }
    error
}

/// Converts the error of a response.
pub(super) fn convert(response: &mut Response) {
    if let Some(failure) = response.extensions_mut().remove::<ApiError>() {
        response.extensions_mut().insert(error(failure));
    }
}
