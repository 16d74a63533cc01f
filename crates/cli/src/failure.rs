//! What went wrong, and the exit code that says it to scripts.

use std::process::ExitCode;

use driftq_api::ErrorCode;
use serde_json::Value;

use crate::output;

/// What each exit code means; `driftq --help` and the reference end with it.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed, for a reason that is none of these
  2  wrong input: the command line, the configuration, or a value that the server refuses
  3  not found: the topic, group, message, effect, node or shard is not there
  4  conflict: a lease that is over, another shape or content under the same name
  5  not allowed: the key is missing or wrong
  6  overloaded: nothing was stored, come back later
  7  unreachable: no answer, or none that says whether it happened";

/// It was refused, or there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It cannot be asked like this.
    Usage(String),
    /// The server answered with an error.
    Refused {
        /// The status of the answer.
        status: u16,
        /// The body of the answer.
        body: Value,
    },
    /// The server wants its key.
    NoEntry {
        /// Whether it was sent one.
        has_key: bool,
    },
    /// The server refused some of what it was asked.
    InPart {
        /// How many.
        refused: u64,
        /// The first error.
        first: Value,
    },
    /// It did not answer.
    Unreachable(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Refused { status, body } => {
                let code = body["error"].as_str().unwrap_or("unknown error");
                let message = body["message"].as_str().unwrap_or("the server does not say why");
                write!(f, "{message} ({code}, {status})")
            }
            Failure::NoEntry { has_key: false } => {
                write!(f, "the server wants its key: give --api-key-file (UNAUTHENTICATED, 401)")
            }
            Failure::NoEntry { has_key: true } => {
                let message = "the server refused the key of --api-key-file: it has another";
                write!(f, "{message} (UNAUTHENTICATED, 401)")
            }
            Failure::InPart { refused, .. } => write!(f, "refused: {refused}"),
            Failure::Usage(why) | Failure::Unreachable(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Failure {}

/// The code of [`EXIT_CODES`] that this error is.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    let status = match error.downcast_ref::<Failure>() {
        Some(Failure::Usage(_)) => 400,
        Some(Failure::Refused { status, .. }) => *status,
        Some(Failure::NoEntry { .. }) => 401,
        Some(Failure::InPart { first, .. }) => {
            let code = serde_json::from_value(first["error"].clone());
            code.map_or(500, ErrorCode::status)
        }
        Some(Failure::Unreachable(_)) => 503,
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

/// Says which items of a bulk request were refused, and fails if some were.
pub(crate) fn refused(answer: &Value) -> anyhow::Result<()> {
    let items = answer["results"].as_array().map(Vec::as_slice).unwrap_or_default();
    let errors: Vec<&Value> = items.iter().filter(|item| !item["error"].is_null()).collect();
    for error in &errors {
        output::talk(format_args!("refused: {}", error["message"].as_str().unwrap_or_default()));
    }
    match errors.first() {
        None => Ok(()),
        Some(first) => {
            let (refused, first) = (errors.len() as u64, (*first).clone());
            Err(Failure::InPart { refused, first }.into())
        }
    }
}
