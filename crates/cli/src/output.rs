//! Answers for people as tables, for programs as JSON.

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

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

/// A list that the answer has under `items`.
pub(crate) fn list(format: Format, answer: &Value, items: &str, columns: &[Column]) {
    let rows = answer[items].as_array().map(Vec::as_slice).unwrap_or_default();
    match format {
        Format::Json => println!("{answer:#}"),
        Format::Ndjson => rows.iter().for_each(|row| println!("{row}")),
        Format::Table => {
            let mut table = empty();
            table.set_header(columns.iter().map(|(title, _)| *title));
            for row in rows {
                table.add_row(columns.iter().map(|(_, path)| cell(at(row, path))));
            }
            println!("{table}");
            if !answer["next_cursor"].is_null() {
                eprintln!("there is more: repeat with --cursor {}", cell(&answer["next_cursor"]));
            }
        }
    }
}

/// One thing, a line for each of its fields.
pub(crate) fn one(format: Format, answer: &Value, fields: &[Column]) {
    match format {
        Format::Json => println!("{answer:#}"),
        Format::Ndjson => println!("{answer}"),
        Format::Table => {
            let mut table = empty();
            for (title, path) in fields {
                let value = at(answer, path);
                if !value.is_null() {
                    table.add_row([(*title).to_owned(), cell(value)]);
                }
            }
            println!("{table}");
        }
    }
}

/// A sentence for people; the answer for programs.
pub(crate) fn said(format: Format, answer: &Value, sentence: &str) {
    match format {
        Format::Table => println!("{sentence}"),
        Format::Json => println!("{answer:#}"),
        Format::Ndjson => println!("{answer}"),
    }
}

fn empty() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// `a.b` is the `b` of the `a`.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, name| &value[name])
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let line = |(name, value): (&String, &Value)| format!("{name} = {}", cell(value));
            fields.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
