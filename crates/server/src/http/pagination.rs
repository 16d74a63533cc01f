//! Pagination of lists. A cursor is the last name of the previous page, in an opaque encoding.

use axum::body::Body;
use axum::http::Response;
use data_encoding::BASE64URL_NOPAD;
use driftq_api::number::Limit;
use driftq_core::Text;

use super::answer::of_json;
use super::api_error::ApiError;
use super::app::App;
use super::body::{ROOM_TIME, memory_short};
use super::counted::Counted;
use super::off_runtime;
use crate::budget::Charge;

/// Approximate bytes of messages per call. A single message may be larger.
pub(crate) const BYTES_MAX: u64 = 4 << 20;

const LIMIT: u32 = 100;

/// The maximum number of items per page.
pub(crate) fn limit(limit: Option<Limit>) -> usize {
    limit.map_or(LIMIT, Limit::get) as usize
}

pub(crate) fn to_cursor(place: &str) -> String {
    BASE64URL_NOPAD.encode(place.as_bytes())
}

pub(crate) fn from_cursor(cursor: &str) -> Result<String, ApiError> {
    let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok();
    bytes
        .filter(|bytes| !bytes.is_empty())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| {
            ApiError::invalid("cursor", "must be the unchanged next_cursor of the previous page")
        })
}

/// Draws memory for a list of messages before they are loaded.
pub(crate) async fn room(app: &App) -> Result<Charge, ApiError> {
    // The messages and the answer are in memory at the same time. The body limit is at least twice
    // the largest value, so this covers the largest message.
    let bytes = 2 * BYTES_MAX as usize + app.limits.body_bytes;
    let charge = app.budget.lists.take(bytes, ROOM_TIME).await;
    charge.ok_or_else(|| memory_short("too many concurrent lists of messages; retry later"))
}

/// Creates the answer with a list of messages of about `bytes` bytes. It counts against the budget
/// until the client has received it.
pub(crate) async fn answer(
    bytes: usize,
    mut charge: Charge,
    write: impl FnOnce() -> Vec<u8> + Send + 'static,
) -> Result<Response<Body>, ApiError> {
    let body = off_runtime::WRITERS.run(bytes, write).await?;
    charge.shrink(body.len());
    Ok(of_json(Body::new(Counted { body: Body::from(body), _held: charge })))
}

/// The requested page.
pub(crate) struct Pages {
    limit: usize,
    after: Option<String>,
}

impl Pages {
    pub(crate) fn new(of: Option<Limit>, cursor: Option<&str>) -> Result<Pages, ApiError> {
        Ok(Pages { limit: limit(of), after: cursor.map(from_cursor).transpose()? })
    }

    /// Returns the page of items, which are sorted by name, and the cursor of the next page.
    pub(crate) fn of<T>(
        &self,
        all: Vec<T>,
        name: impl Fn(&T) -> &Text,
    ) -> (Vec<T>, Option<String>) {
        let is_after = |item: &T| self.after.as_deref().is_none_or(|after| **name(item) > *after);
        let mut page: Vec<T> = all.into_iter().filter(is_after).take(self.limit + 1).collect();
        if page.len() <= self.limit {
            return (page, None);
        }
        page.truncate(self.limit);
        let next = page.last().map(|last| to_cursor(name(last)));
        (page, next)
    }
}
