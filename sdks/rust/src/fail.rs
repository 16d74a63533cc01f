//! How a handler ends without success.

use std::fmt;
use std::time::Duration;

use crate::error::{self, Error};

/// Why a handler did not succeed, and what becomes of the message.
///
/// Any error converts into a failed attempt with `?`: the message is delivered again after the
/// backoff of its retry policy.
#[derive(Debug)]
pub struct Fail(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    /// The attempt failed.
    Retry { reason: String, after: Option<Duration> },
    /// The message becomes a dead letter now.
    Reject { reason: String },
    /// The delivery ends without a failure.
    Release { after: Option<Duration> },
    /// The lease is lost. The result does not count.
    Lost,
    /// The effect failed for good, now or in an earlier attempt.
    Declined { reason: String, code: i32 },
    /// A commit was rejected. Its outcomes are recorded.
    Rejected { reason: String },
}

impl Fail {
    /// Counts the attempt as failed. The next one starts after the backoff of the retry policy.
    pub fn retry(reason: impl fmt::Display) -> Fail {
        Fail(Kind::Retry { reason: reason.to_string(), after: None })
    }

    /// Counts the attempt as failed. The next one starts after `after`.
    pub fn retry_after(after: Duration, reason: impl fmt::Display) -> Fail {
        Fail(Kind::Retry { reason: reason.to_string(), after: Some(after) })
    }

    /// Makes the message a dead letter now.
    pub fn reject(reason: impl fmt::Display) -> Fail {
        Fail(Kind::Reject { reason: reason.to_string() })
    }

    /// Gives the message back. This costs no attempt.
    pub fn release(after: Option<Duration>) -> Fail {
        Fail(Kind::Release { after })
    }

    /// The reason of an effect that failed for good, with its code.
    pub fn declined(&self) -> Option<(&str, i32)> {
        if let Kind::Declined { reason, code } = &self.0 { Some((reason, *code)) } else { None }
    }
}

impl<E: std::error::Error + 'static> From<E> for Fail {
    fn from(error: E) -> Fail {
        let any: &dyn std::error::Error = &error;
        if let Some(Error::LeaseLost(_)) = any.downcast_ref::<Error>() {
            return Fail(Kind::Lost);
        }
        Fail::retry(error::to_text(&error))
    }
}
