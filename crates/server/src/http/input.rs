//! Requests: a JSON body, or else a query.
//!
//! A body is parsed as JSON whatever its `Content-Type`, so that `curl -d` works. A request with a body and a query is
//! rejected, and so is everything unknown.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};

use super::api_error::ApiError;
use super::app::App;
use super::body;
use super::json_error::from_json;
use super::off_runtime;
use super::query::from_query;
use super::request::ApiRequest;
use crate::budget::Charge;

/// The request, read.
pub(crate) struct Input<T> {
    pub(crate) body: T,
    pub(crate) headers: HeaderMap,
    /// Of its body. What is parsed of it is there until the request is answered.
    _charge: Charge,
}

impl<T> Input<T> {
    /// What is asked, of a request that waits: meanwhile it holds no room for its body.
    pub(crate) fn into_body(self) -> T {
        self.body
    }
}

impl<T: ApiRequest> FromRequest<App> for Input<T> {
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
        Ok(Input { body: asked, headers: parts.headers, _charge: read.charge })
    }
}
