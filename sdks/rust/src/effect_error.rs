//! How the execution of an effect ends without success.

use std::error::Error;
use std::fmt;

use crate::error;

/// How an execution ended without success.
///
/// Any error converts with `?`, and leaves the outcome unknown. [`EffectError::response`] classifies
/// the failure of the one HTTP request that acts.
#[derive(Debug)]
pub enum EffectError {
    /// It did not happen, and may be executed again.
    NotHappened(String),
    /// The provider declined for good. The outcome is recorded.
    Declined(String, i32),
    /// It may have happened.
    Unknown(String),
}

impl EffectError {
    /// It did not happen, and may be executed again.
    pub fn not_happened(why: impl fmt::Display) -> EffectError {
        EffectError::NotHappened(why.to_string())
    }

    /// The provider declined for good, with this code.
    pub fn declined(code: i32, why: impl fmt::Display) -> EffectError {
        EffectError::Declined(why.to_string(), code)
    }

    /// Classifies the failure of the HTTP request that acts: a refused connection did nothing, and a
    /// status is read by [`EffectError::of_status`]. Other requests of the same execution must not be
    /// classified: when they fail, the one before them may have acted.
    ///
    /// ```
    /// # use driftq_client::{EffectError, Execution};
    /// # async fn charge(http: reqwest::Client, e: Execution) -> Result<String, EffectError> {
    /// let request = http.post("https://pay.example/charges").header("idempotency-key", e.downstream_key());
    /// let response = EffectError::response(request.send().await)?;
    /// Ok(response.text().await?)
    /// # }
    /// ```
    pub fn response(
        sent: Result<reqwest::Response, reqwest::Error>,
    ) -> Result<reqwest::Response, EffectError> {
        sent.and_then(reqwest::Response::error_for_status).map_err(|error| {
            let why = error::to_text(&error);
            match error.status() {
                Some(status) => EffectError::of_status(status.as_u16(), why),
                None if error.is_connect() => EffectError::NotHappened(why),
                None => EffectError::Unknown(why),
            }
        })
    }

    /// What the HTTP status of a failure says: 429 did not happen, other statuses below 500 are
    /// declined, and after 408, 409, 425 and from 500 on the outcome is unknown.
    pub fn of_status(status: u16, why: impl fmt::Display) -> EffectError {
        match status {
            429 => EffectError::not_happened(why),
            408 | 409 | 425 => EffectError::Unknown(why.to_string()),
            400..500 => EffectError::declined(status.into(), why),
            _ => EffectError::Unknown(why.to_string()),
        }
    }
}

/// Any error leaves the outcome unknown: the provider may have acted before it.
impl<E: Error> From<E> for EffectError {
    fn from(error: E) -> EffectError {
        EffectError::Unknown(error::to_text(&error))
    }
}
