//! Requests: a JSON body, or else a query.
//!
//! A body is parsed as JSON whatever its `Content-Type`, so that `curl -d` works. A request with a body and a query is
//! rejected, and so is everything unknown.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use driftq_api::Object;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use super::App;
use super::api_error::{ApiError, Invalid};
use super::body::{self, Purpose};
use super::json_error::{json_error, not_json};
use super::off_runtime;
use super::query::{Param, field, from_query};
use crate::budget::Charge;

/// A request: a JSON body, or a query that sets the same fields.
pub(crate) trait Ask: DeserializeOwned + ToSchema + Send + 'static {
    /// The parameters of its query form.
    const QUERY: &'static [Param];
    /// What its body is for.
    const PURPOSE: Purpose = Purpose::Other;
}

/// A request that says nothing but its path.
#[derive(Debug, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

impl Ask for Nothing {
    const QUERY: &'static [Param] = &[];
}

/// A delete: it says again what is to go.
#[derive(Debug, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Confirm {
    pub(crate) confirm: Option<String>,
}

impl Ask for Confirm {
    const QUERY: &'static [Param] = &[field("confirm")];
}

/// The request, read.
pub(crate) struct Input<T> {
    pub(crate) asked: T,
    pub(crate) headers: HeaderMap,
    /// Of its body. What is parsed of it is there until the request is answered.
    _charge: Charge,
}

impl<T> Input<T> {
    /// What is asked, of a request that waits: meanwhile it holds no room for its body.
    pub(crate) fn into_asked(self) -> T {
        self.asked
    }
}

impl<T: Ask> FromRequest<App> for Input<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Input<T>, ApiError> {
        let (parts, body) = request.into_parts();
        let mut encodings = parts.headers.get_all(header::CONTENT_ENCODING).iter();
        if encodings.any(|encoding| encoding != "identity") {
            return Err(ApiError::invalid("", "the body is compressed: send it as it is"));
        }
        let read = body::read(body, app.limits.body_bytes, &app.budget, T::PURPOSE).await?;
        let body = read.bytes;
        let query = parts.uri.query().unwrap_or_default();
        let asked = match (body.is_empty(), query.is_empty()) {
            (false, true) => {
                let length = body.len();
                off_runtime::READERS.run(length, move || from_json(&body)).await??
            }
            (false, false) => {
                return Err(ApiError::invalid("", "body and query at once: send one of them"));
            }
            (true, _) => from_query(query)?,
        };
        Ok(Input { asked, headers: parts.headers, _charge: read.charge })
    }
}

pub(crate) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Invalid> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let Object(asked) =
        serde_path_to_error::deserialize(&mut reader).map_err(|error| json_error(&error))?;
    reader.end().map_err(|error| Invalid::new("", not_json("", &error)))?;
    Ok(asked)
}
