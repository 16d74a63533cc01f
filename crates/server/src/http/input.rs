//! Parses requests: a JSON body, or a query if there is no body.
//!
//! A body is parsed as JSON whatever its `Content-Type`, so that `curl -d` works. A request with
//! both a body and a query is rejected, and so are unknown fields.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};

use super::api_error::ApiError;
use super::app::App;
use super::body;
use super::json_error::from_json;
use super::query::from_query;
use super::request::ApiRequest;
use super::request_log;
use super::{off_runtime, profile};
use crate::budget::Charge;

/// A parsed request.
pub(crate) struct Input<T> {
    pub(crate) body: T,
    pub(crate) headers: HeaderMap,
    /// The charge of the body. The parsed request is in memory until it is answered.
    _charge: Charge,
}

impl<T> Input<T> {
    /// Returns the body of a request that waits, and releases its memory charge meanwhile.
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
            return Err(ApiError::invalid("", "the body is compressed; send it uncompressed"));
        }
        let read = body::read(body, app.limits.body_bytes, &app.budget, T::PURPOSE).await?;
        let body = read.bytes;
        let query = parts.uri.query().unwrap_or_default();
        let request: T = match (body.is_empty(), query.is_empty()) {
            (false, true) => {
                let length = body.len();
                let may_lease_0 = app.is_v1 && T::MAY_LEASE_0;
                let read = move || match from_json(&body) {
                    Err(_) if may_lease_0 && let Some(body) = profile::without_lease(&body) => {
                        from_json(&body)
                    }
                    read => read,
                };
                let read = off_runtime::READERS.run(length, read).await?;
                let is_v1 = app.is_v1;
                read.map_err(|invalid| {
                    if is_v1 { profile::known_to_v1(invalid, T::IS_OF_V1) } else { invalid }
                })?
            }
            (false, false) => {
                return Err(ApiError::invalid("", "send a body or a query, not both"));
            }
            (true, _) => from_query(query, app.is_v1 && T::IS_OF_V1)?,
        };
        if request_log::is_observed() {
            request_log::note_names(T::names(&request));
        }
        Ok(Input { body: request, headers: parts.headers, _charge: read.charge })
    }
}
