//! How the execution of an effect ends without success.

use std::error::Error;
use std::fmt;

use crate::error;

/// How an execution ended without success.
///
/// Any error converts with `?`. It leaves the outcome unknown, because the provider may have acted
/// before it. Errors of `reqwest` are classified: a connection that was refused did nothing, and the
/// status of [`reqwest::Response::error_for_status`] is read by [`EffectError::of_status`].
#[derive(Debug)]
pub enum EffectError {
    /// It did not happen, and may be executed again.
    NotHappened(String),
    /// The provider declined for good. The outcome is recorded.
    Declined(String, i64),
    /// It may have happened.
    Unknown(String),
}

impl EffectError {
    /// It did not happen, and may be executed again.
    pub fn not_happened(why: impl fmt::Display) -> EffectError {
        EffectError::NotHappened(why.to_string())
    }

    /// The provider declined for good, with this code.
    pub fn declined(code: i64, why: impl fmt::Display) -> EffectError {
        EffectError::Declined(why.to_string(), code)
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

impl<E: Error + 'static> From<E> for EffectError {
    fn from(error: E) -> EffectError {
        let why = error::to_text(&error);
        let any: &dyn Error = &error;
        match any.downcast_ref::<reqwest::Error>() {
            Some(error) if error.is_connect() => EffectError::NotHappened(why),
            Some(error) => match error.status() {
                Some(status) => EffectError::of_status(status.as_u16(), why),
                None => EffectError::Unknown(why),
            },
            None => EffectError::Unknown(why),
        }
    }
}
