//! The errors of requests.

use std::time::Duration;

use serde_json::Value;

use crate::http::Reply;

/// Why a request did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server rejected the request. It changed nothing.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// The server did not handle the request in time. It changed nothing.
    #[error("the server is unavailable: {0}")]
    Unavailable(String),
    /// The request may have been executed.
    #[error("the outcome is unknown: {0}")]
    OutcomeUnknown(String),
    /// The attempt has ended, and its result does not count.
    #[error("the lease is lost: {0}")]
    LeaseLost(String),
    /// A value cannot be sent: it is not JSON, or the configuration of the client is wrong.
    #[error("{0}")]
    Invalid(String),
}

/// A rejection by the server.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Refusal {
    /// The HTTP status. 0 for an item of a batch.
    pub status: u16,
    /// The code, for example `NOT_FOUND`.
    pub code: String,
    /// The text, for people.
    pub message: String,
    /// The complete body.
    pub body: Value,
}

impl Refusal {
    pub(crate) fn of(reply: Reply) -> Refusal {
        let Reply { status, body } = reply;
        let text =
            |name: &str, otherwise: &str| body[name].as_str().unwrap_or(otherwise).to_owned();
        let (code, message) = (text("error", "UNKNOWN"), text("message", "no message"));
        Refusal { status, code, message, body }
    }

    /// The wait before the request can succeed, if the server names one.
    pub fn retry_after(&self) -> Option<Duration> {
        self.body["retry_after_ms"].as_u64().map(Duration::from_millis)
    }

    /// Whether a lease token was rejected: the attempt has ended, or the token is of another server.
    fn is_of_the_lease(&self) -> bool {
        let field = self.body["field"].as_str().unwrap_or_default();
        self.code == "STALE_LEASE"
            || self.code == "INVALID_ARGUMENT" && matches!(field, "token" | "lease_token")
    }
}

impl Error {
    pub(crate) fn refused(refusal: Refusal) -> Error {
        if refusal.is_of_the_lease() {
            Error::LeaseLost(refusal.message)
        } else {
            Error::Refused(Box::new(refusal))
        }
    }

    /// The error of an item of a batch.
    pub(crate) fn of_item(body: Value) -> Error {
        let refusal = Refusal::of(Reply { status: 0, body });
        match refusal.body["outcome"].as_str() {
            Some("none") => Error::Unavailable(refusal.message),
            Some(_) => Error::OutcomeUnknown(refusal.message),
            None => Error::refused(refusal),
        }
    }

    /// The rejection, if it is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        if let Error::Refused(refusal) = self { Some(refusal) } else { None }
    }
}

/// The error with its causes.
pub(crate) fn to_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(of) = cause {
        text = format!("{text}: {of}");
        cause = of.source();
    }
    text
}
