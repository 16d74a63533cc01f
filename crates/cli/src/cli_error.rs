//! Errors of commands, and the exit code of each.

use std::process::ExitCode;

use driftq_api::ErrorCode;
use serde_json::Value;

use crate::output;

/// The meaning of each exit code, for `driftq --help` and the reference.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  failure for any other reason
  2  invalid input: the command line, the configuration, or a value that the server rejects
  3  not found: the topic, group, message, effect, node or shard does not exist
  4  conflict: the attempt has ended, or the name is used with different settings or content
  5  unauthorized: the API key is missing or invalid
  6  overloaded: nothing was stored; retry later
  7  unreachable: no response, or the outcome of the request is unknown";

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The command line, the configuration or the input is invalid.
    Usage(String),
    /// The server returned an error.
    Refused { status: u16, body: Value },
    /// The server requires an API key.
    Unauthenticated {
        /// Whether the request carried a key.
        has_key: bool,
    },
    /// The server rejected some items of a bulk request.
    PartlyRejected {
        /// The number of rejected items.
        refused: u64,
        /// The error of the first.
        first: Value,
    },
    /// The server did not respond.
    Unreachable(String),
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CliError::Refused { status, body } => {
                let code = body["error"].as_str().unwrap_or("unknown error");
                let message = body["message"]
                    .as_str()
                    .unwrap_or("the server returned an error without a message");
                write!(f, "{message} ({code}, {status})")
            }
            CliError::Unauthenticated { has_key: false } => {
                write!(
                    f,
                    "the server requires an API key; set --api-key-file or DRIFTQ_API_KEY (UNAUTHENTICATED, 401)"
                )
            }
            CliError::Unauthenticated { has_key: true } => {
                let message = "the server rejected the API key";
                write!(f, "{message} (UNAUTHENTICATED, 401)")
            }
            CliError::PartlyRejected { refused, .. } => write!(f, "rejected: {refused}"),
            CliError::Usage(why) | CliError::Unreachable(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for CliError {}

/// Returns the exit code of an error, as listed in [`EXIT_CODES`].
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    let status = match error.downcast_ref::<CliError>() {
        Some(CliError::Usage(_)) => 400,
        Some(CliError::Refused { status, .. }) => *status,
        Some(CliError::Unauthenticated { .. }) => 401,
        Some(CliError::PartlyRejected { first, .. }) => {
            let code = serde_json::from_value(first["error"].clone());
            code.map_or(500, ErrorCode::status)
        }
        Some(CliError::Unreachable(_)) => 503,
        None => 500,
    };
    ExitCode::from(match status {
        400 | 405 | 413 => 2,
        404 => 3,
        409 | 422 => 4,
        401 | 403 => 5,
        429 => 6,
        408 | 503 => 7,
        _ => 1,
    })
}

/// Prints the rejected items of a bulk request. Fails if there are any.
pub(crate) fn refused(answer: &Value) -> anyhow::Result<()> {
    let items = answer["results"].as_array().map(Vec::as_slice).unwrap_or_default();
    let errors: Vec<&Value> = items.iter().filter(|item| !item["error"].is_null()).collect();
    for error in &errors {
        output::talk(format_args!("rejected: {}", error["message"].as_str().unwrap_or_default()));
    }
    match errors.first() {
        None => Ok(()),
        Some(first) => {
            let (refused, first) = (errors.len() as u64, (*first).clone());
            Err(CliError::PartlyRejected { refused, first }.into())
        }
    }
}
