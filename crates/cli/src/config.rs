//! `driftq config`: the values a server would start with, and the source of each.

mod key;
mod sources;

use clap::Args;
use driftq_server::config::Config;
use serde_json::{Value, json};

use crate::cli_error::CliError;
use crate::output::{self, Format};
use key::{KEYS, RawConfig};
use sources::SourcedValue;

pub(crate) use key::{Level, LogFormat, loopback};
pub(crate) use sources::Flags;

/// Show the configuration `serve` would start with and the source of each value
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq config                                  from driftq.toml, the environment and defaults
  driftq config --config staging.toml --listen 127.0.0.1:9000
  driftq config -o json")]
pub(crate) struct Show {
    #[command(flatten)]
    flags: Flags,
}

impl Show {
    pub(crate) fn run(self, format: Format) -> anyhow::Result<()> {
        let effective = effective(self.flags)?;
        let rows: Vec<Value> = effective.rows.iter().map(|row| row.json(format)).collect();
        let columns = [("key", "key"), ("value", "value"), ("from", "from")];
        output::list(format, &json!({ "values": rows }), "values", &columns);
        Ok(())
    }
}

/// A valid configuration.
pub(crate) struct Effective {
    pub(crate) server: Config,
    pub(crate) log: Level,
    pub(crate) log_format: LogFormat,
    pub(crate) rows: Vec<Row>,
}

/// A value and its source.
pub(crate) struct Row {
    key: &'static key::Key,
    value: Value,
    from: String,
}

impl Row {
    fn json(&self, format: Format) -> Value {
        let value = match format {
            Format::Table => key::text(&self.value).into(),
            Format::Json | Format::Ndjson => self.value.clone(),
        };
        json!({
            "key": self.key.name, "value": value, "from": self.from, "form": self.key.form,
            "variable": self.key.variable(), "flag": format!("--{}", self.key.flag()),
            "help": self.key.help,
        })
    }

    pub(crate) fn is_default(&self) -> bool {
        self.from == DEFAULT
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {} ({})", self.key.name, key::text(&self.value), self.from)
    }
}

const DEFAULT: &str = "default";

/// Reads all sources and validates the result before anything starts.
pub(crate) fn effective(flags: Flags) -> anyhow::Result<Effective> {
    let (given, mut faults) = flags.all();
    let mut told = RawConfig::default();
    // In the order of `KEYS`: a profile must be applied before the settings that it changes.
    for key in KEYS {
        for SourcedValue { text, place, .. } in
            given.iter().filter(|given| given.key.name == key.name)
        {
            if !key.put(&mut told, text) {
                faults.push(at(place, key.name, &key.fault(text)));
            }
        }
    }
    // The last source of a key, or of a part of it.
    let place = |name: &str| {
        let is_part = |of: &str| of.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        let mut given = given.iter().rev();
        let found = given.find(|given| given.key.name == name || is_part(given.key.name));
        found.map(|given| given.place.clone())
    };
    let mut untold = RawConfig::default();
    let rows = KEYS.iter().map(|key| {
        let value = key.value_of(&mut told);
        // A value without a source that differs from its default comes from the profile.
        let by_profile = (value != key.value_of(&mut untold)).then(|| "profile v1".to_owned());
        let from = place(key.name).or(by_profile).unwrap_or_else(|| DEFAULT.to_owned());
        Row { key, value, from }
    });
    let rows = rows.collect();
    let (log, log_format) = (told.log, told.log_format);
    let server = told.server().map_err(|wrong| {
        faults.extend(wrong.into_iter().map(|fault| {
            let key = KEYS.iter().find(|key| key.name == fault.key);
            let flag = || key.map_or_else(|| fault.key.clone(), |key| format!("--{}", key.flag()));
            at(&place(&fault.key).unwrap_or_else(flag), &fault.key, &fault.why)
        }));
    });
    match server {
        Ok(server) if faults.is_empty() => Ok(Effective { server, log, log_format, rows }),
        Ok(_) | Err(()) => Err(CliError::Usage(faults.join("\n")).into()),
    }
}

/// Formats a fault. The key is added only for files, because flags and variables contain it.
fn at(place: &str, key: &str, why: &str) -> String {
    if place.starts_with("--") || place.starts_with("DRIFTQ_") {
        format!("{place}: {why}")
    } else {
        format!("{place}: `{key}`: {why}")
    }
}
