//! The table of configuration keys. The configuration file, the environment variables, the flags
//! and the output of `driftq config` are derived from it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Arg;
use driftq_server::config::{
    Config, EngineConfig, Fault, HookConfig, RouterConfig, RoutingRule, Secret, Settings, TlsFiles,
    v1_defaults,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::duration::{FORMS, milliseconds};

/// A configuration key.
pub(crate) struct Key {
    /// Name in a configuration file.
    pub(crate) name: &'static str,
    /// Format of the value, as shown in help and errors.
    pub(crate) form: &'static str,
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

/// The form of a number of milliseconds.
const DURATION: &str = "DURATION";
/// The form of a list of tables.
const RULES: &str = "RULES";
const YES_OR_NO: &str = "true|false";

/// All keys. `defaults.profile` comes before the settings that it changes, because values are
/// applied in this order.
#[rustfmt::skip]
pub(crate) const KEYS: &[Key] = &[
    key("listen", "IP:PORT", "Address to listen on", |t| &mut t.server.listen),
    key("engine", "memory|sqlite|postgres", "Storage engine", |t| &mut t.engine),
    key("data", "DIR", "Data directory of the sqlite engine", |t| &mut t.data),
    key("database_url", "URL|none", "Database of the postgres engine", |t| &mut t.database_url),
    key("api_key_file", "FILE|none", "File with the API key that every request must carry, except health checks, and in its second line the previous key; read again when it changes", |t| &mut t.server.api_key_file),
    key("tls_cert_file", "FILE|none", "Certificate of the server and its issuers, as PEM; read again when it changes; none: connections are not encrypted", |t| &mut t.tls_cert_file),
    key("tls_key_file", "FILE|none", "Private key of the certificate, as PEM", |t| &mut t.tls_key_file),
    key("insecure", YES_OR_NO, "Allow a non-loopback listen address without an API key", |t| &mut t.server.insecure),
    key("log", "error|warn|info|debug|trace", "Least severe level to log", |t| &mut t.log),
    key("log_format", "text|json", "Format of log lines", |t| &mut t.log_format),
    key("metrics_listen", "IP:PORT|none", "Additional address that serves /metrics and nothing else, without a key and without TLS", |t| &mut t.server.metrics_listen),
    key("otlp_endpoint", "URL|none", "OpenTelemetry collector that receives traces over OTLP/HTTP, such as http://127.0.0.1:4318; none: no traces", |t| &mut t.server.otlp_endpoint),
    key("router.rules", RULES, "Rules that decide to which topic a message goes; the first that matches counts", |t| &mut t.router_rules),
    key("router.url", "URL|none", "Service that decides to which topic a message goes, instead of rules; called once for each produce request", |t| &mut t.router_url),
    key("router.timeout_ms", "DURATION", "Time that a produce waits for that service, between 10ms and 1m", |t| &mut t.router_timeout_ms),
    key("router.on_error", "accept|reject", "What happens to a produced message about which the router fails: it goes where its producer sent it, or is rejected", |t| &mut t.server.on_router_error),
    key("http.allowed_origins", "ORIGIN,...|none", "Origins of web pages that may send requests and read responses", |t| &mut t.server.allowed_origins),
    key("http.allowed_hosts", "HOST,...|none", "Host names that requests may use, besides localhost; none: a non-loopback listener accepts every name", |t| &mut t.server.allowed_hosts),
    key("limits.value_bytes", "BYTES", "Maximum size of a message value, at most 16 MiB", |t| &mut t.server.value_bytes),
    key("limits.body_bytes", "BYTES", "Maximum size of a request body, at least twice limits.value_bytes, at most 64 MiB", |t| &mut t.server.limits.body_bytes),
    key("limits.stream_bytes", "BYTES", "Maximum unsettled bytes of a stream or a receive", |t| &mut t.server.limits.stream_bytes),
    key("limits.connections", "COUNT", "Maximum number of connections, between 1 and 1048576; at the limit, idle connections are closed to accept new ones", |t| &mut t.server.limits.connections),
    key("memory.budget_bytes", "BYTES|none", "Memory for requests, messages and consumers, at least 256 MiB; none: half of the memory of the machine or container", |t| &mut t.server.memory_budget_bytes),
    key("storage.min_free_bytes", "BYTES", "Disk space to keep free; with less, new messages and effects are rejected", |t| &mut t.server.min_free_bytes),
    key("storage.shards", "COUNT|none", "Number of shards, between 1 and 1024, fixed when the storage is created; none: 64 on postgres, 1 otherwise", |t| &mut t.server.shards),
    key("cluster.advertise", "URL|none", "URL at which the other nodes of the database reach this node; none: the listen address", |t| &mut t.server.advertise),
    key("cluster.lease_ms", "DURATION", "Time without a renewal after which a node loses its shards, between 3s and 60s", |t| &mut t.server.node_lease_ms),
    key("defaults.profile", "v1|none", "Preset for the other defaults; v1: the defaults of the Go project DriftQ-Core v1", |t| &mut t.defaults),
    key("defaults.lease_ms", "DURATION", "Lease of consumers that request none, between 250ms and 12h", |t| &mut t.defaults.settings.lease_ms),
    key("defaults.max_in_flight", "COUNT", "Maximum leased messages per group and partition, between 1 and 100000", |t| &mut t.defaults.settings.max_in_flight),
    key("defaults.max_open", "COUNT", "Maximum messages leased or waiting for a retry per group and partition, between max_in_flight and 1000000", |t| &mut t.defaults.settings.max_open),
    key("defaults.retry_policy.max_attempts", "COUNT", "Attempts before a message is dead-lettered, between 1 and 1000; -1: no limit", |t| &mut t.defaults.settings.retry_policy.max_attempts),
    key("defaults.retry_policy.backoff_ms", "DURATION", "Maximum wait before the first retry; the maximum doubles with each further retry. The actual wait is random, between 10 % and 100 % of the maximum", |t| &mut t.defaults.settings.retry_policy.backoff_ms),
    key("defaults.retry_policy.max_backoff_ms", "DURATION", "Maximum wait before any retry, at most one year", |t| &mut t.defaults.settings.retry_policy.max_backoff_ms),
    key("defaults.max_backlog_messages", "COUNT", "Maximum unsettled messages per partition", |t| &mut t.defaults.settings.max_backlog_messages),
    key("defaults.max_backlog_bytes", "BYTES", "Maximum unsettled bytes per partition", |t| &mut t.defaults.settings.max_backlog_bytes),
    key("defaults.retention_ms", "DURATION", "Time for which settled messages are kept, at most one year", |t| &mut t.defaults.settings.retention_ms),
    key("defaults.retention_bytes", "BYTES", "Maximum bytes of settled messages per topic; the oldest are deleted before retention_ms", |t| &mut t.defaults.settings.retention_bytes),
    key("defaults.dlq_retention_ms", "DURATION|none", "Time for which dead letters are kept, between one minute and ten years; none: forever", |t| &mut t.defaults.settings.dlq_retention_ms),
    key("defaults.dedupe_ttl_ms", "DURATION", "Time for which an idempotency key is remembered, between effect_ttl_ms and one year", |t| &mut t.defaults.settings.dedupe_ttl_ms),
    key("defaults.dedupe_compare", "key|content", "What a message with a known idempotency key is compared by: the key alone, or also key, value, target_topic and partition_override", |t| &mut t.defaults.settings.dedupe_compare),
    key("defaults.effect_ttl_ms", "DURATION", "For effects begun with a lease token and without ttl_ms: time for which their outcome is kept, between one minute and one year", |t| &mut t.defaults.settings.effect_ttl_ms),
    key("defaults.on_doubt", "retry|probe|park|none", "For effects begun with a lease token and without on_doubt: the policy if they are in doubt", |t| &mut t.defaults.settings.on_doubt),
    key("defaults.unkeyed", "first|spread", "Setting unkeyed of new topics, stored with them. Messages without a key go to the first partition, or each commit to the next one. The profile v1 uses first", |t| &mut t.defaults.unkeyed),
    key("defaults.require_token", YES_OR_NO, "Reject settling without a lease token", |t| &mut t.defaults.settings.require_token),
    key("defaults.auto_create_groups", YES_OR_NO, "Create a missing group when a consumer names it", |t| &mut t.defaults.settings.auto_create_groups.0),
    key("defaults.group_idle_ms", "DURATION|none", "Time after which a group without consumers is deleted, unless it is paused; between one minute and one year; none: never", |t| &mut t.defaults.settings.group_idle_ms),
];

impl Key {
    /// The environment variable that sets the key.
    pub(crate) fn variable(&self) -> String {
        format!("DRIFTQ_{}", self.name.replace('.', "_").to_uppercase())
    }

    /// The flag that sets the key, without its dashes.
    pub(crate) fn flag(&self) -> String {
        match self.name {
            // The API uses this name.
            "defaults.profile" => "profile".to_owned(),
            name => name.replace(['.', '_'], "-"),
        }
    }

    /// Returns the clap argument for the flag and the variable. `-h` hides keys of more than one
    /// word; `--help` shows them.
    pub(crate) fn arg(&self) -> Arg {
        let default = self.value_of(&mut RawConfig::default());
        // Leaked because clap needs `'static` names. They are few and created once.
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

    /// Sets the value of the key. Returns false if the text is not a valid value.
    pub(crate) fn put(&self, told: &mut RawConfig, given: &str) -> bool {
        let text = match self.form {
            form if form.starts_with("IP:PORT") => loopback(given),
            form if form.starts_with(DURATION) => {
                milliseconds(given).map_or_else(|_| given.to_owned(), |ms| ms.to_string())
            }
            _ => given.to_owned(),
        };
        (self.slot)(told).put(&text)
    }

    /// Returns why a value is not valid.
    pub(crate) fn fault(&self, given: &str) -> String {
        if self.form == RULES
            && let Err(error) = serde_json::from_str::<Vec<RoutingRule>>(given)
        {
            return error.to_string();
        }
        format!("must be {} (got `{given}`)", self.accepted())
    }

    /// Returns the accepted forms of a value, for errors.
    fn accepted(&self) -> String {
        match self.form.strip_prefix(DURATION) {
            Some(or) => format!("{FORMS}{}", or.replace('|', ", or ")),
            None => self.form.to_owned(),
        }
    }

    /// Returns the value of the key.
    pub(crate) fn value_of(&self, told: &mut RawConfig) -> Value {
        (self.slot)(told).value_of()
    }
}

/// Replaces the name `localhost` by its address. Other names may have several addresses.
pub(crate) fn loopback(listen: &str) -> String {
    match listen.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => listen.to_owned(),
    }
}

/// Formats a value for tables and help.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// The configuration as it is written in files, variables and flags, before validation.
pub(crate) struct RawConfig {
    server: Config,
    engine: Engine,
    data: PathBuf,
    database_url: Option<Secret>,
    tls_cert_file: Option<PathBuf>,
    tls_key_file: Option<PathBuf>,
    router_rules: Vec<RoutingRule>,
    router_url: Option<Secret>,
    router_timeout_ms: u64,
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

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Default topic settings, and the profile they are based on.
struct Defaults {
    profile: Option<Profile>,
    settings: Settings,
    unkeyed: Unkeyed,
}

/// Values of the setting `unkeyed` in the configuration. Storage uses other words for them.
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
            tls_cert_file: None,
            tls_key_file: None,
            router_rules: Vec::new(),
            router_url: None,
            router_timeout_ms: 1_000,
            log: Level::Info,
            log_format: LogFormat::Text,
            defaults: Defaults {
                profile: None,
                settings: server.defaults.clone(),
                unkeyed: Unkeyed::Spread,
            },
            server,
        }
    }
}

impl RawConfig {
    /// Validates the configuration. Returns every fault, not only the first.
    pub(crate) fn server(self) -> Result<Config, Vec<Fault>> {
        let engine = match (self.engine, self.database_url) {
            (Engine::Memory, _) => EngineConfig::Memory,
            (Engine::Sqlite, _) if self.data.as_os_str().is_empty() => {
                let why = "must not be empty; use . for the working directory";
                return Err(vec![Fault { key: "data".to_owned(), why: why.to_owned() }]);
            }
            (Engine::Sqlite, _) => EngineConfig::Sqlite(self.data),
            (Engine::Postgres, Some(url)) => EngineConfig::Postgres(url),
            (Engine::Postgres, None) => {
                let why = "is required by the postgres engine; write it as postgresql://user:password@host/database";
                return Err(vec![Fault { key: "database_url".to_owned(), why: why.to_owned() }]);
            }
        };
        let without = |key: &str, other: &str| {
            let why = format!("is required by {other}");
            vec![Fault { key: key.to_owned(), why }]
        };
        let tls = match (self.tls_cert_file, self.tls_key_file) {
            (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
            (None, None) => None,
            (Some(_), None) => return Err(without("tls_key_file", "--tls-cert-file")),
            (None, Some(_)) => return Err(without("tls_cert_file", "--tls-key-file")),
        };
        let router = match self.router_url {
            Some(_) if !self.router_rules.is_empty() => {
                let why = "is set, and router.rules too; set only one of them".to_owned();
                return Err(vec![Fault { key: "router.url".to_owned(), why }]);
            }
            Some(url) => {
                let timeout = Duration::from_millis(self.router_timeout_ms);
                RouterConfig::Hook(HookConfig { url, timeout })
            }
            None if self.router_rules.is_empty() => RouterConfig::None,
            None => RouterConfig::Rules(self.router_rules),
        };
        let unkeyed_of_new_topics = match self.defaults.unkeyed {
            Unkeyed::First => driftq_server::config::Unkeyed::First,
            Unkeyed::Spread => driftq_server::config::Unkeyed::Spread,
        };
        let is_v1 = self.defaults.profile.is_some();
        let mut defaults = self.defaults.settings;
        if is_v1 {
            // The profile counts messages until they are acked, so it sets both limits to the same.
            defaults.max_open = defaults.max_open.max(defaults.max_in_flight);
        }
        let config = Config {
            engine,
            api_key: crate::client::key_variable().map(Into::into),
            tls,
            router,
            is_v1,
            defaults,
            unkeyed_of_new_topics,
            commit: crate::version::COMMIT,
            ..self.server
        };
        let faults = config.faults();
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }
}

/// A field of [`RawConfig`].
trait Slot {
    /// Parses and sets the value. Returns false if the text is not a valid value.
    fn put(&mut self, given: &str) -> bool;
    /// Returns the current value.
    fn value_of(&self) -> Value;
}

impl<T: Serialize + DeserializeOwned> Slot for T {
    /// Tries the text as null, JSON, a string and a list; the first that fits the type is used.
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

    fn value_of(&self) -> Value {
        serde_json::to_value(self).expect("configuration values serialize to JSON")
    }
}

impl Slot for Defaults {
    fn put(&mut self, given: &str) -> bool {
        let is_one = self.profile.put(given);
        (self.settings, self.unkeyed) = match self.profile {
            Some(Profile::V1) => (v1_defaults(), Unkeyed::First),
            None => (Config::local(EngineConfig::Memory).defaults, Unkeyed::Spread),
        };
        is_one
    }

    fn value_of(&self) -> Value {
        self.profile.value_of()
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
                // `history` cannot be set on a topic either.
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
            let value_of = key.value_of(&mut told);
            assert!(key.put(&mut told, &text(&value_of)), "{}", key.name);
            assert_eq!(key.value_of(&mut told), value_of, "{}", key.name);
        }
    }

    #[test]
    fn a_duration_has_units_or_is_in_milliseconds() {
        for key in KEYS.iter().filter(|key| key.form.starts_with(DURATION)) {
            let mut told = RawConfig::default();
            for (given, ms) in [("1h30m", 5_400_000), ("90000", 90_000)] {
                assert!(key.put(&mut told, given), "{} {given}", key.name);
                assert_eq!(key.value_of(&mut told), ms, "{}", key.name);
            }
            assert!(!key.put(&mut told, "5x"), "{}", key.name);
        }
        let in_ms = KEYS.iter().filter(|key| key.name.ends_with("_ms"));
        assert!(in_ms.clone().count() > 5);
        for key in in_ms {
            assert!(key.form.starts_with(DURATION), "{}", key.name);
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
