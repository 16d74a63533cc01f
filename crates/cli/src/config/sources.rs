//! Sources of configuration values: a file, the environment and flags, in rising precedence.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::key::{KEYS, Key};

/// A value and its source.
pub(crate) struct SourcedValue {
    pub(crate) key: &'static Key,
    pub(crate) text: String,
    /// `driftq.toml:7`, `DRIFTQ_LISTEN` or `--listen`.
    pub(crate) place: String,
}

/// Values from the command line and the environment.
pub(crate) struct Flags {
    file: Option<PathBuf>,
    given: Vec<SourcedValue>,
}

/// The file that is read if none is named and it exists.
const FILE: &str = "driftq.toml";

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .env("DRIFTQ_CONFIG")
            .hide_env(true)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Configuration file; the environment and flags override it [default: driftq.toml if it exists, env: DRIFTQ_CONFIG]")
            .help_heading("Configuration");
        // `--api-key-file` is a global option, because clients use it too.
        let own = KEYS.iter().filter(|key| key.name != "api_key_file");
        command.arg(file).args(own.map(Key::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args(command)
    }
}

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags, clap::Error> {
        let given = |key: &'static Key| {
            let source = matches.value_source(key.name)?;
            let values = matches.get_raw(key.name)?.map(|value| value.to_string_lossy());
            let text = values.collect::<Vec<_>>().join(",");
            if source == ValueSource::CommandLine {
                return Some(SourcedValue { key, text, place: format!("--{}", key.flag()) });
            }
            // Treat an empty environment variable as unset.
            let is_given = source == ValueSource::EnvVariable && !text.is_empty();
            is_given.then(|| SourcedValue { key, text, place: key.variable() })
        };
        let file = matches.get_one::<PathBuf>("config").cloned();
        let file = file.filter(|file| !file.as_os_str().is_empty());
        Ok(Flags { file, given: KEYS.iter().filter_map(given).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Flags::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Flags {
    /// Returns all values in rising precedence, and the errors of the sources.
    pub(crate) fn all(self) -> (Vec<SourcedValue>, Vec<String>) {
        let (mut given, mut faults) = match &self.file {
            Some(file) => read(file),
            None if Path::new(FILE).exists() => unasked(read(Path::new(FILE))),
            None => (Vec::new(), Vec::new()),
        };
        faults.extend(strangers(std::env::vars_os().map(|(name, _)| name)));
        given.extend(self.given);
        (given, faults)
    }
}

/// Rejects `insecure` in a file that was found in the working directory and not named. Another user
/// may have written that file, so it must not expose the server.
fn unasked(
    (given, mut faults): (Vec<SourcedValue>, Vec<String>),
) -> (Vec<SourcedValue>, Vec<String>) {
    let (opening, given): (Vec<_>, Vec<_>) =
        given.into_iter().partition(|given| given.key.name == "insecure" && given.text != "false");
    faults.extend(opening.into_iter().map(|given| {
        let message = "cannot be set in a driftq.toml that was not named";
        let next = "name the file with --config, or use --insecure";
        format!("{}: `insecure`: {message}; {next}", given.place)
    }));
    (given, faults)
}

/// Reports unknown `DRIFTQ_` variables that resemble a known one. All others are ignored, because
/// supervisors such as Kubernetes create variables with this prefix.
fn strangers(names: impl Iterator<Item = std::ffi::OsString>) -> Vec<String> {
    let known: Vec<String> = KEYS.iter().map(Key::variable).collect();
    let others = ["DRIFTQ_API_KEY", "DRIFTQ_CA_FILE", "DRIFTQ_CONFIG", "DRIFTQ_URL"];
    let names = names.filter_map(|name| name.into_string().ok());
    let strange = names.filter(|name| {
        name.starts_with("DRIFTQ_") && !known.contains(name) && !others.contains(&name.as_str())
    });
    let meant = |name: &String| known.iter().find(|known| strsim::osa_distance(known, name) <= 2);
    let print_result = strange.filter_map(|name| {
        Some(format!("{name}: unknown variable; did you mean `{}`?", meant(&name)?))
    });
    print_result.collect()
}

/// Returns the values of a file, and its errors.
fn read(path: &Path) -> (Vec<SourcedValue>, Vec<String>) {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return (Vec::new(), vec![format!("{}: {error}", path.display())]),
    };
    let place = |at: usize| {
        let line = 1 + text[..at.min(text.len())].matches('\n').count();
        format!("{}:{line}", path.display())
    };
    let table = match DeTable::parse(&text) {
        Ok(table) => table,
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let above = text[..at.min(text.len())].matches('\n').count();
            let line = text.lines().nth(above).unwrap_or_default().trim();
            // The parser takes a string without quotes for a number.
            let is_unquoted = error.message().starts_with("invalid");
            let hint = if is_unquoted { " (a string must be in quotes)" } else { "" };
            let message = format!("{}: `{line}`: {}{hint}", place(at), error.message());
            return (Vec::new(), vec![message]);
        }
    };
    let mut leaves = Vec::new();
    gather("", table.get_ref(), &mut leaves);
    // In the order of the file.
    leaves.sort_by_key(|leaf| leaf.at);
    let (mut given, mut faults) = (Vec::new(), Vec::new());
    for Leaf { name, at, text } in leaves {
        match KEYS.iter().find(|key| key.name == name) {
            Some(key) => given.push(SourcedValue { key, text, place: place(at) }),
            None => faults.push(format!("{}: unknown key `{name}`{}", place(at), nearest(&name))),
        }
    }
    (given, faults)
}

/// A value that is not a table.
struct Leaf {
    name: String,
    at: usize,
    text: String,
}

fn gather(above: &str, table: &DeTable<'_>, leaves: &mut Vec<Leaf>) {
    for (key, value) in table {
        let name = format!("{above}{}", key.get_ref());
        if let DeValue::Table(below) = value.get_ref()
            && !below.is_empty()
        {
            gather(&format!("{name}."), below, leaves);
        } else {
            leaves.push(Leaf { name, at: key.span().start, text: text(value.get_ref()) });
        }
    }
}

/// Formats a TOML value as it would be written in an environment variable.
fn text(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| number.to_string(), |number| number.to_string()),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(is_so) => is_so.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        // Rules are read as JSON.
        DeValue::Array(items) if items.iter().any(|item| item.get_ref().is_table()) => {
            json(value).to_string()
        }
        DeValue::Array(items) => {
            items.iter().map(|item| text(item.get_ref())).collect::<Vec<_>>().join(",")
        }
        DeValue::Table(_) => String::new(),
    }
}

fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref())))
            .collect(),
        DeValue::String(text) => text.to_string().into(),
        other => serde_json::from_str(&text(other)).unwrap_or_else(|_| text(other).into()),
    }
}

fn nearest(name: &str) -> String {
    let likeness = |key: &&Key| strsim::jaro_winkler(key.name, name);
    let best = KEYS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let best = best.filter(|best| likeness(best) > 0.7);
    best.map_or_else(String::new, |best| format!("; did you mean `{}`?", best.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_looks_like_one_of_ours_is_found_and_others_are_left_alone() {
        let names = [
            "DRIFTQ_LISTN",
            "DRIFTQ_LIMITS__VALUE_BYTES",
            "DRIFTQ_LISTEN",
            "DRIFTQ_CONFIG",
            "DRIFTQ_PORT",
            "DRIFTQ_SERVICE_HOST",
            "LISTEN",
        ];
        assert_eq!(
            strangers(names.into_iter().map(Into::into)),
            [
                "DRIFTQ_LISTN: unknown variable; did you mean `DRIFTQ_LISTEN`?",
                "DRIFTQ_LIMITS__VALUE_BYTES: unknown variable; did you mean `DRIFTQ_LIMITS_VALUE_BYTES`?",
            ]
        );
    }
}
