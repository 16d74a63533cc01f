//! Reads a request's body within the memory budget.
//!
//! 1. Memory is drawn before it is used: for the declared length, or in steps if no length is
//!    declared. It is held until the request is answered.
//! 2. A body that cannot get memory waits for up to 5 s. Then the request is rejected (429,
//!    `memory`).
//! 3. While another body waits for memory, a body that arrives slowly is rejected. Clients that
//!    start bodies and do not finish them therefore hold memory for about a second.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use bytes::BytesMut;
use driftq_api::error::details::{RequestTimeout, ResourceExhausted, TooLarge};
use driftq_api::words::{ExhaustedReason, Outcome};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout, timeout_at};

use super::api_error::{ApiError, RETRY_AFTER_MS};
use crate::budget::{Budget, Charge, Pool, SMALL_BYTES};

/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);
/// How long a body may wait for memory.
pub(super) const ROOM_TIME: Duration = Duration::from_secs(5);
/// While other bodies wait for memory, the speed of a body is not measured for this long.
const GRACE: Duration = Duration::from_secs(1);
/// The minimum speed after the grace period.
const BYTES_PER_SECOND: f64 = 256.0 * 1_024.0;
/// A body and its parsed form are in memory at the same time.
const COPIES: usize = 2;

/// A body that has been read completely.
pub(super) struct Read {
    pub(super) bytes: Bytes,
    pub(super) charge: Charge,
}

/// The purpose of a body, which decides the pool it draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A settle, extend or finish. It frees memory, so it has pools of its own.
    Settle,
    /// Any other request.
    Other,
}

impl Purpose {
    fn pool(self, budget: &Budget, bytes: usize) -> &Pool {
        match self {
            Purpose::Settle if bytes <= SMALL_BYTES => &budget.settles,
            Purpose::Settle => &budget.large_settles,
            Purpose::Other if bytes <= SMALL_BYTES => &budget.small_bodies,
            Purpose::Other => &budget.large_bodies,
        }
    }
}

/// Reads a body of at most `limit` bytes.
pub(super) async fn read(
    body: Body,
    limit: usize,
    budget: &Budget,
    purpose: Purpose,
) -> Result<Read, ApiError> {
    if body.is_end_stream() {
        return Ok(Read { bytes: Bytes::new(), charge: Charge::default() });
    }
    let deadline = Instant::now() + BODY_TIME;
    let reading = Reading { limit, budget, purpose }.run(body);
    timeout_at(deadline, reading).await.unwrap_or_else(|_| {
        let details = RequestTimeout { outcome: Outcome::None };
        Err(ApiError::new(details, "the body took longer than 30 s"))
    })
}

struct Reading<'a> {
    limit: usize,
    budget: &'a Budget,
    purpose: Purpose,
}

impl Reading<'_> {
    async fn run(self, mut body: Body) -> Result<Read, ApiError> {
        let declared = body.size_hint().exact();
        if declared.is_some_and(|length| length > self.limit as u64) {
            return Err(self.too_large());
        }
        let mut room = declared.map_or(SMALL_BYTES.min(self.limit), |length| length as usize);
        let mut charge = self.draw(room).await?;
        let began = Instant::now();
        let mut bytes = BytesMut::with_capacity(room);
        loop {
            let frame = match timeout(GRACE, body.frame()).await {
                Ok(Some(frame)) => Some(frame.map_err(|_| broken_off())?),
                Ok(None) => return Ok(Read { bytes: bytes.freeze(), charge }),
                Err(_) => None,
            };
            if let Some(data) = frame.and_then(|frame| frame.into_data().ok()) {
                let length = bytes.len() + data.len();
                if length > self.limit {
                    return Err(self.too_large());
                }
                if length > room {
                    room = (2 * room).max(length).min(self.limit);
                    charge = self.draw(room).await?;
                    bytes.reserve(room - bytes.len());
                }
                bytes.extend_from_slice(&data);
            }
            let measured = began.elapsed().saturating_sub(GRACE).as_secs_f64();
            let is_slow = (bytes.len() as f64) < measured * BYTES_PER_SECOND;
            if is_slow && self.purpose.pool(self.budget, room).has_waiters() {
                let message =
                    "the server is low on memory and the body arrived too slowly; retry later";
                return Err(memory_short(message));
            }
        }
    }

    async fn draw(&self, bytes: usize) -> Result<Charge, ApiError> {
        let pool = self.purpose.pool(self.budget, bytes);
        pool.take(COPIES * bytes, ROOM_TIME)
            .await
            .ok_or_else(|| memory_short("too many requests with large bodies; retry later"))
    }

    fn too_large(&self) -> ApiError {
        let message = format!("the body is larger than the limit of {} bytes", self.limit);
        let (field, limit) = ("body".to_owned(), self.limit as u64);
        ApiError::new(TooLarge { field, limit, size: None }, message)
    }
}

fn broken_off() -> ApiError {
    ApiError::invalid("", "the body is incomplete")
}

/// Rejects a request because the memory budget is exhausted.
pub(super) fn memory_short(message: &str) -> ApiError {
    let (reason, retry_after_ms) = (ExhaustedReason::Memory, RETRY_AFTER_MS);
    ApiError::new(
        ResourceExhausted { reason, limit_reason: None, retry_after_ms, group: None, limit: None },
        message,
    )
}
