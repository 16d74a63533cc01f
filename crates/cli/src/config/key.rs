//! Every value a server can be told, one row each. The file, the environment, the flags and what
//! `driftq config` prints are made of this table.

use std::path::PathBuf;

use clap::Arg;
use driftq_server::config::{Config, EngineConfig, Fault, Secret, Settings, v1_defaults};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One row.
pub(crate) struct Key {
    /// Its name in a file.
    pub(crate) name: &'static str,
    /// What a value looks like.
    pub(crate) form: &'static str,
    /// What it is for.
    pub(crate) help: &'static str,
    slot: fn(&mut RawConfig) -> &mut dyn Slot,
}

const fn key(
    name: &'static str,
    form: &'static str,
    help: &'static str,
    slot: fn(&mut RawConfig) -> &mut dyn Slot,
) -> Key {
    Key { name, form, help, slot }
}

const YES_OR_NO: &str = "true|false";

/// All rows. A profile comes before the settings that it changes.
#[rustfmt::skip]
pub(crate) const KEYS: &[Key] = &[
    key("listen", "IP:PORT", "Where to listen", |t| &mut t.server.listen),
    key("engine", "memory|sqlite|postgres", "Where rows live", |t| &mut t.engine),
    key("data", "DIR", "The data directory of the sqlite engine", |t| &mut t.data),
    key("database_url", "URL|none", "The database of the postgres engine", |t| &mut t.database_url),
    key("api_key_file", "FILE|none", "A file whose first line is the key that every request must carry", |t| &mut t.api_key_file),
    key("insecure", YES_OR_NO, "Listen to other machines without a key", |t| &mut t.server.insecure),
    key("log", "error|warn|info|debug|trace", "What is worth a line in the log", |t| &mut t.log),
    key("log_format", "text|json", "What a line of the log looks like", |t| &mut t.log_format),
    key("http.allowed_origins", "ORIGIN,...", "Origins of web pages that may send requests and read answers", |t| &mut t.server.allowed_origins),
    key("http.allowed_hosts", "HOST,...", "Names by which clients may call the server, beside localhost; without any, a listener beyond loopback accepts every name", |t| &mut t.server.allowed_hosts),
    key("limits.value_bytes", "BYTES", "The largest value, up to 16 MiB", |t| &mut t.server.value_bytes),
    key("limits.body_bytes", "BYTES", "The largest request, at least two values, up to 64 MiB", |t| &mut t.server.limits.body_bytes),
    key("limits.stream_bytes", "BYTES", "Unsettled bytes that one stream may hold", |t| &mut t.server.limits.stream_bytes),
    key("limits.connections", "COUNT", "Connections at a time; beyond, idle ones are closed for new ones", |t| &mut t.server.limits.connections),
    key("memory.budget_bytes", "BYTES|none", "Memory for requests, messages and consumers, at least 256 MiB; none is half of the machine's or the container's", |t| &mut t.server.memory_budget_bytes),
    key("storage.min_free_bytes", "BYTES", "Disk space to leave free: with less, nothing new is stored", |t| &mut t.server.min_free_bytes),
    key("storage.shards", "COUNT|none", "Shards that a new storage gets, for good; none is 64 on postgres, else one", |t| &mut t.server.shards),
    key("cluster.advertise", "URL|none", "Where other nodes on the same database reach this one; none is the listener", |t| &mut t.server.advertise),
    key("cluster.lease_ms", "MS", "A node that is not heard for so long loses its shards", |t| &mut t.server.node_lease_ms),
    key("defaults.profile", "v1|none", "Other defaults to begin with: v1 has those of the first contract", |t| &mut t.defaults),
    key("defaults.lease_ms", "MS", "The lease of consumers that name none", |t| &mut t.defaults.settings.lease_ms),
    key("defaults.max_in_flight", "COUNT", "Leased at a time per group and partition", |t| &mut t.defaults.settings.max_in_flight),
    key("defaults.max_open", "COUNT", "Leased or waiting for a retry per group and partition", |t| &mut t.defaults.settings.max_open),
    key("defaults.retry_policy.max_attempts", "COUNT", "Deliveries of a message before it is a dead letter; -1 is for ever", |t| &mut t.defaults.settings.retry_policy.max_attempts),
    key("defaults.retry_policy.backoff_ms", "MS", "The wait after a first failure; it doubles", |t| &mut t.defaults.settings.retry_policy.backoff_ms),
    key("defaults.retry_policy.max_backoff_ms", "MS", "The longest wait after a failure", |t| &mut t.defaults.settings.retry_policy.max_backoff_ms),
    key("defaults.max_backlog_messages", "COUNT", "Unsettled messages that a partition takes", |t| &mut t.defaults.settings.max_backlog_messages),
    key("defaults.max_backlog_bytes", "BYTES", "Unsettled bytes that a partition takes", |t| &mut t.defaults.settings.max_backlog_bytes),
    key("defaults.retention_ms", "MS", "How long settled messages stay", |t| &mut t.defaults.settings.retention_ms),
    key("defaults.retention_bytes", "BYTES", "Settled bytes beyond this go earlier", |t| &mut t.defaults.settings.retention_bytes),
    key("defaults.dlq_retention_ms", "MS|none", "How long dead letters stay; none is for ever", |t| &mut t.defaults.settings.dlq_retention_ms),
    key("defaults.dedupe_ttl_ms", "MS", "How long an idempotency key is taken", |t| &mut t.defaults.settings.dedupe_ttl_ms),
    key("defaults.effect_ttl_ms", "MS", "How long the outcome of an effect is kept", |t| &mut t.defaults.settings.effect_ttl_ms),
    key("defaults.on_doubt", "retry|probe|park|none", "What becomes of effects whose outcome nobody knows", |t| &mut t.defaults.settings.on_doubt),
    key("defaults.unkeyed", "first|spread", "Partition of messages without a key: the first one, or each in turn", |t| &mut t.defaults.unkeyed),
    key("defaults.require_token", YES_OR_NO, "Refuse settling by owner alone", |t| &mut t.defaults.settings.require_token),
    key("defaults.auto_create_groups", YES_OR_NO, "Create a missing group when a consumer names it", |t| &mut t.defaults.settings.auto_create_groups.0),
    key("defaults.group_idle_ms", "MS|none", "Delete groups without consumers for so long", |t| &mut t.defaults.settings.group_idle_ms),
];

impl Key {
    /// The variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("DRIFTQ_{}", self.name.replace('.', "_").to_uppercase())
    }

    /// The flag that sets it, without its dashes.
    pub(crate) fn flag(&self) -> String {
        match self.name {
            // The API names it so.
            "defaults.profile" => "profile".to_owned(),
            name => name.replace(['.', '_'], "-"),
        }
    }

    /// The flag and the variable, as an argument of clap. `-h` shows those that most people need.
    pub(crate) fn arg(&self) -> Arg {
        let default = self.shown(&mut RawConfig::default());
        // Leaked: clap wants names that stay, and they are few and made once.
        let arg = Arg::new(self.name)
            .long(&*self.flag().leak())
            .env(&*self.variable().leak())
            .hide_env(true)
            .value_name(self.form)
            .help(format!("{} [default: {}, env: {}]", self.help, text(&default), self.variable()))
            .help_heading("Configuration")
            .allow_negative_numbers(true)
            .hide_short_help(self.flag().contains('-'));
        if self.form == YES_OR_NO {
            return arg.num_args(0..=1).require_equals(true).default_missing_value("true");
        }
        arg
    }

    /// Reads a value into its place. False if it is none.
    pub(crate) fn put(&self, told: &mut RawConfig, given: &str) -> bool {
        (self.slot)(told).put(given)
    }

    /// The value in its place.
    pub(crate) fn shown(&self, told: &mut RawConfig) -> Value {
        (self.slot)(told).shown()
    }
}

/// A value for people.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// What a server was told, in the form in which it is told.
pub(crate) struct RawConfig {
    server: Config,
    engine: Engine,
    data: PathBuf,
    database_url: Option<Secret>,
    api_key_file: Option<PathBuf>,
    pub(crate) log: Level,
    pub(crate) log_format: LogFormat,
    defaults: Defaults,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Engine {
    Memory,
    Sqlite,
    Postgres,
}

/// What is worth a line.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// What a line looks like.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Settings of topics, and the profile that they began with.
struct Defaults {
    profile: Option<Profile>,
    settings: Settings,
    unkeyed: Unkeyed,
}

/// The setting `unkeyed`, which is stored under other words.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unkeyed {
    First,
    Spread,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Profile {
    V1,
}

impl Default for RawConfig {
    fn default() -> RawConfig {
        let server = Config::local(EngineConfig::Memory);
        RawConfig {
            engine: Engine::Sqlite,
            data: "driftq-data".into(),
            database_url: None,
            api_key_file: None,
            log: Level::Info,
            log_format: LogFormat::Text,
            defaults: Defaults {
                profile: None,
                settings: server.defaults.clone(),
                unkeyed: Unkeyed::First,
            },
            server,
        }
    }
}

impl RawConfig {
    /// The configuration of a server, or what is wrong with it.
    pub(crate) fn server(self) -> Result<Config, Vec<Fault>> {
        let engine = match (self.engine, self.database_url) {
            (Engine::Memory, _) => EngineConfig::Memory,
            (Engine::Sqlite, _) if self.data.as_os_str().is_empty() => {
                let why = "is empty: name a directory, or write . for the working directory";
                return Err(vec![Fault { key: "data".to_owned(), why: why.to_owned() }]);
            }
            (Engine::Sqlite, _) => EngineConfig::Sqlite(self.data),
            (Engine::Postgres, Some(url)) => EngineConfig::Postgres(url),
            (Engine::Postgres, None) => {
                let why = "is missing: write it as postgresql://user:password@host/database";
                return Err(vec![Fault { key: "database_url".to_owned(), why: why.to_owned() }]);
            }
        };
        let no_key = |why| vec![Fault { key: "api_key_file".to_owned(), why }];
        let key = self.api_key_file.as_deref().map(crate::client::first_line).transpose();
        let unkeyed = match self.defaults.unkeyed {
            Unkeyed::First => driftq_server::config::Unkeyed::First,
            Unkeyed::Spread => driftq_server::config::Unkeyed::Spread,
        };
        let config = Config {
            engine,
            api_key: key.map_err(no_key)?.map(Into::into),
            defaults: Settings { unkeyed, ..self.defaults.settings },
            commit: crate::version::COMMIT,
            ..self.server
        };
        let faults = config.faults();
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }
}

/// A place for a value.
trait Slot {
    /// Takes a value. False if it is none.
    fn put(&mut self, given: &str) -> bool;
    /// The value that is there.
    fn shown(&self) -> Value;
}

impl<T: Serialize + DeserializeOwned> Slot for T {
    /// Given is text; the type says whether it is a number, a word, a list or nothing.
    fn put(&mut self, given: &str) -> bool {
        let list =
            given.split(',').map(str::trim).filter(|item| !item.is_empty() && *item != "none");
        let readings = [
            (given == "none").then_some(Value::Null),
            serde_json::from_str(given).ok(),
            Some(given.into()),
            Some(list.collect()),
        ];
        let value = readings.into_iter().flatten().find_map(|reading| T::deserialize(reading).ok());
        let is_one = value.is_some();
        if let Some(value) = value {
            *self = value;
        }
        is_one
    }

    fn shown(&self) -> Value {
        serde_json::to_value(self).expect("plain values")
    }
}

impl Slot for Defaults {
    fn put(&mut self, given: &str) -> bool {
        let is_one = self.profile.put(given);
        self.settings = match self.profile {
            Some(Profile::V1) => v1_defaults(),
            None => Config::local(EngineConfig::Memory).defaults,
        };
        is_one
    }

    fn shown(&self) -> Value {
        self.profile.shown()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_flags_and_variables_are_told_apart() {
        let names = |of: fn(&Key) -> String| KEYS.iter().map(of).collect::<BTreeSet<_>>().len();
        assert_eq!(names(|key| key.name.to_owned()), KEYS.len());
        assert_eq!(names(Key::flag), KEYS.len());
        assert_eq!(names(Key::variable), KEYS.len());
    }

    #[test]
    fn every_setting_of_a_topic_has_a_default_that_can_be_set() {
        let settings = serde_json::to_value(&RawConfig::default().defaults.settings).unwrap();
        for (name, value) in settings.as_object().unwrap() {
            let name = match &**name {
                "keyless" => "unkeyed",
                "groups" => "auto_create_groups",
                name => name,
            };
            let has = |name: &str| KEYS.iter().any(|key| key.name == name);
            match value.as_object() {
                // It cannot be set on a topic either.
                None if name == "history" => assert!(!has("defaults.history")),
                None => assert!(has(&format!("defaults.{name}")), "{name}"),
                Some(parts) => {
                    for part in parts.keys() {
                        assert!(has(&format!("defaults.{name}.{part}")), "{name}.{part}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_value_is_read_as_it_is_shown() {
        for key in KEYS {
            let mut told = RawConfig::default();
            let shown = key.shown(&mut told);
            assert!(key.put(&mut told, &text(&shown)), "{}", key.name);
            assert_eq!(key.shown(&mut told), shown, "{}", key.name);
        }
    }

    #[test]
    fn a_word_of_a_form_is_a_value_and_another_is_not() {
        for key in KEYS.iter().filter(|key| key.form.starts_with(char::is_lowercase)) {
            for word in key.form.split('|') {
                assert!(key.put(&mut RawConfig::default(), word), "{} {word}", key.name);
            }
            assert!(!key.put(&mut RawConfig::default(), "perhaps"), "{}", key.name);
        }
    }
}
