//! Prints responses: as tables for people, as JSON for programs.
//!
//! Data goes to standard output, messages go to standard error. No other module prints. Tables and
//! messages have control characters escaped, because keys, owners and errors come from other users.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::time::Duration;

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::answer::Printable;
use crate::escape::{escaped, escaped_lines};

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Table for people
    Table,
    /// Response as the server sent it
    Json,
    /// One line of JSON per item
    Ndjson,
}

/// A column: its title, and the path of its value in an item.
pub(crate) type Column = (&'static str, &'static str);

/// Prints one line of data to standard output.
pub(crate) fn line(text: impl Display) {
    let mut out = io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
        // The reader closed the pipe: `driftq peek orders | head -1`.
        if error.kind() == io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        talk(format_args!("error: cannot write: {error}"));
        std::process::exit(1);
    }
}

/// Prints a message to standard error.
pub(crate) fn talk(text: impl Display) {
    // If standard error is closed, the failure cannot be reported either.
    let _unheard = writeln!(io::stderr(), "{}", escaped_lines(&text.to_string()));
}

/// Prints a question to standard error. The reply is typed on the same line.
pub(crate) fn prompt(question: &str) {
    let mut err = io::stderr();
    // If standard error is closed, the question is lost.
    let _unheard = write!(err, "{question}").and_then(|()| err.flush());
}

/// Shows progress, on a terminal only. It is cleared at the end.
pub(crate) fn spinner(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
    let spinner = ProgressBar::new_spinner().with_style(style.expect("the template is valid"));
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner.with_message(what)
}

/// Prints the list that the response has under `items`.
pub(crate) fn list(format: Format, answer: &impl Printable, items: &str, columns: &[Column]) {
    match format {
        Format::Json => line(answer.whole()),
        Format::Ndjson => answer.lines(items).into_iter().for_each(line),
        Format::Table => {
            let answer = answer.read();
            line(table(answer, items, columns));
            if !answer["next_cursor"].is_null() {
                let cursor = cell(&answer["next_cursor"]);
                talk(format_args!("more results: repeat with --cursor {cursor}"));
            }
        }
    }
}

/// Formats the list that `answer` has under `items`.
pub(crate) fn table(answer: &Value, items: &str, columns: &[Column]) -> String {
    let mut table = empty();
    table.set_header(columns.iter().map(|(title, _)| *title));
    for row in answer[items].as_array().into_iter().flatten() {
        table.add_row(columns.iter().map(|(_, path)| cell(at(row, path))));
    }
    shown(table)
}

/// Formats a value on its own, with control characters escaped.
pub(crate) fn text(value: &Value) -> String {
    cell(value)
}

/// Prints one object, a line per field. Null fields are omitted.
pub(crate) fn one(format: Format, answer: &impl Printable, fields: &[Column]) {
    match format {
        Format::Json => line(answer.whole()),
        Format::Ndjson => line(answer.line()),
        Format::Table => {
            let mut table = empty();
            for (title, path) in fields {
                let value = at(answer.read(), path);
                if !value.is_null() {
                    table.add_row([(*title).to_owned(), cell(value)]);
                }
            }
            line(shown(table));
        }
    }
}

/// Prints `sentence` for people, or the response for programs.
pub(crate) fn print_result(format: Format, answer: &impl Printable, sentence: &str) {
    match format {
        Format::Table => line(escaped_lines(sentence)),
        Format::Json => line(answer.whole()),
        Format::Ndjson => line(answer.line()),
    }
}

fn empty() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// Formats the table without a left margin, so that lines work with `grep` and `cut`.
fn shown(mut table: Table) -> String {
    table.column_iter_mut().for_each(|column| _ = column.set_padding((0, 2)));
    table.trim_fmt()
}

/// Returns the value at a dotted path: `a.b` is field `b` of field `a`.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, name| &value[name])
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escaped(text).into_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            // The format that `driftq topic set` accepts.
            let line = |(name, value): (&String, &Value)| match value {
                Value::String(text) => escaped(&format!("{name}={text}")).into_owned(),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => escaped(&format!("{name}={value}")).into_owned(),
            };
            fields.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
