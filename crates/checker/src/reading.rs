//! Reads histories from files: one event per line.

use std::io::{self, BufRead};

use crate::history::Event;

/// Why a history could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A line could not be read.
    #[error("line {line} cannot be read")]
    Io {
        /// The line number, starting at 1.
        line: usize,
        /// The I/O error.
        source: io::Error,
    },
    /// A line is not an event.
    #[error("line {line} is not an event")]
    NotAnEvent {
        /// The line number, starting at 1.
        line: usize,
        /// The parse error.
        source: serde_json::Error,
    },
}

/// Reads a history of one JSON event per line. Blank lines are ignored.
pub fn read_lines(lines: impl BufRead) -> Result<Vec<Event>, ReadError> {
    let mut events = Vec::new();
    for (i, text) in lines.lines().enumerate() {
        let line = i + 1;
        let text = text.map_err(|source| ReadError::Io { line, source })?;
        if text.trim().is_empty() {
            continue;
        }
        let event =
            serde_json::from_str(&text).map_err(|source| ReadError::NotAnEvent { line, source })?;
        events.push(event);
    }
    Ok(events)
}
