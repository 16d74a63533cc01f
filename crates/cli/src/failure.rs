//! What went wrong, and the exit code that says it to scripts.

use std::process::ExitCode;

use serde_json::Value;

/// The server refused, or did not answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It answered with an error.
    Refused {
        /// The status of the answer.
        status: u16,
        /// The body of the answer.
        body: Value,
    },
    /// It did not answer.
    Unreachable(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Refused { status, body } => {
                let code = body["error"].as_str().unwrap_or("unknown error");
                let says = body["message"].as_str().unwrap_or("the server does not say why");
                write!(f, "{says} ({code}, {status})")
            }
            Failure::Unreachable(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Failure {}

/// 0 is success and 2 a wrong command line; the rest is in the reference of the CLI.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    let code = match error.downcast_ref::<Failure>() {
        Some(Failure::Refused { status, .. }) => match status {
            400 | 405 | 413 => 2,
            404 => 3,
            409 | 422 => 4,
            401 | 403 => 5,
            429 => 6,
            503 => 7,
            _ => 1,
        },
        Some(Failure::Unreachable(_)) => 7,
        None => 1,
    };
    ExitCode::from(code)
}
