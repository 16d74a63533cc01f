//! Refusals and failures.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// What kind of refusal or failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(missing_docs, reason = "the table of the API reference says when each comes")]
pub enum ErrorCode {
    InvalidArgument,
    Unauthenticated,
    PermissionDenied,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    FailedPrecondition,
    StaleLease,
    StaleFence,
    AlreadyExists,
    InProgress,
    InDoubt,
    TooLarge,
    Conflict,
    ResourceExhausted,
    Internal,
    Unavailable,
}

impl ErrorCode {
    /// All of them.
    pub const ALL: [ErrorCode; 17] = [
        ErrorCode::InvalidArgument,
        ErrorCode::Unauthenticated,
        ErrorCode::PermissionDenied,
        ErrorCode::NotFound,
        ErrorCode::MethodNotAllowed,
        ErrorCode::RequestTimeout,
        ErrorCode::FailedPrecondition,
        ErrorCode::StaleLease,
        ErrorCode::StaleFence,
        ErrorCode::AlreadyExists,
        ErrorCode::InProgress,
        ErrorCode::InDoubt,
        ErrorCode::TooLarge,
        ErrorCode::Conflict,
        ErrorCode::ResourceExhausted,
        ErrorCode::Internal,
        ErrorCode::Unavailable,
    ];

    /// The status it travels with.
    pub fn status(self) -> u16 {
        match self {
            ErrorCode::InvalidArgument => 400,
            ErrorCode::Unauthenticated => 401,
            ErrorCode::PermissionDenied => 403,
            ErrorCode::NotFound => 404,
            ErrorCode::MethodNotAllowed => 405,
            ErrorCode::RequestTimeout => 408,
            ErrorCode::FailedPrecondition
            | ErrorCode::StaleLease
            | ErrorCode::StaleFence
            | ErrorCode::AlreadyExists
            | ErrorCode::InProgress
            | ErrorCode::InDoubt => 409,
            ErrorCode::TooLarge => 413,
            ErrorCode::Conflict => 422,
            ErrorCode::ResourceExhausted => 429,
            ErrorCode::Internal => 500,
            ErrorCode::Unavailable => 503,
        }
    }

    /// Whether the same bytes, sent again later, can succeed.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            ErrorCode::RequestTimeout
                | ErrorCode::InProgress
                | ErrorCode::InDoubt
                | ErrorCode::ResourceExhausted
                | ErrorCode::Unavailable
        )
    }
}

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Error {
    /// For programs.
    pub error: ErrorCode,
    /// For people; may change.
    pub message: String,
    /// Whether the same bytes, sent again later, can succeed.
    pub retryable: bool,
    /// Names the request in the server's log.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// What else this kind of error says.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Error {
    /// An error that says no more than this.
    pub fn new(error: ErrorCode, message: impl Into<String>) -> Error {
        Error {
            error,
            message: message.into(),
            retryable: error.is_retryable(),
            request_id: String::new(),
            more: Map::new(),
        }
    }

    /// With one more field.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Error {
        self.more.insert(field.to_owned(), value.into());
        self
    }
}
