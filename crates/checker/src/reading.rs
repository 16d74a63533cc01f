//! Histories as files: one event a line.

use std::io::{self, BufRead};

use crate::history::Event;

/// Why a history could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file ended in an error.
    #[error("line {line} cannot be read")]
    Io {
        /// Which line, from 1.
        line: usize,
        /// What the reader said.
        source: io::Error,
    },
    /// A line is not an event.
    #[error("line {line} is not an event")]
    NotAnEvent {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// Reads a history of one JSON event a line; blank lines are ignored.
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
