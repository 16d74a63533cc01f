//! Answers for people as tables, for programs as JSON. Data goes to standard output, talk to standard
//! error; nothing else in this program prints. What people see has control characters escaped: keys, owners and
//! errors are texts of others.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::time::Duration;

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::answer::Shown;
use crate::escape::{escaped, escaped_lines};

/// How to show answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// The answer as the server gave it
    Json,
    /// One line per item
    Ndjson,
}

/// A column: its title, and where it is in an item.
pub(crate) type Column = (&'static str, &'static str);

/// One line of data.
pub(crate) fn line(text: impl Display) {
    let mut out = io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
        // Whoever read it has what it wanted: `driftq peek orders | head -1`.
        if error.kind() == io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        talk(format_args!("error: cannot write: {error}"));
        std::process::exit(1);
    }
}

/// One line for whoever looks on.
pub(crate) fn talk(text: impl Display) {
    // There is nobody left to tell that nobody listens.
    let _unheard = writeln!(io::stderr(), "{}", escaped_lines(&text.to_string()));
}

/// How far it got, for people who look on: it shows itself on a terminal only, and leaves nothing behind.
pub(crate) fn spinner(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
    let spinner = ProgressBar::new_spinner().with_style(style.expect("the template is right"));
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner.with_message(what)
}

/// A list that the answer has under `items`.
pub(crate) fn list(format: Format, answer: &impl Shown, items: &str, columns: &[Column]) {
    match format {
        Format::Json => line(answer.whole()),
        Format::Ndjson => answer.lines(items).into_iter().for_each(line),
        Format::Table => {
            let answer = answer.read();
            let mut table = empty();
            table.set_header(columns.iter().map(|(title, _)| *title));
            for row in answer[items].as_array().into_iter().flatten() {
                table.add_row(columns.iter().map(|(_, path)| cell(at(row, path))));
            }
            line(shown(table));
            if !answer["next_cursor"].is_null() {
                let cursor = cell(&answer["next_cursor"]);
                talk(format_args!("there is more: repeat with --cursor {cursor}"));
            }
        }
    }
}

/// One thing, a line for each of its fields.
pub(crate) fn one(format: Format, answer: &impl Shown, fields: &[Column]) {
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

/// A sentence for people; the answer for programs.
pub(crate) fn said(format: Format, answer: &impl Shown, sentence: &str) {
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

/// From the first column on, without a margin: lines are for `grep` and `cut` too.
fn shown(mut table: Table) -> String {
    table.column_iter_mut().for_each(|column| _ = column.set_padding((0, 2)));
    table.trim_fmt()
}

/// `a.b` is the `b` of the `a`.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, name| &value[name])
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escaped(text).into_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            // In the form in which `driftq topic set` takes it.
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
